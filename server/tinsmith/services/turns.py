"""Turns: accept, begin, steer, cancel. Freezes the request, runs the engine, writes the one end of each turn."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import InternalError, PersistenceError, SchemaError
from tinsmith.domain.event import (
    Body,
    ConversationChanged,
    Notice,
    SteeringTaken,
    TurnCancelRequested,
    TurnCompleted,
    TurnFailed,
    TurnPersisted,
    TurnStarted,
)
from tinsmith.domain.ids import is_valid_id, new_id, now_ms
from tinsmith.domain.message import Message, Part, TextPart, UserMessage
from tinsmith.domain.ports import Model
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.role import ROLES
from tinsmith.domain.settings import ModelChoice, Settings
from tinsmith.domain.tool import ToolSpec
from tinsmith.domain.turn import TurnEnd, TurnRecord, WindowEdges, advance
from tinsmith.engine.turn import run_turn
from tinsmith.services.approvals import Approvals
from tinsmith.services.conversations import Conversations, title_of
from tinsmith.services.journal import Journal
from tinsmith.services.models import Models
from tinsmith.services.prompts import Scope, system_prompt
from tinsmith.services.settings import SettingsService
from tinsmith.services.toolbox import offered

_log = logging.getLogger(__name__)

REMEMBERED = 1024
"""How many accepted turn ids, and how many cancels that came before their turn, an instance remembers."""

Mode = Literal["start", "steer", "steerOrStart"]
Disposition = Literal["started", "steered"]
Spawn = Callable[[Coroutine[Any, Any, None], str], object]
Locate = Callable[[str, str], Coroutine[Any, Any, Scope]]
"""Workspace path and index file → the scope of a turn."""


class TurnStart(msgspec.Struct, frozen=True):
    """What somebody asks for. Empty strings mean: not said. `workspace` is an absolute path."""

    workspace: str
    parts: tuple[Part, ...]
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


class _Inbox:
    """Steering messages of one turn, until the engine takes them."""

    def __init__(self) -> None:
        self._waiting: list[UserMessage] = []

    def put(self, message: UserMessage) -> None:
        self._waiting.append(message)

    def take(self) -> tuple[UserMessage, ...]:
        taken, self._waiting = tuple(self._waiting), []
        return taken


class _Active:
    """A turn that runs in this instance."""

    def __init__(self, request: TurnRequest, record: TurnRecord, started: TurnStarted, inbox: _Inbox) -> None:
        self.request = request
        self.record = record
        self.started = started
        self.inbox = inbox
        self.ended = asyncio.Event()
        self.has_begun = False


class Turns:
    """The turns of this instance, at most one a conversation."""

    def __init__(
        self,
        *,
        conversations: Conversations,
        journal: Journal,
        settings: SettingsService,
        models: Models,
        approvals: Approvals,
        llm: Model,
        tools: tuple[ToolSpec, ...],
        locate: Locate,
        spawn: Spawn,
        instance: str,
    ) -> None:
        self._conversations = conversations
        self._journal = journal
        self._settings = settings
        self._models = models
        self._approvals = approvals
        self._llm = llm
        self._tools = tools
        self._locate = locate
        self._spawn = spawn
        self._instance = instance
        self._active: dict[str, _Active] = {}
        self._accepting = asyncio.Lock()
        self._told_version = 0
        self._answers: OrderedDict[str, Accepted] = OrderedDict()
        self._cancelled_early: OrderedDict[str, None] = OrderedDict()

    async def accept(self, start: TurnStart) -> Accepted:
        """Take a turn in: stored when this returns, running after `begin`. A known turn id gets its first answer again.

        Raises SchemaError (`invalidParams`, `modelNotConfigured`, `conversationNotFound`, `noActiveTurn`, `busy`),
        ConversationHeld or PersistenceError; nothing has happened then.
        """
        if start.turn_id and not is_valid_id(start.turn_id):
            raise SchemaError("invalidParams", "turnId must match [A-Za-z0-9_-]{1,64}.", data={"path": "turnId"})
        if not any(isinstance(part, TextPart) and part.text.strip() for part in start.parts):
            raise SchemaError("invalidParams", "Say something: text or input must not be empty.", data={"path": "text"})
        async with self._accepting:
            if start.turn_id in self._answers:
                return self._answers[start.turn_id]
            conversation_id = start.conversation_id or self._conversations.active(start.workspace) or ""
            running = self._active.get(conversation_id)
            if start.mode == "steer" and running is None:
                raise SchemaError("noActiveTurn", "No turn runs here, so there is nothing to steer. Start one.")
            if running is not None:
                return self._steer(running, start)
            return await self._start(conversation_id, start)

    def begin(self, turn_id: str) -> None:
        """Announce an accepted turn and let it run. Does nothing for a turn that has begun already."""
        for active in self._active.values():
            if active.record.turn_id == turn_id and not active.has_begun:
                active.has_begun = True
                self._publish(active, active.started, ConversationChanged("running", active.started.title or None))
                self._publish(active, *self._settings_problems())
                self._spawn(self._run(active), f"turn {turn_id}")
                self._spawn(self._models.learn(active.request.settings.llm_config), "model list")
                return

    def cancel(self, conversation_id: str, turn_id: str, call_id: str) -> Literal["cancelling", "ended"]:
        """Ask a turn (or one call of it) to stop. Idempotent; a turn that is not accepted yet will end at once."""
        active = self._find(conversation_id, turn_id)
        if active is None:
            if turn_id and turn_id not in self._answers and self._conversations.find_turn(turn_id) is None:
                _remember(self._cancelled_early, turn_id, None)
                return "cancelling"
            return "ended"
        if call_id:
            call = active.request.cancel.find(call_id)
            if call is None:
                return "ended"
            call.cancel()
        else:
            self._stop(active)
        return "cancelling"

    async def wait(self, turn_id: str, timeout: float | None) -> TurnRecord:
        """The record of the turn once it has ended. Raises TimeoutError, or SchemaError for an unknown turn."""
        active = self._find("", turn_id)
        if active is not None:
            async with asyncio.timeout(timeout):
                await active.ended.wait()
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
        """Cancel every turn and wait, at most `timeout` seconds, until each has written its end."""
        running = list(self._active.values())
        for active in running:
            self._stop(active)
            self.begin(active.record.turn_id)
        try:
            async with asyncio.timeout(timeout):
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
        return await self._freeze(
            conversation, "", settings, conversation.role, conversation.model, history=(), inbox=_Inbox()
        )

    def _steer(self, running: _Active, start: TurnStart) -> Accepted:
        if start.mode == "start":
            raise SchemaError(
                "busy",
                "A turn runs in this conversation. Steer it, or wait for its end.",
                data={"turnId": running.record.turn_id},
            )
        turn_id = running.record.turn_id
        running.inbox.put(UserMessage("", turn_id, start.parts, now_ms(), is_steering=True))
        conversation_id = running.record.conversation_id
        return Accepted(conversation_id, turn_id, "steered", self._journal.seq(conversation_id))

    async def _start(self, conversation_id: str, start: TurnStart) -> Accepted:
        settings = self._settings.with_overrides(start.overrides)
        known = self._conversations.get(conversation_id) if conversation_id else None
        role = start.role or (known.role if known else "") or settings.active_role
        _check_role(role)
        self._models.choose(settings, role, start.model or (known.model if known else ""))
        if known is None:
            conversation = await self._conversations.new(start.workspace)
        else:
            conversation = await self._conversations.hold(conversation_id)
            again = self._conversations.turn(conversation_id, start.turn_id) if start.turn_id else None
            if again is not None:
                return Accepted(conversation_id, again.turn_id, "started", self._journal.seq(conversation_id))
        turn_id = start.turn_id or new_id("t")
        text = "\n".join(part.text for part in start.parts if isinstance(part, TextPart) and not part.label)
        history = self._conversations.transcript(conversation.conversation_id)
        next_id = self._conversations.next_message_id(conversation.conversation_id)
        opening = UserMessage(next_id, turn_id, start.parts, now_ms())
        inbox = _Inbox()
        request = await self._freeze(
            conversation, turn_id, settings, role, start.model, history=(*history, opening), inbox=inbox
        )
        record = TurnRecord(
            turn_id, conversation.conversation_id, text, role, request.model.model, now_ms(), instance=self._instance
        )
        started = TurnStarted(record, opening, "" if conversation.title else title_of(text))
        active = _Active(request, record, started, inbox)
        await self._journal.commit(conversation.conversation_id, (started,))
        self._active[conversation.conversation_id] = active
        if turn_id in self._cancelled_early:
            del self._cancelled_early[turn_id]
            request.cancel.cancel()
        accepted = Accepted(
            conversation.conversation_id, turn_id, "started", self._journal.seq(conversation.conversation_id)
        )
        _remember(self._answers, turn_id, accepted)
        return accepted

    async def _freeze(
        self,
        conversation: Conversation,
        turn_id: str,
        settings: Settings,
        role: str,
        model: str,
        *,
        history: tuple[Message, ...],
        inbox: _Inbox,
    ) -> TurnRequest:
        role = role or settings.active_role
        scope = await self._locate(conversation.workspace, settings.index_file)
        choice: ModelChoice = self._models.choose(settings, role, model or conversation.model)
        system, tools = system_prompt(role, scope), offered(self._tools, role)
        return TurnRequest(
            conversation_id=conversation.conversation_id,
            turn_id=turn_id,
            role=role,
            model=choice,
            settings=settings,
            cwd=scope.cwd,
            root=scope.root or scope.cwd,
            history=history or self._conversations.transcript(conversation.conversation_id),
            system=lambda: system,
            tools=lambda: tools,
            edges=conversation.edges,
            conversation_usage=conversation.usage,
            cancel=CancelToken(),
            llm=self._llm,
            journal=self._journal.bind(conversation.conversation_id, turn_id),
            approvals=self._approvals,
            inbox=inbox,
        )

    async def _run(self, active: _Active) -> None:
        try:
            end = await run_turn(active.request)
        except Exception:  # noqa: BLE001  the turn is the long half of the request that started it: the same boundary
            error_id = new_id("e")
            _log.exception("turn failed, error %s", error_id)
            bug = InternalError(
                "internal",
                f"An internal error ended the turn (error {error_id} in the log). Send the message again.",
                data={"errorId": error_id},
            )
            end = TurnEnd("error", bug.record())
        await self._finish(active, end)

    async def _finish(self, active: _Active, end: TurnEnd) -> None:
        """Write and announce the turn's one end. It is announced even when it cannot be stored."""
        conversation_id = active.record.conversation_id
        active.record = msgspec.structs.replace(
            active.record,
            state=advance(active.record.state, "ended"),
            outcome=end.outcome,
            error=end.error,
            ended_at=now_ms(),
            rounds=end.rounds,
            usage=end.usage,
            files=end.files,
        )
        try:
            await self._keep_untaken(active)
            await self._journal.commit(conversation_id, (_ending(active.record, end.edges),))
        except PersistenceError as error:
            active.record = msgspec.structs.replace(active.record, outcome="error", error=error.record())
        self._approvals.forget_turn(conversation_id, active.record.turn_id)
        del self._active[conversation_id]
        self._publish(active, TurnPersisted(active.record.turn_id), _ending(active.record, end.edges))
        self._journal.publish(conversation_id, "", ConversationChanged("idle"))
        active.ended.set()

    async def _keep_untaken(self, active: _Active) -> None:
        """Steering messages that came too late for this turn stay in the transcript: the next turn sees them."""
        for message in active.inbox.take():
            next_id = self._conversations.next_message_id(active.record.conversation_id)
            kept = msgspec.structs.replace(message, message_id=next_id)
            await active.request.journal.record(SteeringTaken(kept))

    def _stop(self, active: _Active) -> None:
        if active.record.state == "running":
            active.record = msgspec.structs.replace(active.record, state=advance("running", "cancelling"))
            if active.has_begun:
                self._publish(active, TurnCancelRequested())
        active.request.cancel.cancel()

    def _settings_problems(self) -> tuple[Notice, ...]:
        """What is wrong with the configuration, said once until it is another."""
        effective = self._settings.effective
        if effective.version == self._told_version:
            return ()
        self._told_version = effective.version
        return tuple(Notice("warning", "settingsProblem", problem.text) for problem in effective.problems)

    def _find(self, conversation_id: str, turn_id: str) -> _Active | None:
        if not turn_id:
            return self._active.get(conversation_id)
        return next((each for each in self._active.values() if each.record.turn_id == turn_id), None)

    def _publish(self, active: _Active, *bodies: Body) -> None:
        for body in bodies:
            self._journal.publish(active.record.conversation_id, active.record.turn_id, body)


def _ending(record: TurnRecord, edges: WindowEdges) -> TurnCompleted | TurnFailed:
    return (TurnFailed if record.outcome == "error" else TurnCompleted)(record, edges)


def _check_role(role: str) -> None:
    known = ROLES.get(role)
    if known is None or not known.is_user_facing:
        names = " or ".join(name for name, each in ROLES.items() if each.is_user_facing)
        raise SchemaError("invalidParams", f"The role must be {names}, not {role!r}.", data={"path": "role"})


def _remember(kept: OrderedDict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
