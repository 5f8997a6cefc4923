"""code_files: the paths that a few letters or a glob mean."""

import os

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.tools.arguments import FilesArguments
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.fuzzy import best_paths
from tinsmith.workspace.glob import glob_filter
from tinsmith.workspace.listing import Listing
from tinsmith.workspace.paths import listed

_PAGE_CHARACTERS = RESULT_CHARACTERS - 500
"""What is left for paths beside the header and the notes."""
_QUERY_CHARACTERS = 200
_WILDCARDS = frozenset("*?[")


async def preview(_: ToolPorts, arguments: FilesArguments, __: CallScope) -> Access:
    """What is looked for. Raises ToolError `badQuery`, `badGlob`."""
    _check(arguments.query)
    return Access(
        action="look",
        title=f"Find files like {arguments.query!r}",
        subject=ToolSubject("code_files", {"query": arguments.query}),
        target=".",
    )


async def run(ports: ToolPorts, arguments: FilesArguments, scope: CallScope) -> ToolResult:
    """The best paths, and how many there are in all. None at all is an answer too."""
    return await ports.snapshots.off_loop(_run, ports, arguments, scope)


def _check(query: str) -> None:
    if not query.strip() or len(query) > _QUERY_CHARACTERS:
        raise ToolError("badQuery", f"A query has 1 to {_QUERY_CHARACTERS} characters: a part of a path, or a glob.")
    if not _WILDCARDS.isdisjoint(query):
        glob_filter(query)


def _run(ports: ToolPorts, arguments: FilesArguments, scope: CallScope) -> ToolResult:
    root = os.path.realpath(scope.root)
    listing = ports.listings.look(root, root, scope.cancel.check)
    paths, total = _found(arguments.query, listing, arguments.max_results)
    lines: list[str] = []
    size = 0
    for path in paths:
        line = listed(path) + "\n"
        size += len(line)
        if size > _PAGE_CHARACTERS:
            break
        lines.append(line)
    notes = (
        f"[{total - len(lines):,} more; say more of the path, or raise `max_results`]\n" if total > len(lines) else ""
    )
    if not listing.is_whole:
        notes += f"[only the first {len(listing.files):,} files were looked at]\n"
    return ToolResult(f"found: {total:,} of {len(listing.files):,} files\n{''.join(lines)}{notes}")


def _found(query: str, listing: Listing, most: int) -> tuple[list[str], int]:
    if _WILDCARDS.isdisjoint(query):
        return best_paths(query, listing, most)
    is_meant = glob_filter(query)
    meant = [path for path in listing.files if is_meant(path)]
    return meant[:most], len(meant)
