"""What a program does when it is called with these words: tables of what is known. Pure.

Only `read` has to be right, because it runs unasked: each program here is one whose documented options, but for
those listed, neither write a file, nor start another program, nor use the network. Everything else tells a person
what to expect.
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from tinsmith.domain.policy import CommandClass
from tinsmith.proc.catalogue import HARMLESS, LOOKERS, PATHLESS, PATTERN_FIRST, names, told_class

Kind = Literal["exact", "quoted", "variable", "pattern", "opaque"]


class Word(NamedTuple):
    """One word of a command. `text` is its value when exact; else it is as written.

    `quoted` is one word that holds a variable of the script; an unquoted `variable` and a `pattern` may become
    several; `opaque` can be anything.
    """

    text: str
    kind: Kind = "exact"


class Doing(NamedTuple):
    """What a call does, and the paths it names; what it writes must lie inside the workspace for its class to hold."""

    command_class: CommandClass
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


UNKNOWN = Doing("unknown")

_FIND_ACTIONS = names("-exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf")
_SED_OPTIONS = re.compile(r"-[nErsuz]+|--(quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|debug)")
_SED_SLASHED = r"(?:[^/\\\n\[]|\[[^\]/|;\\\n]+\]|\\[^\n])*"
_SED_BARRED = r"(?:[^|\\\n\[]|\[[^\]/|;\\\n]+\]|\\[^\n])*"
"""Text up to the next delimiter; a bracket may not hide one, for versions of sed differ about that."""
_SED_ADDRESS = rf"(?:\d+|\$|/{_SED_SLASHED}/I?)"
_SED_PLAIN = re.compile(
    rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))? ?)?"
    rf"(?:[pdq=]|s/{_SED_SLASHED}/{_SED_SLASHED}/[gpI\d]*|s\|{_SED_BARRED}\|{_SED_BARRED}\|[gpI\d]*)"
)
_AWK_ACTIVE = re.compile(r"system|getline|[|>@]|close|fflush|include|load|ARGV", re.IGNORECASE)


def doing_of(words: Sequence[Word]) -> Doing:
    """What the command does. The first word is the program, wrappers are already taken off."""
    name = os.path.basename(words[0].text) if words[0].kind == "exact" else ""
    rest = words[1:]
    if not name or (words[0].text != name and not words[0].text.startswith(("/bin/", "/usr/bin/"))):
        return UNKNOWN
    if name in HARMLESS:
        return _harmless(name, rest)
    if name in LOOKERS:
        return _looker(name, rest)
    if name in _SPECIAL and (doing := _SPECIAL[name](rest)) != UNKNOWN:
        return doing
    return Doing(told_class(name, [word.text for word in rest]))


def _harmless(name: str, rest: Sequence[Word]) -> Doing:
    if name not in PATHLESS and any(_is_composed(word) for word in rest):
        return UNKNOWN
    return Doing("read", ("~",) if name == "cd" and not rest else paths_of(name, rest))


def _looker(name: str, rest: Sequence[Word]) -> Doing:
    short, long = LOOKERS[name]
    if any(word.kind != "exact" and not _leads_nowhere(word) for word in rest) or _has_option(rest, short, long):
        return UNKNOWN
    return Doing("read", paths_of(name, rest))


def _is_composed(word: Word) -> bool:
    """Whether a path is put together from pieces, so that nobody can say where it leads."""
    whole = r"\$\{?\w+\}?(?:/(?!\.\.)[\w.*-]+)*"
    is_variable = word.kind in {"variable", "quoted"}
    return word.kind == "opaque" or (is_variable and re.fullmatch(whole, word.text) is None)


def _leads_nowhere(word: Word) -> bool:
    """A pattern that can become nothing but paths: an option would have to begin with a dash."""
    return word.kind == "pattern" and re.match(r"[\w./]", word.text) is not None and "{" not in word.text


def _has_option(rest: Sequence[Word], short: str, long: Sequence[str]) -> bool:
    """Whether one of the options is there, alone, in a cluster, with a value, or cut short as getopt allows."""
    for word in rest:
        name = word.text.partition("=")[0]
        if name.startswith("--"):
            if len(name) > 2 and any(option.startswith(name) for option in long):
                return True
        elif name.startswith("-") and not set(word.text).isdisjoint(short):
            return True
    return False


def paths_of(name: str, rest: Sequence[Word]) -> tuple[str, ...]:
    """The words that may name a file: no options, no patterns, no text to print."""
    if name in PATHLESS:
        return ()
    plain = [word.text for word in rest if not word.text.startswith("-")]
    values = [word.text.partition("=")[2] for word in rest if word.text.startswith("--")]
    attached = [word.text[2:] for word in rest if re.match(r"-[A-Za-z][/~.]", word.text)]
    skipped = 1 if name in PATTERN_FIRST and not any(re.match(r"-[ef]|--(file|regexp)", w.text) for w in rest) else 0
    return (*plain[skipped:], *(value for value in values if value), *attached)


def _find(rest: Sequence[Word]) -> Doing:
    if "-delete" in {word.text for word in rest}:
        return Doing("destructive")
    if any(word.kind != "exact" and not _leads_nowhere(word) for word in rest):
        return UNKNOWN
    if not _FIND_ACTIONS.isdisjoint(word.text for word in rest):
        return UNKNOWN
    starts: list[str] = []
    for word in rest:
        if word.text.startswith(("-", "(", ")", "!", ",")) and word.text not in {"-H", "-L", "-P"}:
            break
        starts.append(word.text)
    return Doing("read", tuple(start for start in starts if not start.startswith("-")))


def _sed(rest: Sequence[Word]) -> Doing:
    """Scripts that print, delete, number, quit or substitute, and neither write (`w`) nor execute (`e`)."""
    if any(word.kind != "exact" and not _leads_nowhere(word) for word in rest):
        return UNKNOWN
    texts = [word.text for word in rest]
    scripts = [texts[place + 1] for place, text in enumerate(texts[:-1]) if text == "-e"]
    taken = {place + offset for place, text in enumerate(texts) if text == "-e" for offset in (0, 1)}
    others = [text for place, text in enumerate(texts) if place not in taken]
    in_place = [text for text in others if text in {"-i", "--in-place"}]
    options = [text for text in others if text.startswith("-") and text not in in_place]
    files = [text for text in others if not text.startswith("-")]
    if not scripts and files:
        scripts.append(files.pop(0))
    is_plain = all(_SED_PLAIN.fullmatch(part.strip()) for script in scripts for part in script.split(";"))
    if not scripts or not is_plain or not all(_SED_OPTIONS.fullmatch(option) for option in options):
        return UNKNOWN
    return Doing("write_workspace", (), tuple(files)) if in_place else Doing("read", tuple(files))


def _awk(rest: Sequence[Word]) -> Doing:
    words = list(rest)
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        if option.kind != "exact" or not re.fullmatch(r"-[Fv].*", option.text, re.DOTALL):
            return UNKNOWN
        if len(option.text) == 2 and words:
            words.pop(0)
    if not words or words[0].kind != "exact" or _AWK_ACTIVE.search(words[0].text):
        return UNKNOWN
    if any(_is_composed(word) or "=" in word.text for word in words[1:]):
        return UNKNOWN
    return Doing("read", tuple(word.text for word in words[1:]))


def _uniq(rest: Sequence[Word]) -> Doing:
    return _one_file(rest, {"-f", "-s", "-w"})


def _xxd(rest: Sequence[Word]) -> Doing:
    return _one_file(rest, {"-c", "-g", "-l", "-o", "-s"})


def _one_file(rest: Sequence[Word], valued: set[str]) -> Doing:
    """For programs that write to a second file, and to the first with `-r`."""
    words = [word.text for word in rest]
    files: list[str] = []
    while words:
        word = words.pop(0)
        if word in valued and words:
            words.pop(0)
        elif word in {"-", "--"} or not word.startswith("-"):  # what follows may count as a file, options too
            files = [*([] if word == "--" else [word]), *words]
            break
    is_known = all(word.kind == "exact" and not word.text.startswith("-r") for word in rest)
    return Doing("read", tuple(files)) if is_known and len(files) <= 1 else UNKNOWN


def _date(rest: Sequence[Word]) -> Doing:
    shown = re.compile(r"\+.*|-u|-R|-I\w*|--utc|--universal|--rfc-\S+|--iso-8601(=\w+)?|--date=.*", re.DOTALL)
    words = list(rest)
    while words:
        word = words.pop(0)
        if word.text in {"-d", "-r"} and words:
            word = words.pop(0)
        elif not shown.fullmatch(word.text):
            return UNKNOWN
        if word.kind == "opaque":
            return UNKNOWN
    return Doing("read")


def _printf(rest: Sequence[Word]) -> Doing:
    """Without `-v` and `%n`, which assign variables."""
    if not rest or rest[0].kind != "exact" or re.match(r"-|.*%[^a-zA-Z%]*[hjlLqtz]*n", rest[0].text, re.DOTALL):
        return UNKNOWN
    return UNKNOWN if any(word.kind == "opaque" for word in rest) else Doing("read")


def _test(rest: Sequence[Word]) -> Doing:
    """Comparisons whose operator stands there in full: `-v` and `-R` evaluate what they are given."""
    words = list(rest)
    while words and words[0] == Word("!"):
        words = words[1:]
    if any(word.kind not in {"exact", "quoted"} for word in words):
        return UNKNOWN
    unary, binary = re.compile(r"-[a-hkprstuwxzGLNOS]"), re.compile(r"=|==|!=|<|>|-(eq|ne|lt|le|gt|ge|nt|ot|ef)")
    match words:
        case [Word()]:
            return Doing("read")
        case [Word(operator, "exact"), _] if unary.fullmatch(operator):
            return Doing("read")
        case [_, Word(operator, "exact"), _] if binary.fullmatch(operator):
            return Doing("read")
        case _:
            return UNKNOWN


def _bracket(rest: Sequence[Word]) -> Doing:
    return _test(rest[:-1]) if rest and rest[-1] == Word("]") else UNKNOWN


def _read(rest: Sequence[Word]) -> Doing:
    plain = re.compile(r"-[rs]*|[a-z][a-z0-9_]*|-d|-n|\d+|", re.ASCII)
    return Doing("read") if all(w.kind == "exact" and plain.fullmatch(w.text) for w in rest) else UNKNOWN


def _set(rest: Sequence[Word]) -> Doing:
    plain = re.compile(r"[-+][eux]*o?|pipefail|errexit|nounset|xtrace")
    return Doing("read") if rest and all(w.kind == "exact" and plain.fullmatch(w.text) for w in rest) else UNKNOWN


def _alone(rest: Sequence[Word]) -> Doing:
    return UNKNOWN if rest else Doing("read")


def _getent(rest: Sequence[Word]) -> Doing:
    return Doing("network" if rest and rest[0].text in {"hosts", "ahosts", "ahostsv4", "ahostsv6"} else "unknown")


def _version(rest: Sequence[Word]) -> Doing:
    is_asked = [word.text for word in rest] == ["--version"] and rest[0].kind == "exact"
    return Doing("read") if is_asked else UNKNOWN


def _writer(rest: Sequence[Word]) -> Doing:
    if any(word.kind != "exact" and not _leads_nowhere(word) for word in rest):
        return UNKNOWN
    values = [word.text.partition("=")[2] for word in rest if word.text.startswith("--") and "=" in word.text]
    return Doing("write_workspace", (), (*(word.text for word in rest if not word.text.startswith("-")), *values))


def _chmod(rest: Sequence[Word]) -> Doing:
    if _has_option(rest, "R", ("--recursive",)) or any(word.kind != "exact" for word in rest):
        return Doing("destructive")
    words = [word.text for word in rest if not re.fullmatch(r"-[cfv]|--\w+", word.text)]
    return Doing("write_workspace", (), tuple(words[1:])) if len(words) > 1 else UNKNOWN


_SPECIAL: dict[str, Callable[[Sequence[Word]], Doing]] = {
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "uniq": _uniq,
    "xxd": _xxd,
    "date": _date,
    "printf": _printf,
    "read": _read,
    "set": _set,
    "test": _test,
    "[": _bracket,
    "env": _alone,
    "wait": _alone,
    "hostname": _alone,
    "getent": _getent,
    "chmod": _chmod,
    **dict.fromkeys(names("bash cc clang cmake g++ gcc make python python3 ruff"), _version),
    **dict.fromkeys(names("mkdir touch cp ln tee"), _writer),
}
