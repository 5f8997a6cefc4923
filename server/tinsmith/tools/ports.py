"""What the tools were made with: the files, what was shown of them, the runner of commands."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tinsmith.domain.ports import Changes, Diagnostics, Documents, Fetcher, Searcher, Symbols
from tinsmith.domain.redaction import may_span_lines, redact
from tinsmith.domain.tool import CallScope
from tinsmith.proc.environment import known_values
from tinsmith.proc.runner import Runner
from tinsmith.proc.sandbox import Sandbox
from tinsmith.workspace.diff import LineRange
from tinsmith.workspace.ledger import Ledger
from tinsmith.workspace.listing import Listings
from tinsmith.workspace.paths import Place, has_file, locate, unfiled
from tinsmith.workspace.protected import ProtectedPaths
from tinsmith.workspace.snapshots import Snapshots
from tinsmith.workspace.text import lines_of

RESULT_CHARACTERS = 20_000
"""Bound of a result that the model sees."""
EDITOR_WAIT = 0.5
"""Seconds in which the editor's language servers may tell a symbol before we look ourselves."""


@dataclass(frozen=True, slots=True)
class ToolPorts:
    """Made once for all conversations. `output_folder` is where long outputs go, which `read` may look at unasked."""

    documents: Documents
    snapshots: Snapshots
    ledger: Ledger
    listings: Listings
    runner: Runner
    sandbox: Sandbox
    protected_paths: ProtectedPaths
    output_folder: str
    protected: tuple[str, ...]
    secret_variables: Callable[[], frozenset[str]]
    diagnostics: Diagnostics
    symbols: Symbols
    fetcher: Fetcher
    searcher: Searcher
    changes: Changes
    found_keys: Callable[[], tuple[str, ...]]

    async def locate(self, path: str, scope: CallScope) -> Place:
        """As `workspace.paths.locate`, off the loop; an open document may be named by its URI as well."""
        if not has_file(path) and self.documents.find(path) is not None:
            return unfiled(path)
        return await self.snapshots.off_loop(locate, path, scope.root, (self.output_folder,))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be shown, as the environment and the settings are now."""
        return known_values(os.environ, self.secret_variables(), self.found_keys())

    def buffers(self) -> dict[str, str]:
        """The texts of the open documents by absolute path."""
        found = ((path, self.documents.find(path)) for path in self.documents.open_paths())
        return {path: snapshot.text for path, snapshot in found if snapshot is not None}

    def redact(self, text: str) -> str:
        """The text without what is known to be secret."""
        return redact(text, self.secrets)

    def redact_lines(self, text: str, ranges: Iterable[LineRange]) -> list[tuple[int, list[str]]]:
        """The lines of these ranges as they may be shown, with the number of each range's first one.

        What spans lines is found wherever it begins; all else without a look at the rest of the text.
        """
        if may_span_lines(text, self.secrets):
            whole = lines_of(self.redact(text))
            return [(first, whole[first - 1 : last]) for first, last in ranges]
        ranges = list(ranges)
        lines = lines_of(text, max((last for _, last in ranges), default=0))
        parts = [(first, lines[first - 1 : last]) for first, last in ranges]
        return [(first, self.redact("\n".join(part)).split("\n") if part else []) for first, part in parts]


def open_ports(
    documents: Documents,
    cache_dir: str,
    secret_variables: Callable[[], frozenset[str]],
    protected: tuple[str, ...],
    diagnostics: Diagnostics,
    symbols: Symbols,
    fetcher: Fetcher,
    searcher: Searcher,
    changes: Changes,
    sandbox: Sandbox | None = None,
    found_keys: Callable[[], tuple[str, ...]] = tuple,
    ledger: Ledger | None = None,
) -> ToolPorts:
    """The ports of this process. Threads are started when first used."""
    output_folder = os.path.join(cache_dir, "output")
    return ToolPorts(
        documents=documents,
        snapshots=Snapshots(documents),
        ledger=ledger or Ledger(),
        listings=Listings(),
        runner=Runner(output_folder),
        sandbox=sandbox or Sandbox(os.path.join(cache_dir, "sandbox"), os.environ),
        protected_paths=ProtectedPaths(os.path.expanduser("~"), protected),
        output_folder=output_folder,
        protected=protected,
        secret_variables=secret_variables,
        diagnostics=diagnostics,
        symbols=symbols,
        fetcher=fetcher,
        searcher=searcher,
        changes=changes,
        found_keys=found_keys,
    )
