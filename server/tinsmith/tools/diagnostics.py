"""diagnostics: the problems that the editor's language servers see."""

import os

from tinsmith.domain.diagnostic import Diagnostic, DocumentDiagnostics
from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.arguments import DiagnosticsArguments
from tinsmith.tools.findings import counted, told
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.paths import Place, is_secret, is_within, printable

WAIT = 1.5
"""Seconds in which the language servers may catch up with the newest text."""
_LISTED_CHARACTERS = RESULT_CHARACTERS - 2_000
_ORDER = ("error", "warning", "information", "hint")


async def preview(ports: ToolPorts, arguments: DiagnosticsArguments, scope: CallScope) -> Access:
    """Where the call looks."""
    place = await ports.locate(arguments.path or scope.root, scope)
    return Access(
        action="look",
        title=f"Problems in {place.shown if arguments.path else 'the workspace'}",
        subject=ToolSubject("diagnostics", {"path": place.shown}),
        target=place.shown,
        is_outside=place.is_outside,
        is_secret=place.is_secret,
        paths=(place.path,),
    )


async def run(ports: ToolPorts, arguments: DiagnosticsArguments, scope: CallScope) -> ToolResult:
    """Every problem at or below the path, the gravest first."""
    if not ports.diagnostics.has_diagnostics:
        raise ToolError(
            "noEditor", "There is no editor here that tells what its language servers find. Run the project's checks."
        )
    place = await ports.locate(arguments.path or scope.root, scope)
    is_folder = await ports.snapshots.off_loop(os.path.isdir, place.path)
    versions = {path: version for path, version in _open_versions(ports).items() if is_within(path, place.path)}
    opened_as = next((path for path in (place.path, place.given) if path in versions or ports.documents.find(path)), "")
    with scope.cancel.scope():
        found = await ports.diagnostics.diagnose(
            () if is_folder else (opened_as or place.path,), versions, WAIT if versions else 0.0
        )
    documents = [each for each in found if each.items and _belongs(each.path, place)]
    content = _summary(documents) + _listed(ports, documents, scope.root)
    if not is_folder and not opened_as:
        content += f"note: {place.shown} is not open in the editor, so nobody may have looked at it\n"
    late = [each.path for each in found if each.version is not None and each.version < versions.get(each.path, 0)]
    if late:
        content += f"note: not yet looked at since the last change: {_names(late, scope.root)}\n"
    return ToolResult(content, locations=tuple(Location(each.path) for each in documents))


def _open_versions(ports: ToolPorts) -> dict[str, int]:
    snapshots = {path: ports.documents.find(path) for path in ports.documents.open_paths()}
    return {path: each.version for path, each in snapshots.items() if each is not None and each.version is not None}


def _belongs(path: str, place: Place) -> bool:
    is_there = is_within(path, place.path) or is_within(path, place.given)
    return is_there and (place.is_secret or not is_secret(path))


def _summary(documents: list[DocumentDiagnostics]) -> str:
    items = [item for document in documents for item in document.items]
    if not items:
        return "problems: none known\n"
    files = "1 file" if len(documents) == 1 else f"{len(documents)} files"
    return f"problems: {len(items)} ({counted(items)}) in {files}\n"


def _listed(ports: ToolPorts, documents: list[DocumentDiagnostics], root: str) -> str:
    rows = [(item, document.path) for document in documents for item in document.items]
    rows.sort(key=lambda row: (_ORDER.index(row[0].severity), row[1], row[0].line, row[0].column))
    text = ""
    for number, row in enumerate(rows):
        line = _line(ports, *row, root)
        if len(text) + len(line) > _LISTED_CHARACTERS:
            return text + f"[{len(rows) - number:,} more; name a file or folder as `path`]\n"
        text += line
    return text


def _line(ports: ToolPorts, item: Diagnostic, path: str, root: str) -> str:
    return ports.redact(told(item, _shown(path, root)))


def _shown(path: str, root: str) -> str:
    return printable(path[len(root) :].lstrip(os.sep) if is_within(path, root) else path)


def _names(paths: list[str], root: str) -> str:
    names = [_shown(path, root) for path in sorted(paths)[:5]]
    return ", ".join(names) + (f" and {len(paths) - len(names)} more" if len(paths) > len(names) else "")
