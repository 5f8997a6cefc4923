"""The ledger of shown lines: what each conversation's model has seen of each text."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinsmith.workspace.diff import Hunk, LineRange, carried, merged, missing_from

MAX_CHARACTERS = 16_000_000
"""Of kept texts, over all conversations; what goes first was used longest ago, and is simply read again."""


@dataclass(slots=True)
class _Entry:
    text: str
    ranges: tuple[LineRange, ...]


class Ledger:
    """Per conversation, file and hash: the text, and which of its lines were shown."""

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._entries: OrderedDict[tuple[str, str, str], _Entry] = OrderedDict()
        self._max_characters = max_characters
        self._characters = 0

    def shown(self, conversation: str, path: str, digest: str, text: str, ranges: Iterable[LineRange]) -> None:
        """Note that these lines of the text with this hash were shown."""
        key = (conversation, path, digest)
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = _Entry(text, ())
            self._characters += len(text)
        entry.ranges = merged([*entry.ranges, *ranges])
        self._entries[key] = entry
        while self._characters > self._max_characters and len(self._entries) > 1:
            _, forgotten = self._entries.popitem(last=False)
            self._characters -= len(forgotten.text)

    def missing(self, conversation: str, path: str, digest: str, wanted: Iterable[LineRange]) -> tuple[LineRange, ...]:
        """The lines of `wanted` that were not shown."""
        entry = self._entries.get((conversation, path, digest))
        ranges = entry.ranges if entry else ()
        return merged(gap for want in wanted for gap in missing_from(ranges, want))

    def text(self, conversation: str, path: str, digest: str) -> str | None:
        """The text with this hash, while it is remembered."""
        entry = self._entries.get((conversation, path, digest))
        return entry.text if entry else None

    def forget(self, conversation: str) -> None:
        """Nothing counts as shown in the conversation any more."""
        for key in [key for key in self._entries if key[0] == conversation]:
            self._characters -= len(self._entries.pop(key).text)

    def follow(self, conversation: str, path: str, before: str, after: tuple[str, str], hunks: Sequence[Hunk]) -> None:
        """Carry shown lines over from the text with hash `before` to `after` (hash, text): those outside `hunks`."""
        entry = self._entries.get((conversation, path, before))
        digest, text = after
        self.shown(conversation, path, digest, text, carried(entry.ranges, hunks) if entry else ())
