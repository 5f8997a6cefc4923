"""Requests of Ollama's native chat, whole; and the prompt that it silently cut."""

from typing import Any

import pytest
from tests.llm.asking import ORIGIN, READ, SCHEMA, assistant, body, call, result, user

from tinsmith.domain.message import ImagePart, TextPart, Usage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import ModelChoice
from tinsmith.llm.dialect import Terms
from tinsmith.llm.profiles import DEFAULT, Profile, profile_for
from tinsmith.llm.remarks import remark_on_truncation


def test_a_whole_request() -> None:
    history = (
        user("look", TextPart("Monday", "date")),
        assistant("I look.", call("c1"), call("c2", "{"), reasoning="Hm."),
        result("c1"),
        result("c2", ""),
        assistant(""),
        user("and?"),
    )
    terms = Terms(profile_for("http://127.0.0.1:11434/api/chat"), ORIGIN, "high")
    fields = {"system": "Be good.", "tools": (READ,), "temperature": 0.5, "window": 32_768, "limit": 500}
    assert body("ollama", *history, terms=terms, **fields) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "look\n\n[date]\nMonday"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "read", "arguments": {"path": "a"}}},
                    {"id": "c2", "function": {"name": "read", "arguments": {}}},
                ],
                "thinking": "Hm.",
            },
            {"role": "tool", "content": "done", "tool_name": "read", "tool_call_id": "c1"},
            {"role": "tool", "content": "", "tool_name": "read", "tool_call_id": "c2"},
            {"role": "user", "content": "and?"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": SCHEMA}}
        ],
        "options": {"num_ctx": 32_768, "num_predict": 500, "temperature": 0.5},
        "stream": True,
        "think": "high",
    }


def test_a_small_request_holds_nothing_else() -> None:
    assert body("ollama", user("hi"), is_streamed=False, tools=(READ,), tool_choice="none") == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "options": {"num_ctx": 128_000},
        "stream": False,
    }


def test_what_the_server_refused_is_not_sent_again() -> None:
    assert "think" not in body("ollama", user("hi"), terms=Terms(Profile(omits=frozenset({"think"})), ORIGIN, "low"))


def test_an_image_is_shown_when_its_bytes_are_there() -> None:
    terms = Terms(DEFAULT, ORIGIN, load_image={"there": b"\x89PNG"}.get)
    seen = user("see", ImagePart("there", "image/png"), ImagePart("gone", "image/png"))
    assert body("ollama", seen, terms=terms)["messages"] == [
        {
            "role": "user",
            "content": "see\n\n[an image (image/png) that cannot be shown to this model]",
            "images": ["iVBORw=="],
        }
    ]


@pytest.mark.parametrize(
    ("chars", "read", "is_noticed"),
    [
        (72_000, 4_096, True),
        (30_000, 4_096, True),
        (24_000, 4_096, False),  # six characters a token: dense, and possible
        (72_000, 20_000, False),
        (72_000, 0, False),  # not counted
        (5_000, 10, False),
    ],
)
def test_a_prompt_that_came_back_shorter_than_it_was_sent(chars: int, read: int, is_noticed: Any) -> None:
    half = "x" * (chars // 2)
    messages = (user(half), assistant("", call("c1", half)), result("c1", ""))
    remark = remark_on_truncation(
        ModelRequest(ModelChoice("m", "override", "k"), "", messages), Usage(read, 1), "here:11434"
    )
    assert (remark is not None) == is_noticed
    if remark:
        assert remark.code == "promptTruncated"
        assert f"here:11434 read only {read:,} tokens of a prompt of about {chars // 4:,}" in remark.message
