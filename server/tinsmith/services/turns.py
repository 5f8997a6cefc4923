"""Turns: accept, begin, steer, cancel, wait. Stores a turn, freezes its request, and knows those that run."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import msgspec

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import PersistenceError, ProtocolError, SchemaError
from tinsmith.domain.event import Notice, TurnStarted
from tinsmith.domain.ids import is_valid_id, new_id, now_ms
from tinsmith.domain.message import Message, Part, TextPart, UserMessage
from tinsmith.domain.ports import Model
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.role import ROLES
from tinsmith.domain.settings import Settings
from tinsmith.domain.tool import ToolSpec
from tinsmith.domain.turn import TurnRecord
from tinsmith.services.active import ActiveTurn, Inbox
from tinsmith.services.approvals import Approvals
from tinsmith.services.carrying import Spawn, carried_out
from tinsmith.services.conversations import Conversations, title_of
from tinsmith.services.holding import ConversationHeldError
from tinsmith.services.images import GivenImage, Images
from tinsmith.services.journal import Journal
from tinsmith.services.models import Models
from tinsmith.services.prompts import Scope, system_prompt
from tinsmith.services.queue import Queue
from tinsmith.services.settings import SettingsService
from tinsmith.services.toolbox import offered
from tinsmith.store.codec import clean_text

_log = logging.getLogger(__name__)

REMEMBERED = 1024
"""How many accepted turn ids, and how many cancels that came before their turn, an instance remembers."""

Mode = Literal["start", "steer", "steerOrStart"]
Disposition = Literal["started", "steered"]
Locate = Callable[[str, str], Coroutine[Any, Any, Scope]]
"""Workspace path and index file → the scope of a turn."""


class TurnStart(msgspec.Struct, frozen=True):
    """What somebody asks for. Empty strings mean: not said. `workspace` is an absolute path."""

    workspace: str
    parts: tuple[Part | GivenImage, ...]
    conversation_id: str = ""
    turn_id: str = ""
    mode: Mode = "start"
    role: str = ""
    model: str = ""
    overrides: dict[str, Any] = {}


class Accepted(msgspec.Struct, frozen=True):
    """What became of it."""

    conversation_id: str
    turn_id: str
    disposition: Disposition
    seq: int


class Turns:
    """The turns of this instance, at most one a conversation."""

    def __init__(
        self,
        *,
        conversations: Conversations,
        queue: Queue,
        journal: Journal,
        settings: SettingsService,
        models: Models,
        approvals: Approvals,
        images: Images,
        llm: Model,
        tools: tuple[ToolSpec, ...],
        locate: Locate,
        redact: Callable[[str], str],
        spawn: Spawn,
        instance: str,
    ) -> None:
        self._conversations = conversations
        self._queue = queue
        self._journal = journal
        self._settings = settings
        self._models = models
        self._approvals = approvals
        self._images = images
        self._llm = llm
        self._tools = tools
        self._locate = locate
        self._redact = redact
        self._spawn = spawn
        self._instance = instance
        self._active: dict[str, ActiveTurn] = {}
        self._accepting = asyncio.Lock()
        self._is_closed = False
        self._told_version = 0
        self._answers: OrderedDict[str, Accepted] = OrderedDict()
        self._cancelled_early: OrderedDict[str, None] = OrderedDict()

    async def accept(self, start: TurnStart) -> Accepted:
        """Take a turn in: stored when this returns, running after `begin`. A known turn id gets its first answer again.

        A cancel of the task prevents the turn until it begins to be stored, and comes too late after that. Raises
        SchemaError (`invalidParams`, `modelNotConfigured`, `conversationNotFound`, `noActiveTurn`, `busy`),
        ConversationHeldError, ProtocolError `shutdown` or PersistenceError; nothing has happened then.
        """
        start = _checked(start, self._redact)
        async with self._accepting:
            if start.turn_id in self._answers:
                return self._answers[start.turn_id]
            conversation_id = start.conversation_id or self._conversations.free(start.workspace) or ""
            while (running := await self._joinable(conversation_id)) is not None:
                if start.mode == "start":
                    raise _busy(running)
                parts = await self._images.take_in(start.parts, running.request.root)
                if not running.is_ending:  # by now, after a look at the images
                    return await carried_out(self._spawn, partial(self._join, running, parts), "steer")
            if start.mode == "steer":
                raise SchemaError("noActiveTurn", "No turn runs here, so there is nothing to steer. Start one.")
            return await self._start(conversation_id, start)

    @asynccontextmanager
    async def idle(self, conversation_id: str) -> AsyncGenerator[None]:
        """Let no turn begin in the conversation meanwhile. Raises SchemaError `busy` while one runs in it."""
        async with self._accepting:
            running = self._active.get(conversation_id)
            if running is not None and running.is_ending:
                await running.ended.wait()
                running = None
            if running is not None:
                raise _busy(running)
            yield

    def begin(self, turn_id: str) -> None:
        """Announce an accepted turn and let it run. Does nothing for a turn that has begun already."""
        active = self._find("", turn_id)
        if active is not None and not active.has_begun:
            active.announce(*self._settings_problems())
            self._spawn(self._run(active), f"turn {turn_id}")
            request = active.request
            self._spawn(self._models.learn(request.settings.llm_config, request.model.model), "model list")

    def cancel(self, conversation_id: str, turn_id: str, call_id: str) -> Literal["cancelling", "ended"]:
        """Ask a turn (or one call of it) to stop. Idempotent; a turn that is not accepted yet will end at once.

        Raises ConversationHeldError for a turn that runs in another process.
        """
        active = self._find(conversation_id, turn_id)
        if active is None:
            return self._cancel_absent(turn_id)
        if call_id:
            call = active.request.cancel.find(call_id)
            if call is None:
                return "ended"
            call.cancel()
        else:
            active.stop()
        return "cancelling"

    async def wait(self, turn_id: str, timeout: float | None) -> TurnRecord:
        """The record of the turn once it has ended. Raises TimeoutError, or SchemaError for an unknown turn."""
        active = self._find("", turn_id)
        if active is not None:
            async with asyncio.timeout(timeout):
                await active.ended.wait()
            if active.is_ending:
                return active.record
        record = self._conversations.find_turn(turn_id)
        if record is None:
            raise SchemaError("turnNotFound", f"There is no turn {turn_id}.")
        if record.state != "ended":
            await self._conversations.hold(record.conversation_id)
            record = self._conversations.turn(record.conversation_id, turn_id) or record
        return record

    def active(self, conversation_id: str) -> TurnRecord | None:
        """The record of the turn that runs in the conversation."""
        active = self._active.get(conversation_id)
        return active.record if active else None

    async def stop_all(self, timeout: float) -> None:
        """Accept nothing more, cancel every turn, wait at most `timeout` seconds until each has written its end."""
        self._is_closed = True
        for active in self._active.values():
            active.stop()
        try:
            async with asyncio.timeout(timeout):
                async with self._accepting:  # what is being accepted gets its answer first
                    running = tuple(self._active.values())
                for active in running:
                    active.stop()
                    self.begin(active.record.turn_id)
                for active in running:
                    await active.ended.wait()
        except TimeoutError:
            _log.warning("%d turns did not end in time", len(self._active))

    async def view(self, conversation_id: str) -> TurnRequest:
        """The request as a turn started now would see it, without a new message. For inspection."""
        active = self._active.get(conversation_id)
        if active is not None:
            return active.request
        conversation = self._conversations.get(conversation_id)
        settings = self._settings.effective.settings
        scope = await self._locate(conversation.workspace, settings.index_file)
        history = self._conversations.transcript(conversation_id)
        return self._freeze(conversation, TurnStart(conversation.workspace, ()), settings, scope, history, Inbox())

    async def _joinable(self, conversation_id: str) -> ActiveTurn | None:
        """The turn that runs in the conversation, None once it has ended; one that is about to is waited for."""
        running = self._active.get(conversation_id)
        if running is None or not running.is_ending:
            return running
        await running.ended.wait()
        return None

    async def _join(self, running: ActiveTurn, parts: tuple[Part, ...]) -> Accepted:
        """Let the message wait for the turn. Not to be interrupted: what is stored is also said to be."""
        conversation_id, turn_id = running.record.conversation_id, running.record.turn_id
        message = UserMessage("", turn_id, parts, now_ms(), is_steering=True)
        running.inbox.put(await self._queue.put(conversation_id, message))
        return Accepted(conversation_id, turn_id, "steered", self._journal.seq(conversation_id))

    async def _start(self, conversation_id: str, start: TurnStart) -> Accepted:
        settings = await self._settings.with_overrides(start.overrides)
        known = self._conversations.get(conversation_id) if conversation_id else None
        role = start.role or (known.role if known else "") or settings.active_role
        _check_role(role)
        choice = self._models.choose(settings, role, start.model or (known.model if known else ""))
        await self._models.learn_first(settings.llm_config, choice.model)
        scope = await self._locate(known.workspace if known else start.workspace, settings.index_file)
        parts = await self._images.take_in(start.parts, scope.root or scope.cwd)
        if self._is_closed:
            raise ProtocolError("shutdown", "The server is shutting down. Start it again and send the message again.")
        start = msgspec.structs.replace(start, role=role, turn_id=start.turn_id or new_id("t"))
        return await carried_out(
            self._spawn, lambda: self._store(conversation_id, start, parts, settings, scope), "accept"
        )

    async def _store(
        self, conversation_id: str, start: TurnStart, parts: tuple[Part, ...], settings: Settings, scope: Scope
    ) -> Accepted:
        """Make the turn exist. Not to be interrupted: from its first write on, a turn has exactly one end."""
        conversation = await self._open(conversation_id, start.workspace)
        conversation_id = conversation.conversation_id
        self._conversations.opened(conversation)
        if self._conversations.turn(conversation_id, start.turn_id) is None:
            await self._register(conversation, start, parts, settings, scope)
        accepted = Accepted(conversation_id, start.turn_id, "started", self._journal.seq(conversation_id))
        _remember(self._answers, start.turn_id, accepted)
        return accepted

    async def _open(self, conversation_id: str, workspace: str) -> Conversation:
        if not conversation_id:
            return await self._conversations.new(workspace)
        return await self._conversations.hold(conversation_id)

    async def _register(
        self, conversation: Conversation, start: TurnStart, parts: tuple[Part, ...], settings: Settings, scope: Scope
    ) -> None:
        """From here on the turn can be found and cancelled; it is gone again when it cannot be stored."""
        identifier = conversation.conversation_id
        await self._queue.settle(identifier)
        opening = UserMessage(
            self._conversations.next_message_id(identifier), start.turn_id, parts, created_at=now_ms()
        )
        history = (*self._conversations.transcript(identifier), opening)
        inbox = Inbox()
        request = self._freeze(conversation, start, settings, scope, history, inbox)
        record = TurnRecord(
            start.turn_id,
            identifier,
            opening.text,
            start.role,
            request.model.model,
            opening.created_at,
            instance=self._instance,
        )
        started = TurnStarted(record, opening, "" if conversation.title else title_of(opening.text))
        active = self._active[identifier] = ActiveTurn(
            request, started, inbox, journal=self._journal, conversations=self._conversations, queue=self._queue
        )
        if start.turn_id in self._cancelled_early:
            del self._cancelled_early[start.turn_id]
            request.cancel.cancel()
        try:
            await self._journal.commit(identifier, (started,))
        except PersistenceError:
            del self._active[identifier]
            active.ended.set()
            raise

    def _freeze(
        self,
        conversation: Conversation,
        start: TurnStart,
        settings: Settings,
        scope: Scope,
        history: tuple[Message, ...],
        inbox: Inbox,
    ) -> TurnRequest:
        role = start.role or conversation.role or settings.active_role
        system, tools = system_prompt(role, scope), offered(self._tools, role)
        return TurnRequest(
            conversation_id=conversation.conversation_id,
            turn_id=start.turn_id,
            role=role,
            model=self._models.choose(settings, role, start.model or conversation.model),
            settings=settings,
            cwd=scope.cwd,
            root=scope.root or scope.cwd,
            history=history,
            system=lambda: system,
            tools=lambda: tools,
            edges=conversation.edges,
            conversation_usage=conversation.usage,
            cancel=CancelToken(),
            llm=self._llm,
            journal=self._journal.bind(conversation.conversation_id, start.turn_id),
            approvals=self._approvals,
            inbox=inbox,
            redact=self._redact,
        )

    async def _run(self, active: ActiveTurn) -> None:
        identifier = active.record.conversation_id
        try:
            await active.run()
        finally:
            self._approvals.forget_turn(identifier)
            del self._active[identifier]
            active.ended.set()

    def _cancel_absent(self, turn_id: str) -> Literal["cancelling", "ended"]:
        if not turn_id or turn_id in self._answers:
            return "ended"
        record = self._conversations.find_turn(turn_id)
        if record is None:
            _remember(self._cancelled_early, turn_id, None)
            return "cancelling"
        holder = self._conversations.holder(record.conversation_id) if record.state != "ended" else None
        if holder is not None:
            raise ConversationHeldError(holder)
        return "ended"

    def _settings_problems(self) -> tuple[Notice, ...]:
        """What is wrong with the configuration, said once until it is another."""
        effective = self._settings.effective
        if effective.version == self._told_version:
            return ()
        self._told_version = effective.version
        return tuple(Notice("warning", "settingsProblem", problem.text) for problem in effective.problems)

    def _find(self, conversation_id: str, turn_id: str) -> ActiveTurn | None:
        if not turn_id:
            return self._active.get(conversation_id)
        return next((each for each in self._active.values() if each.record.turn_id == turn_id), None)


def _busy(running: ActiveTurn) -> SchemaError:
    return SchemaError(
        "busy",
        "A turn runs in this conversation. Steer it, or wait for its end.",
        data={"turnId": running.record.turn_id},
    )


def _checked(start: TurnStart, redact: Callable[[str], str]) -> TurnStart:
    """The start without secrets and halves of surrogate pairs, so that what is stored, sent and shown is the same.

    Raises SchemaError for one that says nothing or has a bad id.
    """
    if start.turn_id and not is_valid_id(start.turn_id):
        raise SchemaError("invalidParams", "turnId must match [A-Za-z0-9_-]{1,64}.", data={"path": "turnId"})
    if not any(not isinstance(part, TextPart) or part.text.strip() for part in start.parts):
        raise SchemaError("invalidParams", "Say something: text or input must not be empty.", data={"path": "text"})
    parts = tuple(
        msgspec.structs.replace(part, text=redact(clean_text(part.text))) if isinstance(part, TextPart) else part
        for part in start.parts
    )
    return msgspec.structs.replace(start, parts=parts)


def _check_role(role: str) -> None:
    known = ROLES.get(role)
    if known is None or not known.is_user_facing:
        names = " or ".join(name for name, each in ROLES.items() if each.is_user_facing)
        raise SchemaError("invalidParams", f"The role must be {names}, not {role!r}.", data={"path": "role"})


def _remember(kept: OrderedDict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
