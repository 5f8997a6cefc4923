"""A stage for the engine: the scripted model, an in-memory store, tools that are values."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.event import Event
from tinsmith.domain.message import Message, TextPart, Usage, UserMessage
from tinsmith.domain.policy import (
    Access,
    CommandSubject,
    Grant,
    PermissionAnswer,
    PermissionQuestion,
    Rule,
    ToolSubject,
)
from tinsmith.domain.ports import Model
from tinsmith.domain.redaction import redact
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.settings import ModelChoice, Settings
from tinsmith.domain.tool import CallScope, Denial, ToolResult, ToolSpec
from tinsmith.domain.turn import TurnEnd, WindowEdges
from tinsmith.engine.turn import run_turn
from tinsmith.services.journal import Journal
from tinsmith.store import InMemoryStore

NO_WAIT = msgspec.convert(
    {
        "empty_response_retry_backoff_ms": [0],
        "llm_config": {"retry_backoff_ms": [0]},
    },
    Settings,
)


class Path(msgspec.Struct, forbid_unknown_fields=True):
    path: str


class Command(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    grant: Grant | None = None


Run = Callable[[Any, CallScope], Awaitable[ToolResult]]


def reader(run: Run | None = None) -> ToolSpec:
    """A tool named read that only reads."""

    async def preview(args: Path, scope: CallScope) -> Access:
        return Access("look", f"read {args.path}", ToolSubject("read", {"path": args.path}), args.path)

    async def read(args: Path, scope: CallScope) -> ToolResult:
        return ToolResult(f"text of {args.path}")

    return ToolSpec("read", "Reads.", Path, {}, frozenset({"reads"}), preview, run or read)


def shell(run: Run | None = None) -> ToolSpec:
    """A tool named bash that may change anything."""

    async def preview(args: Command, scope: CallScope) -> Access:
        subject = CommandSubject(args.command, scope.cwd)
        notes = (f"{args.grant} opens much",) if args.grant else ()
        return Access("run", f"bash {args.command}", subject, args.command, grant=args.grant, notes=notes)

    async def echo(args: Command, scope: CallScope) -> ToolResult:
        scope.output(args.command)
        return ToolResult(f"ran {args.command}", mutation_state="attempted")

    return ToolSpec(
        "bash", "Runs.", Command, {}, frozenset({"reads", "writes", "runs", "network"}), preview, run or echo
    )


def denied(args: Command, content: str = "exit: 1\nno network\n") -> ToolResult:
    """What a command came to that lacked the network."""
    denial = Denial(Command(args.command, "network"), f"again {args.command}", "It ended with exit 1.")
    return ToolResult(content, ok=False, mutation_state="attempted", error_code="exitCode", denied=denial)


class Person:
    """Approvals whose person answers from a list; without an answer nobody is there."""

    is_there = True

    def __init__(self, *answers: str | PermissionAnswer) -> None:
        self.answers = list(answers)
        self.questions: list[PermissionQuestion] = []
        self.kept: list[Rule] = []

    def rules(self, conversation_id: str) -> tuple[Rule, ...]:
        return tuple(self.kept)

    async def remember(self, conversation_id: str, rule: Rule) -> None:
        self.kept.append(rule)

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        self.questions.append(question)
        if not self.answers:
            return None
        answer = self.answers.pop(0)
        return PermissionAnswer(answer) if isinstance(answer, str) else answer


class Waiting:
    """An inbox that is filled by hand."""

    def __init__(self) -> None:
        self.messages: list[UserMessage] = []

    def say(self, text: str) -> None:
        self.messages.append(UserMessage("", "t", (TextPart(text),), is_steering=True))

    def take(self) -> tuple[UserMessage, ...]:
        taken, self.messages = tuple(self.messages), []
        return taken


class Stage:
    """One turn in conversation `c`, ready to run; `events` is all that was published."""

    def __init__(
        self,
        llm: Model,
        *tools: ToolSpec,
        text: str = "go",
        history: tuple[Message, ...] = (),
        settings: Settings = NO_WAIT,
        mode: str = "full",
        role: str = "direct",
        person: Any = None,
        window: int = 128_000,
        store: InMemoryStore | None = None,
    ) -> None:
        self.store = store or InMemoryStore()
        self.journal = Journal(self.store, "epoch")
        self.events: list[Event] = []
        self.journal.subscribe(self.events.append)
        self.inbox = Waiting()
        self.person = person or Person()
        self.cancel = CancelToken()
        opening = UserMessage(f"m{len(history):08d}", "t", (TextPart(text),))
        self.request = TurnRequest(
            conversation_id="c",
            turn_id="t",
            role=role,
            model=ModelChoice("scripted", "default", "default_model", window),
            settings=msgspec.structs.replace(settings, permission_mode=mode),
            cwd="/project",
            root="/project",
            history=(*history, opening),
            system=lambda: "You are a test.",
            tools=lambda: tools,
            edges=WindowEdges(),
            conversation_usage=Usage(),
            cancel=self.cancel,
            llm=llm,
            journal=self.journal.bind("c", "t"),
            approvals=self.person,
            inbox=self.inbox,
            redact=redact,
        )

    async def run(self) -> TurnEnd:
        """Run the turn."""
        await self.store.write(lambda session: session.conversations.put(Conversation("c", "/project", 0, 0)))
        return await run_turn(self.request)

    def tags(self) -> list[str]:
        """The kinds of the published events, in order, without the deltas."""
        kinds = [type(event.body).__name__ for event in self.events]
        return [kind for kind in kinds if not kind.endswith("Streamed")]

    def stored(self) -> tuple[Message, ...]:
        """The messages of the store."""
        return self.store.read(lambda session: session.messages.all("c"))
