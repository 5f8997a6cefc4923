"""Anthropic Messages requests, whole."""

import base64
from typing import Any

import pytest
from tests.llm.asking import MAP, ORIGIN, READ, SCHEMA, assistant, body, call, result, sealed, user

from tinsmith.domain.message import ImagePart, TextPart, ToolCall
from tinsmith.llm.dialect import Terms
from tinsmith.llm.profiles import DEFAULT, Profile

MARK = {"type": "ephemeral"}
THINKING = '{"type":"thinking","thinking":"Hm.","signature":"Eq"}'
REDACTED = '{"type":"redacted_thinking","data":"Em"}'


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def test_a_whole_request() -> None:
    history = (
        user("look", TextPart("Monday", "date")),
        assistant("I look.", call("c1"), call("c2", "{", "bash"), sealed=(sealed(THINKING), sealed(REDACTED, 2))),
        result("c1"),
        result("c2", "cut off", ok=False),
        assistant("There."),
        user("and?"),
    )
    sent = body(
        "anthropic", *history, model="claude-sonnet-4-5", system="Be good.", tools=(READ, MAP), tool_choice="read"
    )
    assert sent == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 32_000,
        "tools": [
            {"name": "read", "description": "Read a file.", "input_schema": SCHEMA},
            {"name": "code_map", "description": "Show the tree.", "input_schema": SCHEMA, "cache_control": MARK},
        ],
        "tool_choice": {"type": "tool", "name": "read"},
        "system": [text("Be good.", cache_control=MARK)],
        "messages": [
            {"role": "user", "content": [text("look"), text("[date]\nMonday")]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "Eq"},
                    text("I "),
                    {"type": "redacted_thinking", "data": "Em"},
                    text("look."),
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "bash", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "done"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": "cut off",
                        "is_error": True,
                        "cache_control": MARK,
                    },
                ],
            },
            {"role": "assistant", "content": [text("There.")]},
            {"role": "user", "content": [text("and?", cache_control=MARK)]},
        ],
        "stream": True,
    }


def test_a_small_request_holds_nothing_else() -> None:
    assert body("anthropic", user("hi"), is_streamed=False, limit=7, temperature=0.5) == {
        "model": "m",
        "max_tokens": 7,
        "messages": [{"role": "user", "content": [text("hi", cache_control=MARK)]}],
        "temperature": 0.5,
    }


def test_results_come_first_in_the_turn_that_follows_them() -> None:
    history = (user("go"), assistant("", call("c1")), result("c1", " \n"), user("stop"), user(""))
    assert body("anthropic", *history)["messages"] == [
        {"role": "user", "content": [text("go", cache_control=MARK)]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1"},
                text("stop"),
                text("(an empty message)", cache_control=MARK),
            ],
        },
    ]


def test_what_another_model_sealed_is_left_out_and_so_is_an_answer_of_nothing_else() -> None:
    history = (
        user("a"),
        assistant("yes", sealed=(sealed(THINKING, origin="elsewhere"),)),
        assistant(" ", sealed=(sealed(THINKING),)),
        user("b"),
    )
    assert [turn["content"] for turn in body("anthropic", *history)["messages"]][1] == [text("yes")]


def test_an_image_is_shown_when_its_bytes_are_there() -> None:
    terms = Terms(DEFAULT, ORIGIN, load_image={"there": b"\x89PNG"}.get)
    (turn,) = body(
        "anthropic", user("see", ImagePart("there", "image/png"), ImagePart("gone", "image/png")), terms=terms
    )["messages"]
    assert turn["content"][1:] == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()},
        },
        text("[an image (image/png) that cannot be shown to this model]", cache_control=MARK),
    ]


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-opus-4-6", "minimal", ("adaptive", {"effort": "low"})),
        ("claude-opus-4-7-20260101", "max", ("adaptive", {"effort": "max"})),
        ("claude-sonnet-5", "high", ("adaptive", {"effort": "high"})),
        ("claude-sonnet-4-5-20250929", "low", (2_048, None)),
        ("claude-opus-4-20250514", "high", (16_384, None)),
        ("claude-3-7-sonnet-latest", "medium", (8_192, None)),
        ("claude-3-5-sonnet-latest", "max", (7_168, None)),
        ("another", "max", (30_000, None)),
        ("claude-opus-4-6", "none", (None, None)),
        ("claude-opus-4-6", None, (None, None)),
    ],
)
def test_thinking(model: str, effort: Any, expected: tuple[Any, Any]) -> None:
    sent = body("anthropic", user("hi"), model=model, terms=Terms(DEFAULT, ORIGIN, effort), temperature=0.5)
    thinking = sent.get("thinking", {})
    assert (thinking.get("budget_tokens") or thinking.get("type"), sent.get("output_config")) == expected
    assert ("temperature" in sent) == (expected[0] is None)
    assert thinking.get("budget_tokens", 0) < sent["max_tokens"]


def test_a_round_of_calls_goes_on_as_it_began() -> None:
    def thinks(*messages: Any) -> bool:
        return "thinking" in body("anthropic", user("go"), *messages, terms=Terms(DEFAULT, ORIGIN, "low"))

    thought = (sealed(THINKING),)
    assert thinks(assistant("", call("c1"), sealed=thought), result("c1"))
    assert not thinks(assistant("", call("c1")), result("c1"), user("and?"))
    assert thinks(assistant("", call("c1")), result("c1"), assistant("Done."), user("and?"))


def test_what_a_server_refused_is_not_sent_again() -> None:
    omits = frozenset({"cache_control", "thinking", "output_config"})
    terms = Terms(Profile(omits=omits), ORIGIN, "high")
    sent = body("anthropic", user("hi"), model="claude-opus-5", system="s", tools=(READ,), terms=terms)
    assert "cache_control" not in str(sent)
    assert sent.keys().isdisjoint(omits)


@pytest.mark.parametrize(
    ("choice", "sent"), [("auto", {"type": "auto"}), ("none", {"type": "none"}), ("required", {"type": "any"})]
)
def test_tool_choices(choice: str, sent: dict[str, str]) -> None:
    assert body("anthropic", user("hi"), tools=(READ,), tool_choice=choice)["tool_choice"] == sent


def test_calls_of_any_text_can_be_sent() -> None:
    strange = ToolCall("c1", "", '{"a": "\\ud800"}')
    messages = body("anthropic", user("\ud83d\ude00 \ud800"), assistant("", strange), result("c1"))["messages"]
    assert messages[0]["content"][0]["text"] == "😀 \ufffd"
    assert messages[1]["content"] == [{"type": "tool_use", "id": "c1", "name": "unknown", "input": {}}]
