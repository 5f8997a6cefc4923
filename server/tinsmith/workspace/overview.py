"""An overview of a folder that a model can plan from, bounded; the same folder gives the same text. Blocking."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tinsmith.domain.cancel import CancelToken
from tinsmith.workspace.imports import Modules
from tinsmith.workspace.languages import is_test, language_of
from tinsmith.workspace.sources import Sources
from tinsmith.workspace.symbols import find_symbols, has_symbols

FOLDER_ROWS = 60
FILE_ROWS = 30
TEST_ROWS = 5
SYMBOLS_PER_FILE = 8
_LINE_CHARACTERS = 300
_LOOKED_INTO_FILES = 3_000
_LOOKED_INTO_BYTES = 24_000_000
"""Of all files together, for their imports."""
_README = re.compile(r"(readme|index|agents|architecture|contributing)(\.\w+)?", re.IGNORECASE)
_MANIFEST = re.compile(
    r"pyproject\.toml|setup\.py|package\.json|Cargo\.toml|go\.mod|Makefile|CMakeLists\.txt|pom\.xml|Gemfile|Dockerfile"
    r"|build\.gradle(\.kts)?|docker-compose\.ya?ml|.*\.(csproj|sln|gemspec|rockspec)"
)
_ENTRY = re.compile(r"(__main__|main|app|cli|server|manage|index|init|lib|mod)\.\w+|Program\.cs|Main\.java")
_MADE = re.compile(r"\.min\.\w+$|(^|[.-])lock(\.\w+)?$|package-lock\.json$|-lock\.yaml$|\.(map|snap|svg)$|_pb2?\.\w+$")
_NO_CODE = frozenset({"json", "yaml", "toml", "xml", "html", "css", "text", "markdown", ""})
"""Named behind the languages of code."""
_LATER = frozenset({"variable", "constant", "declaration", "macro"})


class File(NamedTuple):
    """A file by its path relative to the folder; size in bytes."""

    path: str
    size: int
    language: str
    imported_by: int = 0

    @property
    def depth(self) -> int:
        return self.path.count("/")


def overview(sources: Sources, paths: Sequence[str], depth: int, *, cancel: CancelToken) -> str:
    """Files, folders `depth` levels down, the files to know first with their symbols, and the tests.

    Raises Cancelled.
    """
    files = _measured(sources, paths, cancel)
    if not files:
        return "files: 0\n"
    files = _with_imports(sources, files, cancel)
    tests = [file for file in files if is_test(file.path)]
    sections = [_total(files), _folders(files, depth)]
    sections.append(_important([file for file in files if file not in set(tests)], sources, cancel))
    if tests:
        sections.append(_tests(tests))
    return "\n".join(sections)


def _measured(sources: Sources, paths: Sequence[str], cancel: CancelToken) -> list[File]:
    files: list[File] = []
    for path in paths:
        cancel.check()
        size = sources.size(path)
        if size is not None:
            files.append(File(path, size, language_of(path)))
    return files


def _with_imports(sources: Sources, files: list[File], cancel: CancelToken) -> list[File]:
    """The files with how many others import each, as far as the budget goes."""
    code = [file for file in files if has_symbols(file.path)]
    modules = Modules(file.path for file in code)
    counts: Counter[str] = Counter()
    left = _LOOKED_INTO_BYTES
    for file in code[:_LOOKED_INTO_FILES]:
        cancel.check()
        left -= file.size
        if left < 0:
            break
        text = sources.text(file.path)
        counts.update(modules.imported(file.path, text) if text else ())
    return [file._replace(imported_by=counts[file.path]) for file in files]


def _total(files: Sequence[File]) -> str:
    return f"files: {len(files):,}, {_bytes(sum(file.size for file in files))}; {_languages(files, 6)}\n"


def _folders(files: Sequence[File], depth: int) -> str:
    inside: dict[str, list[File]] = {}
    for file in files:
        parts = file.path.split("/")[:-1]
        for level in range(1, min(len(parts), depth) + 1):
            inside.setdefault("/".join(parts[:level]), []).append(file)
    shown = sorted(inside, key=lambda folder: (folder.count("/"), -len(inside[folder]), folder))[:FOLDER_ROWS]
    rows = [
        f"{'  ' * folder.count('/')}{folder.rpartition('/')[2]}/  {len(inside[folder]):,} files, "
        f"{_bytes(sum(file.size for file in inside[folder]))}; {_languages(inside[folder], 2)}\n"
        for folder in sorted(shown, key=lambda folder: folder.split("/"))
    ]
    if len(inside) > len(shown):
        rows.append(f"[{len(inside) - len(shown):,} smaller folders left out; ask for one with `path`]\n")
    return "".join(["Folders\n", *rows]) if rows else "Folders\n(none)\n"


def _important(files: Sequence[File], sources: Sources, cancel: CancelToken) -> str:
    known = [file for file in files if file.language and not _MADE.search(file.path)]
    ranked = sorted(known, key=lambda file: (-_weight(file), file.path))[:FILE_ROWS]
    rows: list[str] = []
    for file in ranked:
        cancel.check()
        facts = [_bytes(file.size)]
        if file.imported_by:
            facts.append(f"imported by {file.imported_by}")
        names = _names(sources, file)
        rows.append(f"{file.path}  ({', '.join(facts)}){': ' if names else ''}{names}"[:_LINE_CHARACTERS] + "\n")
    rest = f"[{len(files) - len(ranked):,} other files; code_files and code_outline find them]\n"
    return "".join(["Files to know first\n", *rows]) + (rest if len(files) > len(ranked) else "")


def _weight(file: File) -> float:
    """How much a file says about the whole: what it is by custom, who needs it, its size, how deep it lies."""
    name = os.path.basename(file.path)
    custom = 0
    if _README.fullmatch(name):
        custom = 40 if file.depth == 0 else 8
    elif _MANIFEST.fullmatch(name):
        custom = 34 if file.depth == 0 else 8
    elif _ENTRY.fullmatch(name):
        custom = 20
    is_code = file.language not in _NO_CODE
    return custom + 2 * min(file.imported_by, 10) + is_code * min(file.size.bit_length(), 16) - 3 * file.depth


def _names(sources: Sources, file: File) -> str:
    """The symbols at the top of a file, private ones and variables last."""
    text = sources.text(file.path)
    outline = find_symbols(file.path, text) if text is not None else None
    top = [symbol for symbol in outline.symbols if not symbol.container] if outline else []
    top.sort(key=lambda symbol: (symbol.name.startswith("_"), symbol.kind in _LATER, symbol.start_line))
    names = ", ".join(f"{symbol.kind} {symbol.name}:{symbol.start_line}" for symbol in top[:SYMBOLS_PER_FILE])
    return names + (f", {len(top) - SYMBOLS_PER_FILE} more" if len(top) > SYMBOLS_PER_FILE else "")


def _tests(tests: Sequence[File]) -> str:
    largest = sorted(tests, key=lambda file: (-file.size, file.path))[:TEST_ROWS]
    rows = "".join(f"{file.path}  ({_bytes(file.size)})\n" for file in largest)
    return f"Tests: {len(tests):,} files, {_bytes(sum(file.size for file in tests))}; the largest\n{rows}"


def _languages(files: Sequence[File], limit: int) -> str:
    """The languages with the most bytes, code before the rest."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for file in files:
        sizes[file.language] += file.size
        counts[file.language] += 1
    order = sorted(sizes, key=lambda language: (not language, language in _NO_CODE, -sizes[language], language))
    return ", ".join(f"{language or 'other'} {counts[language]:,}" for language in order[:limit])


def _bytes(size: int) -> str:
    if size < 1_000:
        return f"{size} B"
    return f"{size / 1_000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
