"""Request bodies, whole, and which histories are never sent."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.message import AssistantMessage, ImagePart, Sealed, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import ModelChoice, SwitchSettings
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.chat_request import encode_request
from tinsmith.llm.dialect import Terms
from tinsmith.llm.history import check_history
from tinsmith.llm.profiles import DEFAULT, Profile, profile_for


def user(text: str, *parts: TextPart | ImagePart) -> UserMessage:
    return UserMessage("m1", "t1", (TextPart(text), *parts))


def assistant(text: str, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage("m2", "t1", "i1", text, reasoning="secret thoughts", calls=calls, finish_reason="stop")


def result(call_id: str, content: str = "done") -> ToolMessage:
    return ToolMessage("m3", "t1", call_id, "read", content, recall_key="key")


async def never(*_: object) -> None:
    raise AssertionError("nothing is run here")


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ = ToolSpec("read", "Read a file.", ModelChoice, SCHEMA, frozenset({"reads"}), never, never)


def body(
    *messages, profile: Profile = DEFAULT, choice: ModelChoice = ModelChoice("m", "override", "k"), **fields
) -> dict:
    fields = {"system": "", **fields}
    return json.loads(encode_request(ModelRequest(choice, messages=messages, **fields), Terms(profile)))


def test_a_whole_request() -> None:
    choice = ModelChoice("m", "override", "k", max_output_tokens=500)
    call = ToolCall("c1", "read", '{"path": "a"}')
    history = (user("look", TextPart("Monday", "date")), assistant("I look.", call), result("c1"), assistant("There."))
    assert body(*history, choice=choice, system="Be good.", tools=(READ,), tool_choice="auto", temperature=0.5) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "look\n\n[date]\nMonday"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            {"role": "assistant", "content": "There."},
        ],
        "tools": [
            {"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": SCHEMA}}
        ],
        "tool_choice": "auto",
        "temperature": 0.5,
        "max_tokens": 500,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_small_request_holds_nothing_else() -> None:
    assert body(user("hi"), is_streamed=False) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_a_tool_may_be_demanded() -> None:
    chosen = body(user("hi"), tools=(READ,), tool_choice="read")["tool_choice"]
    assert chosen == {"type": "function", "function": {"name": "read"}}
    assert "tool_choice" not in body(user("hi"), tool_choice="auto")


def test_an_image_is_named() -> None:
    content = body(user("see", ImagePart("hash", "image/png")))["messages"][0]["content"]
    assert content == [
        {"type": "text", "text": "see"},
        {"type": "text", "text": "[an image (image/png) that cannot be shown to this model]"},
    ]


def test_switches_of_a_profile() -> None:
    choice = ModelChoice("m", "override", "k", max_output_tokens=9)
    sent = body(user("hi"), profile=profile_for("https://api.openai.com/v1"), choice=choice)
    assert (sent["max_completion_tokens"], "max_tokens" in sent) == (9, False)
    assert "stream_options" not in body(user("hi"), profile=Profile(omits=frozenset({"stream_options"})))
    assert profile_for("http://127.0.0.1:9999/v1") == DEFAULT


@pytest.mark.parametrize("arguments", ["{", "", "[1]", "null", '{"a":1}x', "\ud800"])
def test_llm_33_malformed_arguments_are_replayed_as_an_empty_object(arguments: str) -> None:
    history = (
        user("open it"),
        assistant("", ToolCall("b1", "read", arguments, is_complete=False)),
        result("b1"),
        user("again"),
    )
    messages = body(*history)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[1]["tool_calls"] == [
        {"id": "b1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    ]
    assert messages[2]["tool_call_id"] == "b1"


@pytest.mark.parametrize("empty", [None, ""])
def test_llm_34_messages_without_text(empty: str | None) -> None:
    call = ToolCall("x1", "git_status", "{}")
    history = user("go"), assistant("", call), result("x1", ""), assistant(""), user("and?")
    messages = body(*history, profile=Profile(empty_content=empty))["messages"]
    sent_call = {"id": "x1", "type": "function", "function": {"name": "git_status", "arguments": "{}"}}
    assert messages == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": empty, "tool_calls": [sent_call]},
        {"role": "tool", "tool_call_id": "x1", "content": ""},
        {"role": "user", "content": "and?"},
    ]


REASONED = (
    user("go"),
    AssistantMessage("m2", "t1", "i1", "", reasoning="Hm.", calls=(ToolCall("c1", "read", "{}"),)),
    result("c1"),
    AssistantMessage("m2", "t1", "i1", "Done.", reasoning="Fine."),
    user("and?"),
)


@pytest.mark.parametrize(
    ("switches", "sent_back"),
    [
        (SwitchSettings(replay_reasoning=True), {1: "Hm."}),
        (SwitchSettings(replay_reasoning=False), {}),
        (SwitchSettings(), {}),
    ],
)
def test_llm_42_reasoning_is_sent_back_where_it_is_wanted(switches: SwitchSettings, sent_back: dict[int, str]) -> None:
    messages = body(*REASONED, profile=profile_for("http://127.0.0.1:9999/v1", switches))["messages"]
    key = "reasoning_content"
    assert {place: message[key] for place, message in enumerate(messages) if key in message} == sent_back


def test_llm_42_the_servers_that_are_known_to_want_it() -> None:
    assert not profile_for("http://127.0.0.1:9999/v1").replays_reasoning
    assert profile_for("https://api.deepseek.com/v1").replays_reasoning


def test_sealed_parts_go_back_into_the_message_and_the_call_that_they_came_with() -> None:
    details, extra = '{"type":"reasoning.text","text":"Hm.","index":0}', '{"google":{"thought_signature":"s"}}'
    sealed = (Sealed("here", details), Sealed("here", extra, 0, 2), Sealed("elsewhere", details))
    calls = (ToolCall("c1", "read", "{}"), ToolCall("c2", "read", "{}"))
    history = (
        user("go"),
        AssistantMessage("m2", "t1", "i1", "", calls=calls, sealed=sealed),
        result("c1"),
        result("c2"),
    )
    request = ModelRequest(ModelChoice("m", "override", "k"), "", history)
    sent = json.loads(encode_request(request, Terms(Profile(replays_details=True), "here")))["messages"][1]
    assert sent["reasoning_details"] == [json.loads(details)]
    assert [call.get("extra_content") for call in sent["tool_calls"]] == [None, json.loads(extra)]
    plain = json.loads(encode_request(request, Terms(DEFAULT, "here")))["messages"][1]
    assert plain.keys() == {"role", "content", "tool_calls"}


def test_short_ids_are_nine_characters_and_the_same_in_call_and_result() -> None:
    history = (
        user("go"),
        assistant("", ToolCall("k_0199b1c2d3e4f5a6b7c8", "read", "{}")),
        result("k_0199b1c2d3e4f5a6b7c8"),
    )
    _, called, answered = body(*history, profile=Profile(has_short_call_ids=True))["messages"]
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert re.fullmatch("[0-9a-z]{9}", answered["tool_call_id"])


def test_an_effort_and_a_cache_key() -> None:
    request = ModelRequest(ModelChoice("m", "override", "k"), "", (user("hi"),), cache_key="c_1")
    openai = json.loads(encode_request(request, Terms(profile_for("https://api.openai.com/v1"), effort="high")))
    assert (openai["reasoning_effort"], openai["prompt_cache_key"]) == ("high", "c_1")
    assert "prompt_cache_key" not in json.loads(encode_request(request, Terms(DEFAULT)))


def test_an_image_is_shown_when_its_bytes_are_there() -> None:
    request = ModelRequest(ModelChoice("m", "override", "k"), "", (user("see", ImagePart("there", "image/png")),))
    sent = json.loads(encode_request(request, Terms(DEFAULT, load_image={"there": b"\x89PNG"}.get)))
    url = {"url": "data:image/png;base64,iVBORw=="}
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": url}]


TEXT = st.text(st.characters(exclude_categories=()), max_size=30)  # lone surrogates too


@given(TEXT, TEXT, TEXT)
@example("\ud83d", "\udc00\ud83d", "\ud83d\ude00 \ud800")
def test_llm_41_any_text_can_be_sent_under_the_allowed_keys(said: str, argument: str, output: str) -> None:
    call = ToolCall("c1", "read", json.dumps({"a": argument}))
    request = ModelRequest(
        ModelChoice("m", "override", "k"),
        said,
        (user(said), assistant(said, call), result("c1", output)),
        is_streamed=False,
    )
    encoded = encode_request(request, Terms(DEFAULT))
    assert encode_request(request, Terms(DEFAULT)) == encoded
    sent = json.loads(encoded.decode())
    assert set().union(*sent["messages"]) <= {"role", "content", "tool_calls", "tool_call_id"}
    assert sent["messages"][-1]["content"] == output.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_the_prefix_of_a_longer_conversation_is_the_same_bytes() -> None:
    def prefix(*messages: object) -> bytes:
        request = ModelRequest(ModelChoice("m", "override", "k"), "Be good.", messages, (READ,))
        return encode_request(request, Terms(DEFAULT)).partition(b'],"tools"')[0]

    shorter = user("a"), assistant("b", ToolCall("c1", "read", "{}")), result("c1")
    assert prefix(*shorter, assistant("c"), user("d")).startswith(prefix(*shorter))


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ((assistant("", ToolCall("", "read", "{}")),), "callWithoutId"),
        ((assistant("", ToolCall("a", "read", "{}")),), "danglingCall"),
        ((assistant("", ToolCall("a", "read", "{}")), user("next"), result("a")), "danglingCall"),
        ((assistant("", ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")), result("a")), "danglingCall"),
        ((assistant("", ToolCall("a", "read", "{}"), ToolCall("a", "read", "{}")), result("a")), "doubledCall"),
        (
            (
                assistant("", ToolCall("a", "x", "{}")),
                result("a"),
                assistant("", ToolCall("a", "x", "{}")),
                result("a"),
            ),
            "doubledCall",
        ),
        ((result("a"),), "unknownCall"),
        ((assistant("", ToolCall("a", "read", "{}")), result("a"), result("a")), "unknownCall"),
    ],
)
def test_a_broken_history_is_refused(messages, code) -> None:
    with pytest.raises(SchemaError) as refused:
        check_history(messages)
    assert refused.value.code == code


def test_results_may_come_in_any_order() -> None:
    check_history(
        (
            user("a"),
            assistant("", ToolCall("a", "x", "{}"), ToolCall("b", "x", "{}")),
            result("b"),
            result("a"),
            user("b"),
        )
    )
