"""What known servers need, what strict templates demand of a history, and what refusals teach."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.asking import assistant, call, result, sealed, user

from tinsmith.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from tinsmith.domain.settings import LlmSettings, SwitchSettings
from tinsmith.llm.dialects import dialect_of, guess_dialect
from tinsmith.llm.history import BRIDGE, arrange, check_history
from tinsmith.llm.lessons import learn
from tinsmith.llm.profiles import DEFAULT, Profile, profile_for

STRICT = Profile(merges_roles=True, bridges_results=True)


def told(messages: Any) -> list[tuple[str, str]]:
    """Role and text of each message."""
    shown: list[tuple[str, str]] = []
    for message in messages:
        match message:
            case UserMessage():
                shown.append(("user", message.text))
            case AssistantMessage():
                shown.append(("assistant", message.text))
            case ToolMessage():
                shown.append(("tool", message.content))
    return shown


HISTORY = (
    user("a"),
    user("b"),
    assistant("half", sealed=(sealed("{}"),)),
    assistant(" "),
    assistant("more", call("c1")),
    result("c1"),
    user("stop"),
    user("now"),
)


def test_a_server_without_demands_gets_the_history_as_it_is_but_for_empty_answers() -> None:
    assert told(arrange(HISTORY, DEFAULT)) == [
        ("user", "a"),
        ("user", "b"),
        ("assistant", "half"),
        ("assistant", "more"),
        ("tool", "done"),
        ("user", "stop"),
        ("user", "now"),
    ]


def test_a_strict_template() -> None:
    arranged = arrange(HISTORY, STRICT)
    assert told(arranged) == [
        ("user", "a\nb"),
        ("assistant", "half\n\nmore"),
        ("tool", "done"),
        ("assistant", BRIDGE),
        ("user", "stop\nnow"),
    ]
    assert isinstance(arranged[1], AssistantMessage)
    assert (arranged[1].calls, arranged[1].sealed) == ((call("c1"),), ())


def groups(number: int) -> st.SearchStrategy[list[Message]]:
    """A user message, an answer, or an answer with calls and their results."""
    calls = st.integers(0, 2).map(lambda count: [call(f"c{number}_{position}") for position in range(count)])
    answers = st.tuples(st.sampled_from(["", "text"]), calls).map(
        lambda made: [assistant(made[0], *made[1]), *(result(each.call_id) for each in made[1])]
    )
    return st.one_of(st.just([user("hi")]), answers)


@given(st.integers(0, 8).flatmap(lambda count: st.tuples(*(groups(number) for number in range(count)))))
def test_any_history_stays_valid_and_loses_nothing(drawn: tuple[list[Message], ...]) -> None:
    messages = [message for group in drawn for message in group]
    arranged = arrange(messages, STRICT)
    check_history(arranged)
    roles = [role for role, _ in told(arranged)]
    assert all(pair not in {("user", "user"), ("tool", "user")} for pair in pairwise(roles))
    said = [text for role, text in told(arranged) if role == "user"]
    assert "\n".join(said).count("hi") == told(messages).count(("user", "hi"))
    assert roles.count("tool") == sum(isinstance(message, ToolMessage) for message in messages)
    assert arrange(arranged, STRICT) == arranged


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "OpenAI"),
        ("https://api.anthropic.com", "Anthropic"),
        ("https://openrouter.ai/api/v1", "OpenRouter"),
        ("http://localhost:11434/v1", "Ollama"),
        ("http://192.168.1.4:8080/v1", "llama.cpp"),
        ("http://127.0.0.1:8000/v1", "vLLM"),
        ("http://127.0.0.1:1234/v1", "LM Studio"),
        ("https://proxy.example.com/v1", "generic"),
        ("http://host:99999", "generic"),
    ],
)
def test_known_servers(base_url: str, name: str) -> None:
    assert profile_for(base_url).name == name


def test_the_user_knows_better_than_the_table() -> None:
    switches = SwitchSettings(
        merge_roles=False, bridge_results=True, replay_reasoning=True, empty_content=True, stream_options=False
    )
    known = profile_for("http://127.0.0.1:8080/v1", switches)
    assert known == Profile(
        "llama.cpp", "", omits=frozenset({"stream_options"}), bridges_results=True, replays_reasoning=True
    )
    mistral = profile_for("https://api.mistral.ai/v1", SwitchSettings(empty_content=False, stream_options=True))
    assert (mistral.empty_content, mistral.omits) == (None, frozenset())


@pytest.mark.parametrize(
    ("base_url", "dialect"),
    [
        ("https://api.openai.com/v1", "responses"),
        ("https://api.openai.com/v1/chat/completions", "chat_completions"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://api.anthropic.com/v1/messages", "anthropic"),
        ("https://api.deepseek.com/anthropic", "anthropic"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://127.0.0.1:11434/v1/chat/completions", "chat_completions"),
        ("http://box:9000/api/chat", "ollama"),
        ("https://proxy.example.com/v1/responses", "responses"),
        ("https://openrouter.ai/api/v1", "chat_completions"),
        ("http://[::1", "chat_completions"),
        ("", "chat_completions"),
    ],
)
def test_the_dialect_follows_from_the_address(base_url: str, dialect: str) -> None:
    assert guess_dialect(base_url) == dialect
    assert dialect_of(LlmSettings(base_url=base_url)).name == dialect
    assert dialect_of(LlmSettings(base_url=base_url, dialect="ollama")).name == "ollama"


def refusal(message: str, param: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "param": param}}).encode()


SENT = json.dumps(
    {
        "max_tokens": 5,
        "stream_options": {},
        "temperature": 1,
        "reasoning": {"summary": "auto"},
        "include": [],
        "think": True,
        "messages": [{"content": 'say "output_config": and "thinking":'}],
    },
    separators=(",", ":"),
).encode()


@pytest.mark.parametrize(
    ("status", "refused", "omitted"),
    [
        (400, refusal("Unrecognized request argument supplied: stream_options"), {"stream_options"}),
        (
            422,
            b'{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}',
            {"stream_options"},
        ),
        (400, refusal("include_usage? never"), {"stream_options"}),
        (400, refusal("Unsupported value: 'temperature' does not support 0.5", "temperature"), {"temperature"}),
        (400, refusal("Your organization must be verified", "reasoning.summary"), {"summary"}),
        (400, refusal("Unsupported parameter", "reasoning.effort"), {"reasoning"}),
        (400, refusal("Encrypted content is not supported with this model.", "include"), {"include"}),
        (400, b'{"error":"\\"llama3\\" does not support thinking"}', {"think"}),
        (400, refusal("temperature and think are unknown"), {"temperature", "think"}),
    ],
)
def test_a_field_that_is_refused_is_left_out(status: int, refused: bytes, omitted: set[str]) -> None:
    learned = learn(status, refused, SENT, DEFAULT)
    assert learned is not None
    assert learned.omits == omitted


@pytest.mark.parametrize(
    ("status", "refused"),
    [
        (400, refusal("I think the temperature is rising.")),
        (400, refusal("output_config is unknown")),  # was not sent
        (500, refusal("stream_options")),
        (401, refusal("Unsupported parameter: temperature")),
        (400, b"<html>"),
        (400, b"[" * 5000),
        (400, b""),
    ],
)
def test_what_teaches_nothing(status: int, refused: bytes) -> None:
    assert learn(status, refused, SENT, DEFAULT) is None


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "words",
    [
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
        "Unexpected role 'user' after role 'tool'",
    ],
)
def test_a_strict_template_is_learned(status: int, words: str) -> None:
    assert learn(status, refusal(words), SENT, DEFAULT) == STRICT
    assert learn(status, refusal(words), SENT, STRICT) is None


def test_the_other_name_of_the_limit() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    learned = learn(400, refusal(words, "max_tokens"), SENT, DEFAULT)
    assert learned == Profile(limit_field="max_completion_tokens")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (404, "No endpoints found that support image input"),
        (400, "m is not a multimodal model"),
        (400, "At most 0 image(s) may be provided in one request."),
        (400, "Invalid content type. image_url is only supported by certain models."),
        (422, "messages[0]: unknown variant `image_url`, expected `text`"),
        (400, "Image input is not enabled for this model"),
        (400, "'messages.0.content' : value must be a string? No: content must be a string"),
    ],
)
@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "input_image", "image_url": "data:"},
        {"type": "image", "source": {}},
        {"role": "user", "images": []},
    ],
)
def test_a_model_that_takes_no_images_is_sent_none(status: int, words: str, part: dict) -> None:
    sent = json.dumps({"messages": [part]}, separators=(",", ":")).encode()
    blind = Profile(sees_images=False)
    assert learn(status, refusal(words), sent, DEFAULT) == blind
    assert learn(status, refusal(words), sent, blind) is None
    assert learn(status, refusal(words), SENT, DEFAULT) is None
    assert learn(400, refusal("messages.0.content.1.image.source: image exceeds 5 MB maximum"), sent, DEFAULT) is None
