"""Ports: what the engine, the tools and the services need from somebody else, as Protocols.

Each docstring is the contract: what may be raised, what the caller may assume.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

import msgspec

from tinsmith.domain.change import ApplyResult, ChangedFile, FileChange, Refreshed, Snapshot
from tinsmith.domain.diagnostic import DocumentDiagnostics
from tinsmith.domain.errors import ToolError
from tinsmith.domain.event import Body
from tinsmith.domain.message import Message, ModelDelta, UserMessage
from tinsmith.domain.policy import PermissionAnswer, PermissionQuestion, Rule
from tinsmith.domain.settings import LlmSettings, ModelChoice
from tinsmith.domain.symbol import PlacedSymbol, Symbol
from tinsmith.domain.tool import CallScope, ToolSpec
from tinsmith.domain.web import Fetched, Found


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a model. `messages` is a valid history: every call in it has a result after it.

    `cache_key` is the same for requests whose beginnings are the same, so that a provider may route by it.
    """

    model: ModelChoice
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | None = None
    temperature: float | None = None
    is_streamed: bool = True
    cache_key: str = ""


class Model(Protocol):
    """A model behind some dialect."""

    def stream(self, request: ModelRequest, settings: LlmSettings) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Deltas in batches, one batch per read from the network; the last delta is the Answer.

        Ends after the Answer, or raises TransportError, ProtocolError or SchemaError (nothing
        else on purpose). No retries, no waits but for the network. Cancelling the task or closing the iterator
        closes the connection to the provider at once.
        """
        ...


class Journal(Protocol):
    """The one way an event leaves a turn; bound to its conversation and turn."""

    async def record(self, *bodies: Body) -> None:
        """Commit what these durable events carry in one transaction, then publish them in order.

        Raises PersistenceError, and then nothing was published. Is not cut short by a
        cancel of the turn.
        """
        ...

    def publish(self, body: Body) -> None:
        """Publish an event that carries nothing durable. Never raises, never waits."""
        ...


class Inbox(Protocol):
    """Steering messages that wait for the next safe point."""

    def take(self) -> tuple[UserMessage, ...]:
        """The waiting messages, each handed out once, in the order they came."""
        ...


class Prompter(Protocol):
    """A person who can be asked."""

    @property
    def is_there(self) -> bool:
        """Whether somebody may answer. Who asks all the same gets None."""
        ...

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        """The answer, or None when nobody is there to give one. Cancelling the task withdraws the question."""
        ...


class Approvals(Protocol):
    """Remembered answers and the person behind them."""

    def rules(self, conversation_id: str) -> tuple[Rule, ...]:
        """Every rule that may speak of a call in this conversation."""
        ...

    @property
    def is_there(self) -> bool:
        """As Prompter.is_there."""
        ...

    async def remember(self, conversation_id: str, rule: Rule) -> None:
        """Keep the rule for as long as its scope lasts."""
        ...

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        """As Prompter.ask."""
        ...


class Documents(Protocol):
    """The editor's open documents."""

    def find(self, path: str) -> Snapshot | None:
        """The open document for this absolute path, as the editor last told us; None when it is not open."""
        ...

    def unsaved(self) -> tuple[str, ...]:
        """Absolute paths of the open documents whose text is not on disk."""
        ...

    def open_paths(self) -> tuple[str, ...]:
        """Absolute paths of every open document."""
        ...

    async def refresh(self, disk_hashes: Mapping[str, str]) -> Refreshed:
        """Tell the editor what is on disk now, by path: it reads a clean document again that differs from its file."""
        ...

    async def apply(self, label: str, turn_id: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        """Apply the changes to open documents, all or none, each only if its text still has `before.hash`.

        One result per change in order. Raises TransportError when the editor does not answer in time.
        """
        ...


class Changes(Protocol):
    """Keeps what calls do to files, so that it can be shown and undone."""

    async def keep(self, change: FileChange, scope: CallScope) -> str:
        """Store the text before and after, durably; the name of the record. To be called before the change is made.

        Raises PersistenceError: then it must not be made.
        """
        ...

    async def forget(self, record_id: str, scope: CallScope) -> None:
        """The change was certainly not made after all. Never raises."""
        ...

    async def announce(self, change: FileChange, scope: CallScope) -> ChangedFile | None:
        """The change is made: whoever shows the turn's changes is told. What the turn did to the file in all, if known.

        Never raises.
        """
        ...


class Diagnostics(Protocol):
    """The findings of the editor's own language servers."""

    @property
    def has_diagnostics(self) -> bool:
        """Whether the editor tells of any."""
        ...

    async def diagnose(
        self, paths: Sequence[str], min_versions: Mapping[str, int], wait: float
    ) -> tuple[DocumentDiagnostics, ...]:
        """The findings in these files, in every file that has some when none are named.

        The editor waits up to `wait` seconds for findings about the versions given by path, and then tells what
        there is. Empty when it tells none or does not answer in time; never raises.
        """
        ...


class Symbols(Protocol):
    """What the editor's own language servers know of names."""

    @property
    def has_symbols(self) -> bool:
        """Whether the editor tells of any."""
        ...

    async def outline(self, path: str, version: int, wait: float) -> tuple[Symbol, ...]:
        """What an open document defines, in the order of its text.

        Empty when the editor tells nothing about exactly this version within `wait` seconds; never raises.
        """
        ...

    async def named(self, name: str, wait: float) -> tuple[PlacedSymbol, ...]:
        """What the language servers find under a name or a part of it, by absolute paths anywhere, also of older texts.

        Empty when the editor does not answer within `wait` seconds; never raises.
        """
        ...


class Fetcher(Protocol):
    """Gets pages of the public web."""

    async def fetch(self, url: str) -> Fetched:
        """The page at an http or https URL, bounded in size and time. Raises AgentError with a sentence for the model.

        Cancelling the task closes the connection at once.
        """
        ...


class Searcher(Protocol):
    """Searches the web."""

    @property
    def host(self) -> str:
        """Where the query is sent."""
        ...

    async def search(self, query: str, max_results: int | None) -> Found:
        """The best results; their number is the back end's when none is given. Raises as Fetcher.fetch."""
        ...


class NoDocuments:
    """The Documents of a run without an editor: nothing is open."""

    def find(self, path: str) -> Snapshot | None:
        return None

    def unsaved(self) -> tuple[str, ...]:
        return ()

    def open_paths(self) -> tuple[str, ...]:
        return ()

    async def refresh(self, disk_hashes: Mapping[str, str]) -> Refreshed:
        return Refreshed()

    async def apply(self, label: str, turn_id: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        raise LookupError("no document is open")


class NoChanges:
    """The Changes of tools whose changes nobody will want to undo."""

    async def keep(self, change: FileChange, scope: CallScope) -> str:
        return ""

    async def forget(self, record_id: str, scope: CallScope) -> None:
        return

    async def announce(self, change: FileChange, scope: CallScope) -> ChangedFile | None:
        return None


class NoDiagnostics:
    """The Diagnostics of a run without an editor."""

    has_diagnostics = False

    async def diagnose(
        self, paths: Sequence[str], min_versions: Mapping[str, int], wait: float
    ) -> tuple[DocumentDiagnostics, ...]:
        return ()


class NoSymbols:
    """The Symbols of a run without an editor."""

    has_symbols = False

    async def outline(self, path: str, version: int, wait: float) -> tuple[Symbol, ...]:
        return ()

    async def named(self, name: str, wait: float) -> tuple[PlacedSymbol, ...]:
        return ()


class NoWeb:
    """The Fetcher and Searcher of a run without a network."""

    host = ""

    async def fetch(self, url: str) -> Fetched:
        raise ToolError("noWeb", "There is no access to the web here. Go on without it.")

    async def search(self, query: str, max_results: int | None) -> Found:
        raise ToolError("noWeb", "There is no access to the web here. Go on without it.")


class NoPrompter:
    """The Prompter of a run without a person: every question goes unanswered."""

    is_there = False

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        return None
