"""web_fetch: the readable text of a page of the public web, marked as data."""

import msgspec

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, NetworkSubject
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.domain.web import Fetched
from tinsmith.net.charset import decode
from tinsmith.net.fetch import parse_url
from tinsmith.tools.arguments import WebFetchArguments
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.tools.readable import readable
from tinsmith.tools.spill import spill
from tinsmith.tools.untrusted import marked, visible

_PAGE_CHARACTERS = RESULT_CHARACTERS - 2_500
"""What is left for text beside the header, the marks and the notes."""
_FAILED_CHARACTERS = 2_000
"""Of a page that came with an error status."""
_TITLE_CHARACTERS = 100
_SNIFFED = 1_000

_CUTS = {
    "size": "only its first {size:,} bytes were read, since it is larger",
    "time": "only what came in time was read, since the server is too slow",
    "broken": "only its beginning was read, since the connection broke",
}


class _Text(msgspec.Struct, frozen=True):
    """What a page says; `kind` is its type without parameters."""

    kind: str
    title: str
    text: str
    is_whole: bool


async def preview(ports: ToolPorts, arguments: WebFetchArguments, scope: CallScope) -> Access:  # noqa: ARG001  a tool's form
    """Whom the call asks. Nothing is looked up yet: a name can carry a secret as well as a request can."""
    address = parse_url(arguments.url)
    cut = "…" if len(address.url) > _TITLE_CHARACTERS else ""
    return Access(
        action="web",
        title=f"Fetch {address.url[:_TITLE_CHARACTERS]}{cut}",
        subject=NetworkSubject(address.host),
        target=address.host,
    )


async def run(ports: ToolPorts, arguments: WebFetchArguments, scope: CallScope) -> ToolResult:
    """The page, or its beginning with the rest in a file."""
    with scope.cancel.scope():
        fetched = await ports.fetcher.fetch(arguments.url)
        page = await ports.snapshots.off_loop(_read, ports, fetched)
        is_good = fetched.status < 400
        limit = min(arguments.max_chars or _PAGE_CHARACTERS, _PAGE_CHARACTERS if is_good else _FAILED_CHARACTERS)
        shown = _beginning(page.text, limit)
        path = ""
        if is_good and len(shown) < len(page.text):
            path = await ports.snapshots.off_loop(spill, ports.output_folder, page.text)
    header = _header(arguments.url, fetched, page) + _rest(page.text, shown, path)
    title = f"title: {page.title}\n\n" if page.title else ""
    body = marked(title + shown) if shown.strip() else "The page has no readable text; it may need a browser.\n"
    return ToolResult(header + body, ok=is_good, error_code="" if is_good else "httpStatus")


def _read(ports: ToolPorts, fetched: Fetched) -> _Text:
    text = decode(fetched.body, fetched.content_type)
    kind = fetched.content_type.partition(";")[0].strip().lower()
    if "\0" in text:
        raise ToolError(
            "notText",
            f"{fetched.url} is binary ({kind or 'no type told'}, {len(fetched.body):,} bytes), so it is not shown. If "
            "it is needed, download it with bash.",
        )
    start = text[:_SNIFFED].lstrip().lower()
    is_html = kind in {"text/html", "application/xhtml+xml"} or (
        not kind and start.startswith(("<!doctype html", "<html", "<head", "<body"))
    )
    if not is_html:
        return _Text(kind or "text/plain", "", ports.redact(visible(text)), is_whole=True)
    page = readable(text, fetched.url)
    title = visible(page.title)[:_TITLE_CHARACTERS]
    return _Text(kind or "text/html", ports.redact(title), ports.redact(visible(page.text)), page.is_whole)


def _beginning(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    end = text.rfind("\n", limit // 2, limit) + 1
    return text[: end or limit]


def _header(asked: str, fetched: Fetched, page: _Text) -> str:
    lines = [f"url: {asked}"]
    if fetched.url != asked:
        lines.append(f"final url: {fetched.url}")
    if fetched.status != 200:
        lines.append(f"status: {fetched.status}")
    lines.append(f"type: {page.kind}")
    lines.append(f"size: {len(fetched.body):,} bytes, {len(page.text):,} characters of text")
    if fetched.cut:
        lines.append("note: " + _CUTS[fetched.cut].format(size=len(fetched.body)))
    if not page.is_whole:
        lines.append("note: the page is too long to read to its end")
    return "\n".join(lines) + "\n"


def _rest(text: str, shown: str, path: str) -> str:
    if len(shown) == len(text):
        return ""
    where = f"; the whole text is in {path}, read it in pages" if path else ""
    return f"note: the first {len(shown):,} of {len(text):,} characters are shown{where}\n"
