"""Symbols by the look of a line, for languages without a grammar at hand. Pure."""

import re
from functools import cache

from tinsmith.domain.symbol import CONTAINERS, Symbol, without_owner
from tinsmith.workspace.text import lines_of

_LONGEST_LINE = 400
"""Characters; a longer line defines nothing that a person would look for."""

_C_TYPES = r"(?:typedef\s+)?(?P<kind>struct|union|enum|class|namespace)\s+(?:class\s+)?(?P<name>\w+)[^;(]*$"
_MACRO = r"\s*#\s*define\s+(?P<macro>\w+)"
_C_FUNCTION = (
    r"(?!(?:if|for|while|switch|return|else|do|case)\b)[A-Za-z_][\w\s*&:<>,~]*?[\s*&]"
    r"(?P<function>~?[\w:~]+)\s*\([^;]*$"
)
_MODIFIERS = (
    r"\s*(?:(?:public|private|protected|internal|static|final|abstract|sealed|partial|override|async|virtual|readonly"
    r"|unsafe|extern|export|default|declare)\s+)*"
)
_SCRIPT = (
    _MODIFIERS + r"(?P<kind>class|interface|enum|namespace)\s+(?P<name>[\w$.]+)",
    _MODIFIERS + r"function\b\s*\*?\s*(?P<function>[\w$]+)",
    _MODIFIERS + r"type\s+(?P<type>[\w$]+)\b[^=]*=",
    r"(?:export\s+)?(?:const|let|var)\s+(?P<function>[\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)",
    r"(?:export\s+)?(?:const|let|var)\s+(?P<variable>[\w$]+)",
    r"\s+(?!(?:if|for|while|switch|catch|return|function)\b)(?:(?:static|async|get|set|public|private|protected|readonly)\s+)*(?P<method>[\w$#]+)\s*\([^()]*\)\s*(?::[^{}]+)?\{\s*$",
)
_CURLY = (
    _MODIFIERS + r"(?P<kind>class|interface|enum|struct|record|namespace|@interface)\s+(?P<name>[\w.]+)",
    r"\s+(?!(?:return|new|throw|else|await|using)\b)[\w<>\[\],.?\s@]+\s(?P<method>\w+)\s*\([^;=]*$",
)
LINES: dict[str, tuple[str, ...]] = {
    "python": (
        r"\s*(?P<kind>class)\s+(?P<name>\w+)",
        r"\s*(?:async\s+)?def\s+(?P<function>\w+)",
        r"(?P<variable>[A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)",
    ),
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "go": (
        r"func\s+\(\s*(?:\w+\s+)?\*?(?P<container>\w+)[^)]*\)\s*(?P<method>\w+)",
        r"func\s+(?P<function>\w+)",
        r"type\s+(?P<name>\w+)\s+(?P<kind>struct|interface)\b",
        r"type\s+(?P<type>\w+)",
        r"const\s+(?P<constant>\w+)",
        r"var\s+(?P<variable>\w+)",
    ),
    "rust": (
        r"\s*(?:pub(?:\([^)]*\))?\s+)?(?P<kind>struct|enum|union|trait|mod|type)\s+(?P<name>\w+)",
        r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async|unsafe|default|extern(?:\s+\"[^\"]*\")?)\s+)*fn\s+(?P<function>\w+)",
        r"\s*(?:unsafe\s+)?(?P<kind>impl)\b(?:<[^{]*?>)?\s*(?:[\w:<>,' ]+\s+for\s+)?(?P<name>\w+)",
        r"\s*(?:pub(?:\([^)]*\))?\s+)?const\s+(?P<constant>\w+)\s*:",
        r"\s*(?:pub(?:\([^)]*\))?\s+)?static\s+(?:mut\s+)?(?P<variable>\w+)\s*:",
        r"\s*macro_rules!\s+(?P<macro>\w+)",
    ),
    "c": (_MACRO, _C_TYPES, _C_FUNCTION),
    "cpp": (_MACRO, r"\s*" + _C_TYPES, r"\s*using\s+(?P<type>\w+)\s*=", _C_FUNCTION),
    "java": _CURLY,
    "csharp": _CURLY,
    "lua": (
        r"\s*(?:local\s+)?function\s+(?P<function>[\w.:]+)",
        r"\s*(?:local\s+)?(?P<function>[\w.]+)\s*=\s*function\b",
        r"local\s+(?P<variable>\w+)\s*=",
    ),
    "ruby": (
        r"\s*(?P<kind>class|module)\s+(?P<name>[A-Z][\w:]*)",
        r"\s*def\s+(?:self\.)?(?P<function>[\w?!=\[\]<>+*/-]+)",
        r"\s*(?P<constant>[A-Z]\w*)\s*=(?!=)",
    ),
    "bash": (
        r"\s*(?:function\s+)?(?P<function>[\w:.-]+)\s*\(\)",
        r"\s*function\s+(?P<function>[\w:.-]+)",
        r"(?:export\s+|readonly\s+|declare\s+(?:-\w+\s+)?)?(?P<variable>\w+)=",
    ),
    "kotlin": (
        _MODIFIERS + r"(?:data\s+|open\s+)*(?P<kind>class|interface|object)\s+(?P<name>\w+)",
        r"\s*(?:\w+\s+)*?fun\s+(?:<[^>]*>\s*)?(?:[\w<>]+\.)?(?P<function>\w+)",
    ),
    "swift": (
        r"\s*(?:\w+\s+)*?(?P<kind>class|struct|enum|protocol|extension|actor)\s+(?P<name>\w+)",
        r"\s*(?:\w+\s+)*?func\s+(?P<function>\w+)",
    ),
    "php": (
        _MODIFIERS + r"(?P<kind>class|interface|trait|enum)\s+(?P<name>\w+)",
        _MODIFIERS + r"function\s+&?(?P<function>\w+)",
    ),
}
_KINDS = {"namespace": "module", "mod": "module", "record": "class", "@interface": "interface", "object": "class"}


def find_definitions(language: str, text: str) -> list[Symbol] | None:
    """What the lines of a text seem to define, each symbol on one line; None for a language not known here."""
    patterns = _patterns(language)
    if not patterns:
        return None
    symbols: list[Symbol] = []
    around: list[tuple[int, Symbol]] = []
    for number, line in enumerate(lines_of(text), 1):
        found = next((match for each in patterns if (match := each.match(line))), None) if _may_define(line) else None
        if found is None:
            continue
        indent = len(line) - len(line.lstrip())
        while around and around[-1][0] >= indent:
            around.pop()
        symbol = _symbol(found, number, around[-1][1] if around else None)
        symbols.append(symbol)
        around.append((indent, symbol))
    return symbols


@cache
def _patterns(language: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each) for each in LINES.get(language, ()))


def _may_define(line: str) -> bool:
    return 0 < len(line) <= _LONGEST_LINE and not line.isspace()


def _symbol(found: re.Match[str], line: int, outer: Symbol | None) -> Symbol:
    groups = {name: value for name, value in found.groupdict().items() if value}
    container = groups.pop("container", "")
    if "name" in groups:
        kind, name = _KINDS.get(groups["kind"], groups["kind"]), groups["name"]
    else:
        kind, name = next(iter(groups.items()))
    owner, last = ("", name) if kind == "module" else without_owner(name)
    if kind == "function" and outer is not None and outer.kind in CONTAINERS:
        kind = "method"
    return Symbol(kind, last, container or owner or (outer.name if outer else ""), line, line)
