"""Histories and tools that the tests of request bodies share."""

import json
from typing import Any

from tinsmith.domain.message import AssistantMessage, ImagePart, Message, Sealed, TextPart, ToolCall, ToolMessage
from tinsmith.domain.message import UserMessage as User
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import DialectName, ModelChoice
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.dialect import Terms
from tinsmith.llm.dialects import DIALECTS

ORIGIN = "where it came from"


async def never(*_: object) -> None:
    raise AssertionError("nothing is run here")


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ = ToolSpec("read", "Read a file.", ModelChoice, SCHEMA, frozenset({"reads"}), never, never)
MAP = ToolSpec("code_map", "Show the tree.", ModelChoice, SCHEMA, frozenset({"reads"}), never, never)


def user(text: str, *parts: TextPart | ImagePart) -> User:
    return User("m1", "t1", (TextPart(text), *parts))


def assistant(text: str, *calls: ToolCall, sealed: tuple[Sealed, ...] = (), reasoning: str = "") -> AssistantMessage:
    return AssistantMessage("m2", "t1", "i1", text, reasoning=reasoning, calls=calls, sealed=sealed)


def result(call_id: str, content: str = "done", *, ok: bool = True) -> ToolMessage:
    return ToolMessage("m3", "t1", call_id, "read", content, ok=ok, recall_key="key")


def sealed(body: str, after_text: int = 0, after_calls: int = 0, origin: str = ORIGIN) -> Sealed:
    return Sealed(origin, body, after_text, after_calls)


def call(call_id: str, arguments: str = '{"path":"a"}', name: str = "read") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def encoded(dialect: DialectName, *messages: Message, terms: Terms, model: ModelChoice, **fields: Any) -> bytes:
    return DIALECTS[dialect].encode(ModelRequest(model, messages=messages, **{"system": "", **fields}), terms)


def body(dialect: DialectName, *messages: Message, model: str = "m", limit: int | None = None, **fields: Any) -> Any:
    """The decoded body of a request with these messages. `terms` and fields of ModelRequest go by name."""
    from tinsmith.llm.profiles import DEFAULT

    terms = fields.pop("terms", Terms(DEFAULT, ORIGIN))
    choice = ModelChoice(model, "override", "k", max_output_tokens=limit, context_window=fields.pop("window", 128_000))
    return json.loads(encoded(dialect, *messages, terms=terms, model=choice, **fields).decode())
