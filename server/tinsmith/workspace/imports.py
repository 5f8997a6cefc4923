"""Which files of a folder a text imports, as far as names tell. Pure."""

import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tinsmith.workspace.languages import language_of

_ALIASES = {"tsx": "javascript", "typescript": "javascript", "cpp": "c", "kotlin": "java", "scala": "java"}
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "python": re.compile(
        r"^[ \t]*(?:from[ \t]+(?P<of>\.*[\w.]*)[ \t]+import[ \t]+\(?(?P<names>[\w, \t*]*)"
        r"|import[ \t]+(?P<plain>[\w.]+))",
        re.MULTILINE,
    ),
    "javascript": re.compile(r"""(?:\bfrom|\bimport|\brequire\()[ \t(]*["'](?P<plain>\.[^"'\n]*)["']"""),
    "c": re.compile(r"^[ \t]*#[ \t]*include[ \t]+[\"<](?P<plain>[^\">\n]+)[\">]", re.MULTILINE),
    "java": re.compile(r"^import[ \t]+(?:static[ \t]+)?(?P<plain>[\w.]+)", re.MULTILINE),
    "rust": re.compile(
        r"^[ \t]*(?:pub[ \t]+)?(?:use[ \t]+(?:crate::|super::|self::)?(?P<plain>[\w:]+)|mod[ \t]+(?P<of>\w+);)",
        re.MULTILINE,
    ),
    "lua": re.compile(r"""\brequire[ \t(]*["'](?P<plain>[\w./-]+)["']"""),
    "ruby": re.compile(r"""^[ \t]*require(?:_relative)?[ \t(]*["'](?P<plain>[\w./-]+)["']""", re.MULTILINE),
}
_INNER = re.compile(r"/(?:__init__|index|mod|init)$")
_DOTTED = frozenset({"python", "java", "lua", "rust"})


class Modules:
    """The files that may be imported, found by the ends of their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_last: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for path in paths:
            stem = _INNER.sub("", os.path.splitext(path)[0])
            self._by_last[_family(path), stem.rpartition("/")[2]].append((stem, path))

    def imported(self, path: str, text: str) -> set[str]:
        """The files that the text at this path imports, without itself."""
        family = _family(path)
        pattern = _PATTERNS.get(family)
        names = {name for found in pattern.finditer(text) for name in _names(found)} if pattern else ()
        return {module for name in names for module in self._resolved(family, path, name)} - {path}

    def _resolved(self, family: str, path: str, name: str) -> list[str]:
        folder = posixpath.dirname(path)
        if name.startswith("."):
            return self._relative(family, folder, name)
        stem = name.replace("::", "/").replace(".", "/") if family in _DOTTED else os.path.splitext(name)[0]
        return self._ending(family, stem) or self._ending(family, stem.rpartition("/")[0])

    def _relative(self, family: str, folder: str, name: str) -> list[str]:
        if family == "python":
            dots = len(name) - len(name.lstrip("."))
            name = "../" * (dots - 1) + name[dots:].replace(".", "/")
        stem = posixpath.normpath(posixpath.join(folder, name))
        for each in (stem, os.path.splitext(stem)[0], posixpath.dirname(stem)):
            if exact := [
                path for other, path in self._by_last.get((family, each.rpartition("/")[2]), ()) if other == each
            ]:
                return exact
        return []

    def _ending(self, family: str, stem: str) -> list[str]:
        """The one file, or one of a kind each, whose path ends so; none when it could be many."""
        found = [path for other, path in self._named(family, stem) if f"/{other}".endswith(f"/{stem}")]
        return found if stem and len(found) <= 2 else []

    def _named(self, family: str, stem: str) -> list[tuple[str, str]]:
        return self._by_last.get((family, stem.rpartition("/")[2]), [])


def _family(path: str) -> str:
    """Languages that import from each other count as one."""
    language = language_of(path)
    return _ALIASES.get(language, language)


def _names(found: re.Match[str]) -> list[str]:
    groups = found.groupdict()
    if groups.get("plain"):
        return [groups["plain"]]
    of = groups.get("of") or ""
    names = [name.split()[0] for name in (groups.get("names") or "").split(",") if name.strip(" \t*")]
    joint = "" if of.endswith(".") or not of else "."
    return [f"{of}{joint}{name}" for name in names] or [of]
