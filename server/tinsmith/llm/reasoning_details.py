"""`reasoning_details` of OpenRouter, put together from their fragments. Pure.

Source of the format: OpenRouter's guide to reasoning tokens, "Preserving reasoning".
"""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

_GROWING = ("text", "summary")


class ReasoningDetails:
    """The details of one answer. A fragment goes on with the last detail when type and index are the same."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def add(self, fragments: Iterable[Any]) -> str:
        """Take fragments in; their text, for servers that show it nowhere else."""
        shown: list[str] = []
        for fragment in fragments:
            if not isinstance(fragment, dict):
                continue
            detail = cast("dict[str, Any]", fragment)
            shown += [text for name in _GROWING if isinstance(text := detail.get(name), str)]
            if not self._goes_on(detail):
                self._details.append(dict(detail))
                continue
            last = self._details[-1]
            for name, value in detail.items():
                if name in _GROWING and isinstance(value, str):
                    last[name] = (last.get(name) or "") + value
                elif value is not None:
                    last[name] = value
        return "".join(shown)

    def bodies(self) -> list[str]:
        """Each detail as JSON text."""
        return [msgspec.json.encode(detail).decode() for detail in self._details]

    def _goes_on(self, detail: dict[str, Any]) -> bool:
        if not self._details or not any(name in detail for name in _GROWING):
            return False
        last = self._details[-1]
        return all(last.get(name) == detail.get(name) for name in ("type", "index"))
