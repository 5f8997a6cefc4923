"""OpenAI Responses requests, whole."""

from typing import Any

import pytest
from tests.llm.asking import ORIGIN, READ, SCHEMA, assistant, body, call, result, sealed, user

from tinsmith.domain.message import ImagePart, TextPart
from tinsmith.llm.dialect import Terms
from tinsmith.llm.profiles import DEFAULT, Profile

REASONING = '{"type":"reasoning","summary":[],"encrypted_content":"gAAAA"}'
COMMENTARY = '{"type":"message","phase":"commentary"}'


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def asked(*texts: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def test_a_whole_request() -> None:
    history = (
        user("look", TextPart("Monday", "date")),
        assistant("I look.", call("c1"), call("c2", "{", "bash"), sealed=(sealed(REASONING), sealed(COMMENTARY))),
        result("c1"),
        result("c2", ""),
        assistant("There."),
        user("and?"),
    )
    fields = {"system": "Be good.", "tools": (READ,), "tool_choice": "read", "temperature": 0.5, "cache_key": "c_1"}
    assert body("responses", *history, model="gpt-5", limit=500, **fields) == {
        "model": "gpt-5",
        "store": False,
        "instructions": "Be good.",
        "input": [
            asked("look", "[date]\nMonday"),
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
            said("I look.", phase="commentary"),
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
            {"type": "function_call", "call_id": "c2", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
            {"type": "function_call_output", "call_id": "c2", "output": ""},
            said("There."),
            asked("and?"),
        ],
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read a file.",
                "parameters": SCHEMA,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "read"},
        "temperature": 0.5,
        "max_output_tokens": 500,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "prompt_cache_key": "c_1",
        "stream": True,
    }


def test_a_small_request_holds_nothing_else() -> None:
    assert body("responses", user("hi"), is_streamed=False) == {"model": "m", "store": False, "input": [asked("hi")]}


def test_reasoning_that_led_nowhere_or_came_from_elsewhere_is_left_out() -> None:
    history = (
        user("a"),
        assistant("yes", sealed=(sealed(REASONING, origin="elsewhere"), sealed(REASONING, 3))),
        assistant("", sealed=(sealed(REASONING),)),
        user("b"),
    )
    assert body("responses", *history)["input"] == [asked("a"), said("yes"), asked("b")]


def test_an_image_is_shown_when_its_bytes_are_there() -> None:
    terms = Terms(DEFAULT, ORIGIN, load_image={"there": b"\x89PNG"}.get)
    seen = user("see", ImagePart("there", "image/png"), ImagePart("gone", "image/png"))
    (sent,) = body("responses", seen, terms=terms)["input"]
    assert sent["content"][1:] == [
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
        {"type": "input_text", "text": "[an image (image/png) that cannot be shown to this model]"},
    ]


@pytest.mark.parametrize(
    ("model", "effort", "omits", "reasoning"),
    [
        ("gpt-4o", None, set(), None),
        ("gpt-4o", "low", set(), {"effort": "low", "summary": "auto"}),
        ("o3", None, set(), {"summary": "auto"}),
        ("openai/gpt-oss-20b", "none", set(), {"effort": "none", "summary": "auto"}),
        ("gpt-5.1-codex", "high", {"summary"}, {"effort": "high"}),
        ("gpt-5", "high", {"reasoning"}, None),
    ],
)
def test_reasoning(model: str, effort: Any, omits: set[str], reasoning: Any) -> None:
    terms = Terms(Profile(omits=frozenset(omits)), ORIGIN, effort)
    assert body("responses", user("hi"), model=model, terms=terms).get("reasoning") == reasoning
