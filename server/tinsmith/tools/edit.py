"""edit: line edits to the text that a hash names, on lines that were shown."""

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.tools.arguments import EditArguments
from tinsmith.tools.change import Answer, Prepared, access, make, prepare
from tinsmith.tools.guard import check_marks, met, present, stale, target
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.edits import apply_edits, snippet
from tinsmith.workspace.files import StaleError
from tinsmith.workspace.paths import twin_of

_SNIPPET_CHARACTERS = RESULT_CHARACTERS - 4_500


async def preview(ports: ToolPorts, arguments: EditArguments, scope: CallScope) -> Access:
    """The change with its diff. Raises ToolError `stale`, `notShown` and whatever else makes the call impossible."""
    return access(ports, await _prepare(ports, arguments, scope))


async def run(ports: ToolPorts, arguments: EditArguments, scope: CallScope) -> ToolResult:
    """Apply the edits, all or none, to exactly that text."""
    prepared = await _prepare(ports, arguments, scope)
    around = snippet(prepared.edited.excerpt, prepared.edited.hunks)
    is_short = len(around.text) <= _SNIPPET_CHARACTERS
    answer = Answer(around.text, around.shown) if is_short else Answer("[too much to show; read the file]\n", ())
    try:
        return await make(ports, prepared, scope, answer)
    except StaleError as error:
        now = await met(ports, prepared.place, error)
        raise stale(ports, scope.conversation_id, prepared.place, arguments.hash, now, edits=arguments.edits) from error


async def _prepare(ports: ToolPorts, arguments: EditArguments, scope: CallScope) -> Prepared:
    place = await target(ports, arguments.path, scope)
    for edit in arguments.edits:
        check_marks(edit.text or "")
    before = await present(ports, place)
    if before is None:
        twin = await ports.snapshots.off_loop(twin_of, place.path)
        advice = f"There is {twin}" if twin else "Create it with write, or look for its name"
        raise ToolError("notFound", f"There is no file {place.shown}. {advice}.")
    if before.hash != arguments.hash:
        raise stale(ports, scope.conversation_id, place, arguments.hash, before, edits=arguments.edits)
    edited = await ports.snapshots.off_loop(apply_edits, before, arguments.edits)
    changing = [(hunk.old + 1, hunk.old_end) for hunk in edited.hunks]
    unseen = ports.ledger.missing(scope.conversation_id, place.path, before.hash, changing)
    if unseen:
        ranges = ", ".join(f"{first}-{last}" for first, last in unseen)
        raise ToolError(
            "notShown",
            f"You were not shown lines {ranges} of {place.shown}, so they may not be replaced or deleted. Read them, "
            "then repeat the call; lines that hold a redacted secret stay closed.",
        )
    return await prepare(ports, place, before, edited)
