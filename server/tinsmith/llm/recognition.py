"""Which dialect an answer is in, so that one of the wrong dialect can be called that. Pure."""

from typing import Any

import msgspec

from tinsmith.domain.settings import DialectName

_ANTHROPIC_EVENTS = frozenset({"message_start", "content_block_start", "content_block_delta", "message_delta"})


class _Shape(msgspec.Struct, frozen=True):
    kind: Any = msgspec.field(name="type", default=None)
    object: Any = None
    choices: Any = None
    content: Any = None
    message: Any = None
    done: Any = None


def name_dialect(payload: bytes) -> DialectName | None:
    """The dialect of one event, or of the first line of a body; None when it is of none that we know."""
    for line in payload.split(b"\n"):
        text = line.strip()
        if not text or text.startswith((b":", b"event:")):
            continue
        return _name(text.removeprefix(b"data:").strip() if text.startswith(b"data:") else payload)
    return None


def _name(text: bytes) -> DialectName | None:
    try:
        shape = msgspec.json.decode(text, type=_Shape)
    except (msgspec.DecodeError, RecursionError):
        first, _, rest = text.partition(b"\n")
        return _name(first) if rest else None
    if isinstance(shape.choices, list):
        return "chat_completions"
    if shape.object == "response" or (isinstance(shape.kind, str) and shape.kind.startswith("response.")):
        return "responses"
    if shape.kind in _ANTHROPIC_EVENTS or (shape.kind == "message" and isinstance(shape.content, list)):
        return "anthropic"
    if isinstance(shape.message, dict) and isinstance(shape.done, bool):
        return "ollama"
    return None
