"""code_grep: the lines that match, from the files where they matter most."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.arguments import GrepArguments
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.glob import glob_filter
from tinsmith.workspace.ignore import is_ignored
from tinsmith.workspace.listing import Listing
from tinsmith.workspace.paths import Place, is_secret, is_within, listed
from tinsmith.workspace.pattern import Matcher, matcher
from tinsmith.workspace.ranking import Candidate, candidate, closest, in_order, shares
from tinsmith.workspace.search import content_of_file, content_of_text, find_ripgrep, search
from tinsmith.workspace.text import lines_of

_PAGE_CHARACTERS = RESULT_CHARACTERS - 1_000
"""What is left for lines beside the header and the notes."""
_LINE_CHARACTERS = 300
_TITLE_CHARACTERS = 60
_GAP = "--\n"
_CLOSE_LOOKS = 200
"""Files that are read again to rank them; more have a pattern that says little, and are chosen by name."""


async def preview(ports: ToolPorts, arguments: GrepArguments, scope: CallScope) -> Access:
    """Where the call looks. Raises ToolError `badPattern`, `badGlob`."""
    place = await ports.locate(arguments.path or scope.root, scope)
    await ports.snapshots.off_loop(_prepared, arguments)
    return Access(
        action="look",
        title=f"Search {place.shown} for {arguments.pattern[:_TITLE_CHARACTERS]!r}",
        subject=ToolSubject("code_grep", {"pattern": arguments.pattern, "path": place.shown}),
        target=place.shown,
        is_outside=place.is_outside,
        is_secret=place.is_secret,
        paths=(place.path,),
    )


async def run(ports: ToolPorts, arguments: GrepArguments, scope: CallScope) -> ToolResult:
    """The best lines, how many there are in all, and what was not searched. None at all is an answer too."""
    place = await ports.locate(arguments.path or scope.root, scope)
    names = {*ports.documents.open_paths(), *ports.documents.unsaved()}
    opened = {name: snapshot.text for name in names if (snapshot := ports.documents.find(name))}
    return await ports.snapshots.off_loop(_run, ports, arguments, place, opened, scope)


class _Corpus(NamedTuple):
    """What is searched: files of the listing as they are on disk, open texts by the same names.

    `secrets` is how many were left out, `prefix` what turns a name into the path that is shown.
    """

    listing: Listing
    files: Sequence[str]
    texts: dict[str, str]
    secrets: int
    prefix: str

    def content(self, path: str) -> bytes:
        """The text as it is now; nothing when there is none any more."""
        text = self.texts.get(path)
        if text is not None:
            return content_of_text(text)
        return content_of_file(os.path.join(self.listing.folder, path)) or b""


class _Page(NamedTuple):
    text: str
    lines: int
    locations: tuple[Location, ...]


def _prepared(arguments: GrepArguments) -> tuple[Matcher, Callable[[str], bool] | None]:
    found = matcher(arguments.pattern, is_regex=arguments.regex, case=arguments.case)
    return found, glob_filter(arguments.glob) if arguments.glob else None


def _run(
    ports: ToolPorts, arguments: GrepArguments, place: Place, opened: Mapping[str, str], scope: CallScope
) -> ToolResult:
    wanted, is_wanted = _prepared(arguments)
    check, root = scope.cancel.check, os.path.realpath(scope.root)
    corpus = _corpus(ports, place, root, opened, is_wanted, check)
    counts = search(corpus.listing, corpus.files, corpus.texts, wanted, check, ripgrep=find_ripgrep(root))
    looked_at: list[Candidate] = []
    for path in closest(counts, arguments.pattern, _CLOSE_LOOKS):
        check()
        found = candidate(path, corpus.content(path), wanted, arguments.max_results)
        looked_at += [found] if found else []
    chosen = shares(in_order(looked_at, arguments.pattern), arguments.max_results)
    page = _page(ports, corpus, chosen, wanted, arguments.context)
    total = sum(counts.values())
    searched = len(corpus.files) + len(corpus.texts)
    head = f"matches: {total:,} lines in {len(counts):,} of {searched:,} files\n"
    return ToolResult(head + page.text + _notes(corpus, total, page), locations=page.locations)


def _corpus(
    ports: ToolPorts,
    place: Place,
    root: str,
    opened: Mapping[str, str],
    is_wanted: Callable[[str], bool] | None,
    check: Callable[[], None],
) -> _Corpus:
    prefix = "" if place.shown == "." else os.path.join(place.shown, "")
    if os.path.isdir(place.path):
        listing = ports.listings.look(place.path, root, check)
        secret = frozenset[str]() if place.is_secret else listing.secret
    elif os.path.lexists(place.path) or place.path in opened or place.given in opened:
        listing, secret = Listing(os.path.dirname(place.path), (os.path.basename(place.path),)), frozenset[str]()
        prefix = place.shown.removesuffix(os.path.basename(place.path))
    else:
        raise ToolError("notFound", f"There is no {place.shown} to search in. Find the path with code_files.")
    texts = dict(_texts(listing, root, opened))
    meant: Sequence[str] = (*listing.files, *sorted(texts.keys() - set(listing.files))) if texts else listing.files
    if is_wanted:
        meant = [path for path in meant if is_wanted(path) or (prefix and is_wanted(prefix + path))]
    left_out = secret.intersection(meant)
    files = [path for path in meant if path not in texts and path not in left_out]
    texts = {path: texts[path] for path in meant if path in texts and path not in left_out}
    return _Corpus(listing, files, texts, len(left_out), prefix)


def _texts(listing: Listing, root: str, opened: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The open documents below the listing's folder: those of listed files, and new ones that are not on disk yet."""
    files = set(listing.files) if opened else set[str]()
    for name, text in opened.items():
        path = os.path.realpath(name)
        if not is_within(path, listing.folder):
            continue
        inner = os.path.relpath(path, listing.folder)
        is_new = not os.path.lexists(path) and not is_secret(path) and not is_ignored(path, root)
        if inner in files or is_new:
            yield inner, text


