"""What the editor's language servers find: as lines of text, and which of it a change brought. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tinsmith.domain.diagnostic import Diagnostic
from tinsmith.workspace.diff import Hunk, carried

_MESSAGE_CHARACTERS = 400
_SEVERITIES = {"error": "error", "warning": "warning", "information": "note", "hint": "hint"}

_Identity = tuple[str, str, str, str]


def told(item: Diagnostic, shown_path: str) -> str:
    """One line: `path:line:column severity: message [source code]`."""
    message = " ".join(item.message.split())
    if len(message) > _MESSAGE_CHARACTERS:
        message = message[:_MESSAGE_CHARACTERS] + "…"
    origin = " ".join(part for part in (item.source, item.code) if part)
    return f"{shown_path}:{item.line}:{item.column} {item.severity}: {message}{f' [{origin}]' if origin else ''}\n"


def newly_found(
    before: Sequence[Diagnostic], after: Sequence[Diagnostic], hunks: Sequence[Hunk]
) -> tuple[Diagnostic, ...]:
    """What is in `after` and was not in `before`, without hints.

    A finding is the same when it says the same, on the line that its line became by `hunks` before on any other.
    """
    moved = Counter((_identity(item), _moved(item.line, hunks)) for item in before)
    elsewhere = Counter(_identity(item) for item in before)
    unmatched: list[Diagnostic] = []
    for item in after:
        place = (_identity(item), item.line)
        if moved[place]:
            moved[place] -= 1
            elsewhere[place[0]] -= 1
        else:
            unmatched.append(item)
    new: list[Diagnostic] = []
    for item in unmatched:
        if elsewhere[_identity(item)] > 0:
            elsewhere[_identity(item)] -= 1
        elif item.severity != "hint":
            new.append(item)
    return tuple(new)


def counted(items: Iterable[Diagnostic]) -> str:
    """How many of each severity, such as `2 errors, 1 warning`; empty for none."""
    counts = Counter(item.severity for item in items)
    found = [(counts[severity], one) for severity, one in _SEVERITIES.items() if counts[severity]]
    return ", ".join(f"{count} {one}{'' if count == 1 else 's'}" for count, one in found)


def _identity(item: Diagnostic) -> _Identity:
    return item.severity, item.source, item.code, item.message


def _moved(line: int, hunks: Sequence[Hunk]) -> int:
    """The line's number after the change; 0 when the change replaced it."""
    return next((first for first, _ in carried([(line, line)], hunks)), 0)
