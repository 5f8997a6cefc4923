"""The readable text of an HTML page, as Markdown: headings, paragraphs, lists, links, tables and code. Pure.

What is there to look at or to click is left out, and so is what a person would not see.
"""

import re
import time
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urljoin

from tinsmith.tools.markdown import Writer

MAX_CHARACTERS = 1_000_000
"""Of the text; a page that grows beyond it ends there."""
MAX_SECONDS = 3.0
"""For one page; what was not read by then is left out."""
_FED = 32_768
"""Characters between two looks at the clock. An unfinished tag is looked at again with each."""
_LONGEST_TAG = 500_000
_LONGEST_LINK = 1_000
_DEEPEST = 8
"""Levels of lists and quotes that are shown as such."""

_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCKS = frozenset([
    "address", "article", "blockquote", "center", "dd", "details", "dialog", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hgroup", "main", "menu", "ol", "p", "section",
    "summary", "ul",
])  # fmt: skip
_LISTS = frozenset(["ol", "ul"])
_VOID = frozenset([
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
])  # fmt: skip
_OPEN_ENDED = frozenset(["p", "li", "dt", "dd", "tr", "td", "th", "option"])
_NEVER_READ = frozenset([
    "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "audio", "video", "select",
    "datalist", "textarea",
])  # fmt: skip
_BESIDE = frozenset(["nav", "aside", "button", "dialog"])
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])")
_ANCHOR = re.compile(r"(?:^|[\s-])(?:headerlink|anchor|hash-link|permalink|heading-link)(?:$|[\s-])")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|brush:)[-_ ]?([A-Za-z0-9+#]{1,20})")


class Readable(NamedTuple):
    """What a page says. `is_whole` is false when it was too long or too slow to read to its end."""

    title: str
    text: str
    is_whole: bool


def readable(html: str, url: str, *, max_seconds: float = MAX_SECONDS) -> Readable:
    """The page's title and text; links become absolute by `url`."""
    ends = time.monotonic() + max_seconds
    page = _read(html, _Page(url), ends)
    if page.is_within_aside:  # never closed: the rest of the page is no aside
        page = _read(html, _Page(url, leaves_out=_NEVER_READ), ends)
    return Readable(" ".join(page.title.split()), page.finished(), page.is_whole)


def _read(html: str, page: "_Page", ends: float) -> "_Page":
    for start in range(0, len(html), _FED):
        if time.monotonic() > ends or page.size > MAX_CHARACTERS or page.is_stuck:
            page.is_whole = False
            break
        page.feed(html[start : start + _FED])
    page.end()
    return page


class _Table:
    """A table while it is read. One that serves as layout writes its cells at once and keeps no rows."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.cell: Writer | None = None
        self.is_layout = False


class _Page(HTMLParser):
    """Turns tags into calls of a Writer; the innermost one belongs to the cell that is open."""

    def __init__(self, url: str, leaves_out: frozenset[str] = _NEVER_READ | _BESIDE) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.is_whole = True
        self._url = url
        self._leaves_out = leaves_out
        self._skipped = ""
        self._depth = 0
        self._writer = Writer()
        self._tables: list[_Table] = []
        self._lists: list[int] = []
        self._quotes = 0
        self._pre: list[str] | None = None
        self._language = ""
        self._code: list[str] | None = None
        self._is_title = False
        self._begin: dict[str, Callable[[dict[str, str]], None]] = {
            "a": self._begin_a, "base": self._begin_base, "blockquote": self._begin_blockquote, "br": self._begin_br,
            "code": self._begin_code, "hr": self._begin_hr, "img": self._begin_img, "li": self._begin_li,
            "ol": self._begin_ol, "pre": self._begin_pre, "table": self._begin_table, "td": self._begin_cell,
            "th": self._begin_cell, "title": self._begin_title, "tr": self._begin_tr, "ul": self._begin_ul,
        }  # fmt: skip
        self._end: dict[str, Callable[[], None]] = {
            "a": self._end_a, "blockquote": self._end_blockquote, "code": self._end_code,
            "li": self._end_li, "ol": self._end_list, "pre": self._end_pre, "table": self._end_table,
            "td": self._end_cell, "th": self._end_cell, "title": self._end_title, "tr": self._end_cell,
            "ul": self._end_list,
        }  # fmt: skip

    @property
    def is_within_aside(self) -> bool:
        """Whether the page ended within something beside its text."""
        return bool(self._skipped) and self._skipped not in _NEVER_READ | {"title"}

    @property
    def is_stuck(self) -> bool:
        """Whether a tag does not come to an end."""
        return self.cdata_elem is None and len(self.rawdata) > _LONGEST_TAG

    @property
    def size(self) -> int:
        """Characters written so far."""
        return self._writer.size + (0 if self._target is self._writer else self._target.size)

    def end(self) -> None:
        """Take what the parser still holds, unless it is an unfinished tag; browsers drop that too."""
        if self.rawdata and not re.match(r"<[A-Za-z/!?]", self.rawdata):
            self.handle_data(unescape(self.rawdata))

    def finished(self) -> str:
        """The text, with everything closed that the page left open."""
        self._end_code()
        self._end_pre()
        while self._tables:
            self._end_table()
        return self._writer.text()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if self._skipped == tag and tag in _OPEN_ENDED:
            self._skipped = ""
        if self._skipped:
            self._depth += tag == self._skipped
            return
        if tag in self._leaves_out or (tag not in _VOID and self._is_hidden(attributes)):
            self._skipped, self._depth = tag, 1
            return
        if self._pre is not None or self._code is not None:
            self._within_code(tag, attributes)
            return
        self._separate(tag)
        if tag in _HEADINGS:
            self._target.mark(self._target.prefix + _HEADINGS[tag])
        if tag in self._begin:
            self._begin[tag](attributes)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            if tag == self._skipped:
                self._depth -= 1
                self._skipped = self._skipped if self._depth else ""
            return
        if (self._pre is not None and tag != "pre") or (self._code is not None and tag != "code"):
            return
        if tag in self._end:
            self._end[tag]()
        self._separate(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # only a void tag ends itself, whatever it says

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if self._is_title:
            self.title += data[:1_000]
        elif self._pre is not None:
            self._pre.append(data)
        elif self._code is not None:
            self._code.append(data)
        else:
            self._target.flow(data)

    @property
    def _target(self) -> Writer:
        cell = self._tables[-1].cell if self._tables else None
        return cell or self._writer

    def _is_hidden(self, attributes: dict[str, str]) -> bool:
        return self._leaves_out is not _NEVER_READ and (
            "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or attributes.get("role") == "navigation"
            or _HIDDEN.search(attributes.get("style", "").lower()) is not None
            or (attributes.get("href", "").startswith("#") and _ANCHOR.search(attributes.get("class", "")) is not None)
        )

    def _separate(self, tag: str) -> None:
        if tag in _LISTS and self._lists:
            self._target.gap(1)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._target.gap(2)

    def _within_code(self, tag: str, attributes: dict[str, str]) -> None:
        if self._pre is not None and tag == "br":
            self._pre.append("\n")
        elif self._pre is not None and tag == "code":
            self._language = self._language or _language(attributes)

    def _begin_a(self, attributes: dict[str, str]) -> None:
        url = self._absolute(attributes.get("href", ""))
        if url:
            self._target.begin_link(url)

    def _end_a(self) -> None:
        self._target.end_link()

    def _begin_base(self, attributes: dict[str, str]) -> None:
        self._url = self._absolute(attributes.get("href", "")) or self._url

    def _begin_blockquote(self, _: dict[str, str]) -> None:
        self._quotes += 1
        self._indent()

    def _end_blockquote(self) -> None:
        self._quotes = max(0, self._quotes - 1)
        self._indent()

    def _begin_br(self, _: dict[str, str]) -> None:
        self._target.gap(1)

    def _begin_hr(self, _: dict[str, str]) -> None:
        self._target.lines(["---"])

    def _begin_img(self, attributes: dict[str, str]) -> None:
        text = attributes.get("alt", "").strip()
        if text:
            self._target.flow(f"[image: {text}]")

    def _begin_ul(self, _: dict[str, str]) -> None:
        self._begin_list(-1)

    def _begin_ol(self, attributes: dict[str, str]) -> None:
        start = attributes.get("start", "1")
        self._begin_list(int(start) if re.fullmatch(r"\d{1,9}", start) else 1)

    def _begin_list(self, number: int) -> None:
        self._lists.append(number)
        self._indent()

    def _end_list(self) -> None:
        if self._lists:
            self._lists.pop()
        self._indent()

    def _begin_li(self, _: dict[str, str]) -> None:
        number = self._lists[-1] if self._lists else -1
        marker = "- " if number < 0 else f"{number}. "
        if number >= 0:
            self._lists[-1] += 1
        self._target.mark(self._prefix(len(self._lists) - 1) + marker)

    def _end_li(self) -> None:
        self._target.gap(1)
        self._target.tighten()

    def _indent(self) -> None:
        self._target.prefix = self._prefix(len(self._lists))

    def _prefix(self, level: int) -> str:
        return "> " * min(self._quotes, _DEEPEST) + "  " * min(max(level, 0), _DEEPEST)

    def _begin_pre(self, attributes: dict[str, str]) -> None:
        self._use_as_layout()
        self._pre, self._language = [], _language(attributes)

    def _end_pre(self) -> None:
        if self._pre is None:
            return
        text, self._pre = "".join(self._pre).strip("\n"), None
        if text.strip():
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
            self._target.lines([fence + self._language, *text.split("\n"), fence])

    def _begin_code(self, _: dict[str, str]) -> None:
        self._code = []

    def _end_code(self) -> None:
        if self._code is None:
            return
        text, self._code = " ".join("".join(self._code).split()), None
        if text:
            self._target.flow(f"`{text}`")

    def _begin_title(self, _: dict[str, str]) -> None:
        if self.title:
            self._skipped, self._depth = "title", 1
        else:
            self._is_title = True

    def _end_title(self) -> None:
        self._is_title = False

    def _begin_table(self, _: dict[str, str]) -> None:
        self._use_as_layout()
        self._target.gap(2)
        self._tables.append(_Table())

    def _begin_tr(self, _: dict[str, str]) -> None:
        self._end_cell()
        if self._tables and not self._tables[-1].is_layout:
            self._tables[-1].rows.append([])

    def _begin_cell(self, _: dict[str, str]) -> None:
        self._end_cell()
        if not self._tables or self._tables[-1].is_layout:
            self._target.gap(1)
            return
        self._tables[-1].cell = Writer()

    def _end_cell(self) -> None:
        table = self._tables[-1] if self._tables else None
        if table is None or table.cell is None:
            return
        cell, table.cell = table.cell, None
        if not table.rows:
            table.rows.append([])
        table.rows[-1].append(cell.text())

    def _end_table(self) -> None:
        if not self._tables:
            return
        self._end_cell()
        table = self._tables.pop()
        self._target.table([row for row in table.rows if any(cell.strip() for cell in row)])
        self._target.gap(2)

    def _use_as_layout(self) -> None:
        """What was kept of the innermost table is written as blocks; what comes flows on outside of it."""
        table = self._tables[-1] if self._tables else None
        if table is None or table.is_layout:
            return
        table.is_layout = True
        cells = [cell for row in table.rows for cell in row]
        if table.cell is not None:
            cells.append(table.cell.text())
        table.rows, table.cell = [], None
        self._writer.blocks(cells)

    def _absolute(self, link: str) -> str:
        """The link as an http or https URL, empty for any other and for one within the page."""
        link = "".join(link.split())
        if not link or link.startswith("#") or len(link) > _LONGEST_LINK:
            return ""
        try:
            url = urljoin(self._url, link)
        except ValueError:
            return ""
        is_web = url.lower().startswith(("http://", "https://")) and len(url) <= _LONGEST_LINK
        return re.sub(r"[()<>]", lambda mark: f"%{ord(mark[0]):02X}", url) if is_web else ""


def _language(attributes: dict[str, str]) -> str:
    found = _LANGUAGE.search(attributes.get("class", ""))
    return found[1].lower() if found else ""