def _page(
    ports: ToolPorts, corpus: _Corpus, chosen: list[tuple[Candidate, tuple[int, ...]]], wanted: Matcher, context: int
) -> _Page:
    """As many of the chosen lines as fit, files in their order, and the first place in each."""
    pieces: list[str] = []
    locations: dict[str, Location] = {}
    size = shown = 0
    for found, numbers in chosen:
        path, name = os.path.join(corpus.listing.folder, found.path), listed(corpus.prefix + found.path)
        text = corpus.content(found.path).decode("utf-8", "replace")
        safe_text = ports.redact(text)
        lines = lines_of(text)
        safe_lines = lines if safe_text == text else lines_of(safe_text)
        for number, is_match in _numbers(lines, numbers, wanted, context):
            mark = ":" if is_match else "-"
            piece = f"{name}{mark}{number}{mark}{_cut(safe_lines[number - 1], wanted)}\n" if number else _GAP
            piece = "" if piece == _GAP and not pieces else piece
            size += len(piece)
            if size > _PAGE_CHARACTERS:
                return _Page("".join(pieces), shown, tuple(locations.values()))
            pieces.append(piece)
            if is_match:
                shown += 1
                locations.setdefault(path, Location(path, number, number))
    return _Page("".join(pieces), shown, tuple(locations.values()))


def _numbers(lines: list[str], numbers: tuple[int, ...], wanted: Matcher, context: int) -> Iterator[tuple[int, bool]]:
    """The lines to show and whether they match; 0 before a block of lines when there is context."""
    last = 0
    for number in numbers:
        if number > len(lines) or not _matches(lines[number - 1], wanted):
            continue  # the file has changed since
        first, until = max(last + 1, number - context), min(number + context, len(lines))
        if context and first > last + 1 - (not last):
            yield 0, False
        for around in range(first, until + 1):
            yield around, around == number or _matches(lines[around - 1], wanted)
        last = max(last, until)


def _matches(line: str, wanted: Matcher) -> bool:
    return wanted.line.search(line.encode("utf-8", "replace")) is not None


def _cut(line: str, wanted: Matcher) -> str:
    """The line, or of a long one the part around the match with the number of characters that are missing."""
    if len(line) <= _LINE_CHARACTERS:
        return line
    content = line.encode("utf-8", "replace")
    match = wanted.line.search(content)
    start = len(content[: match.start()].decode("utf-8", "replace")) if match else 0
    begin = max(0, min(start - _LINE_CHARACTERS // 3, len(line) - _LINE_CHARACTERS))
    end = begin + _LINE_CHARACTERS
    before = f"[{begin:,} characters]…" if begin else ""
    after = f"…[{len(line) - end:,} characters]" if end < len(line) else ""
    return before + line[begin:end] + after


def _notes(corpus: _Corpus, total: int, page: _Page) -> str:
    notes = ""
    if page.lines < total:
        notes += (
            f"[{total - page.lines:,} more lines match; narrow `pattern`, `path` or `glob`, or raise `max_results`]\n"
        )
    if corpus.secrets:
        notes += f"[{corpus.secrets:,} secret files (.env, keys) were not searched; name one as `path` to do so]\n"
    if not corpus.listing.is_whole:
        notes += f"[only the first {len(corpus.listing.files):,} files were searched; name a folder as `path`]\n"
    return notes
