"""write: a new file, or the whole content of one that is there, guarded by its hash."""

from tinsmith.domain.change import FileChange, TextChange
from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.tools.arguments import WriteArguments
from tinsmith.tools.change import Answer, Prepared, access, make, prepare
from tinsmith.tools.guard import check_marks, met, present, stale, target
from tinsmith.tools.ports import ToolPorts
from tinsmith.workspace.diff import Hunk
from tinsmith.workspace.edits import Edited, Excerpt, rewrite
from tinsmith.workspace.files import StaleError
from tinsmith.workspace.paths import twin_of
from tinsmith.workspace.text import line_count, lines_of, text_hash


async def preview(ports: ToolPorts, arguments: WriteArguments, scope: CallScope) -> Access:
    """The change with its diff. Raises ToolError `stale`, `exists` and whatever else makes the call impossible."""
    return access(ports, await _prepare(ports, arguments, scope))


async def run(ports: ToolPorts, arguments: WriteArguments, scope: CallScope) -> ToolResult:
    """Write the content; all of it counts as shown, since the model wrote it."""
    prepared = await _prepare(ports, arguments, scope)
    lines = line_count(prepared.edited.change.after_text)
    try:
        return await make(ports, prepared, scope, Answer("", ((1, lines),)))
    except StaleError as error:
        now = await met(ports, prepared.place, error)
        raise stale(ports, scope.conversation_id, prepared.place, arguments.hash or "none", now) from error


async def _prepare(ports: ToolPorts, arguments: WriteArguments, scope: CallScope) -> Prepared:
    place = await target(ports, arguments.path, scope)
    check_marks(arguments.content)
    before = await present(ports, place)
    if before is None:
        if arguments.hash is not None:
            raise ToolError("notFound", f"There is no file {place.shown} any more. Leave `hash` out to create it.")
        twin = await ports.snapshots.off_loop(twin_of, place.path)
        if twin is not None:
            raise ToolError(
                "twin",
                f"There is {twin}, whose name differs from {place.shown} only in case or in the form of its "
                "characters; on many systems both are one file. Use that name or another.",
            )
        return await prepare(ports, place, None, _creation(place.path, arguments.content.removeprefix("\ufeff")))
    if arguments.hash is None:
        raise ToolError(
            "exists", f"{place.shown} exists. Read it and use edit, or send its hash to replace the whole of it."
        )
    if before.hash != arguments.hash:
        raise stale(ports, scope.conversation_id, place, arguments.hash, before)
    edited = await ports.snapshots.off_loop(rewrite, before, arguments.content)
    return await prepare(ports, place, before, edited)


def _creation(path: str, content: str) -> Edited:
    change = FileChange(path, None, (TextChange(0, 0, content),), content, text_hash(content))
    lines = lines_of(content)
    return Edited(change, (Hunk(0, 0, 0, len(lines)),), Excerpt(0, [], lines))
