"""code_map: an overview of the workspace or of one of its folders."""

import os

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.arguments import MapArguments
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.listing import Listings
from tinsmith.workspace.overview import overview
from tinsmith.workspace.paths import printable
from tinsmith.workspace.sources import Sources


async def preview(ports: ToolPorts, arguments: MapArguments, scope: CallScope) -> Access:
    """Where the call looks."""
    place = await ports.locate(arguments.path or ".", scope)
    return Access(
        action="look",
        title=f"Map {place.shown}",
        subject=ToolSubject("code_map", {"path": place.shown, "depth": arguments.depth}),
        target=place.shown,
        is_outside=place.is_outside,
        is_secret=place.is_secret,
        paths=(place.path,),
    )


async def run(ports: ToolPorts, arguments: MapArguments, scope: CallScope) -> ToolResult:
    """The overview; open buffers count as they are in the editor."""
    place = await ports.locate(arguments.path or ".", scope)
    if not await ports.snapshots.off_loop(os.path.isdir, place.path):
        raise ToolError("noDirectory", f"There is no folder {place.shown}. For one file use code_outline.")
    text = await ports.snapshots.off_loop(_mapped, ports.listings, place.path, arguments.depth, scope, ports.buffers())
    text = printable(f"path: {place.shown}\n{text}")
    if len(text) > RESULT_CHARACTERS:
        text = text[: text.rfind("\n", 0, RESULT_CHARACTERS - 100) + 1] + "[cut; ask for one folder with `path`]\n"
    return ToolResult(ports.redact(text), locations=(Location(place.path),))


def _mapped(listings: Listings, root: str, depth: int, scope: CallScope, buffers: dict[str, str]) -> str:
    sources = Sources(root, buffers)
    listing = listings.look(root, os.path.realpath(scope.root), scope.cancel.check)
    paths = [*listing.files, *sources.unsaved_files()]
    return overview(sources, paths, depth, cancel=scope.cancel)
