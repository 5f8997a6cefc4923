"""web_search: what a search of the web gives, marked as data."""

from tinsmith.domain.policy import Access, NetworkSubject
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.domain.web import Found
from tinsmith.tools.arguments import WebSearchArguments
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.tools.untrusted import marked, visible

_TOTAL_CHARACTERS = RESULT_CHARACTERS - 1_500
_ANSWER_CHARACTERS = 6_000
_HIT_CHARACTERS = 2_000
_LINE_CHARACTERS = 300
_QUERY_CHARACTERS = 80


async def preview(ports: ToolPorts, arguments: WebSearchArguments, scope: CallScope) -> Access:  # noqa: ARG001  a tool's form
    """Whom the query is sent to."""
    query = " ".join(arguments.query.split())
    cut = "…" if len(query) > _QUERY_CHARACTERS else ""
    host = ports.searcher.host
    return Access(
        action="web",
        title=f"Search the web for {query[:_QUERY_CHARACTERS]}{cut}",
        subject=NetworkSubject(host),
        target=host,
    )


async def run(ports: ToolPorts, arguments: WebSearchArguments, scope: CallScope) -> ToolResult:
    """The results, as many as fit."""
    with scope.cancel.scope():
        found = await ports.searcher.search(arguments.query, arguments.max_results)
    if not found.hits and not found.answer:
        return ToolResult("results: 0\nNothing was found. Ask in other words.\n")
    text, shown = _told(ports, found)
    left_out = f" ({len(found.hits) - shown} more did not fit)" if shown < len(found.hits) else ""
    return ToolResult(f"results: {shown}{left_out}\n{marked(text)}")


def _told(ports: ToolPorts, found: Found) -> tuple[str, int]:
    text = f"{_cut(_clean(ports, found.answer), _ANSWER_CHARACTERS)}\n\n" if found.answer else ""
    shown = 0
    for hit in found.hits:
        title, url = (_line(ports, each) for each in (hit.title, hit.url))
        body = _cut(_clean(ports, hit.text), _HIT_CHARACTERS)
        block = f"{shown + 1}. {title or url}\n{url}\n{body}\n\n"
        if len(text) + len(block) > _TOTAL_CHARACTERS:
            break
        text += block
        shown += 1
    return text.rstrip("\n") + "\n", shown


def _clean(ports: ToolPorts, text: str) -> str:
    return ports.redact(visible(text)).strip()


def _line(ports: ToolPorts, text: str) -> str:
    return _cut(" ".join(_clean(ports, text).split()), _LINE_CHARACTERS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()} […]"
