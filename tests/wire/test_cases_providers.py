"""Providers of every dialect behind the running server: recordings replayed, quirks, and faults in words."""

import asyncio
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.net.site import Site, self_signed

from tinsmith.demo.server import HttpRequest, RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOLDEN = Path(__file__).parent.parent / "llm" / "golden"
CASES = Path(__file__).parent.parent / "cases"
CALLS = {
    "chat_completions": "chat_completions/reasoning_and_calls.sse",
    "responses": "responses/reasoning_and_calls.sse",
    "anthropic": "anthropic/thinking_and_calls.sse",
    "ollama": "ollama/thinking_and_calls.ndjson",
}
TEXTS = {
    "chat_completions": ("chat_completions/text.sse", "Hello\n\n    there"),
    "responses": ("responses/only_the_end.sse", "All of it."),
    "anthropic": ("anthropic/text.sse", "Hello\n\n    there"),
    "ollama": ("ollama/text.ndjson", "Hello\n\n    there"),
}
PATHS = {
    "chat_completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}


def recorded(name: str, *, chunk: int = 0, end: int | None = None, is_cut: bool = False) -> RawAnswer:
    """A recording, in chunks of so many bytes, up to `end`."""
    body = (GOLDEN / name).read_bytes()[:end]
    kind = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson"}.get(Path(name).suffix, "application/json")
    edges = [0, *range(chunk, len(body), chunk), len(body)] if chunk else [0, len(body)]
    pieces = tuple(body[start:stop] for start, stop in pairwise(edges))
    return RawAnswer(pieces, content_type=kind, is_cut=is_cut)


def asked(talk) -> list[dict[str, Any]]:
    """The bodies that its provider got, each at the path of the dialect it was asked in."""
    posts = [each for each in talk.provider.requests if each.method == "POST" and each.path != "/api/show"]
    assert {request.path for request in posts} <= {PATHS[talk.settings["llm_config.dialect"]]}
    return [json.loads(request.body.decode()) for request in posts]


def results(dialect: str, body: dict[str, Any]) -> list[str]:
    """The results of calls in a request, and that each answers a call before it."""
    match dialect:
        case "responses":
            made = [item["call_id"] for item in body["input"] if item["type"] == "function_call"]
            answered = [item for item in body["input"] if item["type"] == "function_call_output"]
            assert [item["call_id"] for item in answered] == made
            return [item["output"] for item in answered]
        case "anthropic":
            blocks = [block for message in body["messages"] for block in message["content"]]
            made = [block["id"] for block in blocks if block["type"] == "tool_use"]
            answered = [block for block in blocks if block["type"] == "tool_result"]
            assert [block["tool_use_id"] for block in answered] == made
            assert [message["role"] for message in body["messages"]] == ["user", "assistant"] * (
                len(body["messages"]) // 2
            ) + ["user"]
            return [block["content"] for block in answered]
        case _:
            calls = [call for message in body["messages"] for call in message.get("tool_calls", [])]
            answered = [message for message in body["messages"] if message["role"] == "tool"]
            assert [message["tool_call_id"] for message in answered] == [call["id"] for call in calls]
            return [message["content"] for message in answered]


@pytest.fixture
def speak(open_talk):
    """Open a talk whose provider speaks this dialect."""

    def speak(dialect: str, *answers):
        opened = open_talk(*answers)

        class Speaking:
            async def __aenter__(self):
                talk = await opened.__aenter__()
                talk.settings["llm_config.dialect"] = dialect
                return talk

            async def __aexit__(self, *raised):
                return await opened.__aexit__(*raised)

        return Speaking()

    return speak


@pytest.fixture
def files(workspace):
    for name in ("a.py", "b.py"):
        (workspace / name).write_text(f"import {name[0]}\n")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("chunk", [0, 1, 61])
async def test_a_turn_with_calls(speak, dialect, chunk):
    text, said = TEXTS[dialect]
    async with speak(dialect, recorded(CALLS[dialect], chunk=chunk), recorded(text, chunk=chunk)) as talk:
        ended = await talk.say("go")
        assert ended["outcome"] == "completed", ended.get("message")
        finished = [event for event in talk.events("toolUpdated") if event["status"] in {"completed", "failed"}]
        names = ["read", "read", "code_map"] if dialect == "ollama" else ["read", "code_map"]
        assert [(event["name"], event["status"]) for event in finished] == [(name, "completed") for name in names]
        first, second = asked(talk)
        assert first["model"] == "scripted"
        got = results(dialect, second)
        assert got == [event["result"] for event in finished]
        assert "    1\timport a\n" in got[0]
        opening = talk.events("textDelta")[0]["itemId"]
        shown = [event["text"] for event in talk.events("textDelta") if event["itemId"] == opening]
        assert "".join(shown) == "I look at both 🚀."
        reasoning = "".join(event["text"] for event in talk.events("reasoningDelta"))
        assert "編" in reasoning
        items = [item for item in await talk.items() if item["kind"] == "assistant"]
        assert [item["text"] for item in items] == ["I look at both 🚀.", said]
        stored = [message for message in await talk.stored() if message["kind"] == "assistant"]
        assert reasoning.startswith(stored[0]["reasoning"])
        assert [message["text"] for message in stored] == ["I look at both 🚀.", said]

        assert (await talk.say("more"))["outcome"] == "completed"
        third = asked(talk)[2]
        assert results(dialect, third) == got


USAGE = {
    "chat_completions": {"input": 120, "output": 30, "total": 150, "cached": 64, "reasoning": 8},
    "responses": {"input": 1200, "output": 80, "total": 1280, "cached": 1024, "reasoning": 64},
    "anthropic": {"input": 2312, "output": 89, "total": 2401, "cached": 2000, "reasoning": 31},
    "ollama": {"input": 120, "output": 30, "total": 150},
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("dialect", PATHS)
async def test_tokens_are_counted(speak, dialect):
    async with speak(dialect, recorded(CALLS[dialect]), recorded(TEXTS[dialect][0])) as talk:
        await talk.say("go")
    counted = talk.events("usageUpdated")[0]["last"]
    assert {name: counted.get(name, 0) for name in USAGE[dialect]} == USAGE[dialect]


SEALED = {
    "responses": ['"encrypted_content":"gAAAA-whole"', '"phase":"commentary"'],
    "anthropic": ['"signature":"EqQBCgIYAhIM=="', '"data":"EmwKAhgBEgy3"'],
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("dialect", SEALED)
async def test_what_was_sealed_goes_back_to_the_model_it_came_from_and_to_no_other(speak, dialect):
    async with speak(dialect, recorded(CALLS[dialect]), recorded(TEXTS[dialect][0])) as talk:
        await talk.say("go")
        await talk.say("more")
        await talk.say("and", model="another")
        await talk.say("back")
        bodies = [json.dumps(body, ensure_ascii=False, separators=(",", ":")) for body in asked(talk)]
    for part in SEALED[dialect]:
        assert [part in body for body in bodies] == [False, True, True, False, True]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("dialect", ["anthropic", "responses"])
async def test_a_call_that_the_limit_cut_is_not_run_and_the_conversation_goes_on(speak, workspace, dialect):
    async with speak(dialect, recorded(f"{dialect}/cut_call.sse"), recorded(TEXTS[dialect][0])) as talk:
        assert (await talk.say("go"))["outcome"] == "completed"
        finished = [event for event in talk.events("toolUpdated") if event["status"] in {"completed", "failed"}]
        assert [(event["name"], event["status"]) for event in finished] == [("read", "failed"), ("write", "failed")]
        assert "the arguments of this call are cut off" in finished[1]["result"]
        assert not (workspace / "b").exists()
        assert len(results(dialect, asked(talk)[1])) == 2


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("is_cut", [True, False], ids=["broken", "closed"])
async def test_a_stream_that_ends_inside_a_call_runs_nothing(speak, dialect, is_cut):
    body = (GOLDEN / CALLS[dialect]).read_bytes()
    half = recorded(CALLS[dialect], end=body.index(b'"read"') + 40, is_cut=is_cut)
    async with speak(dialect, half, recorded(TEXTS[dialect][0])) as talk:
        ended = await talk.say("go")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "streamInterrupted")
        assert [event for event in talk.events("toolUpdated") if event["status"] in {"running", "completed"}] == []
        assert (await talk.say("again"))["outcome"] == "completed"
        assert results(dialect, asked(talk)[-1]) == []


BUSY = b'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n'
OVERLOADED = {
    "chat_completions": (
        b'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n',
        "text/event-stream",
    ),
    "responses": (b'data: {"type":"error","code":"server_overloaded","message":"Overloaded"}\n\n', "text/event-stream"),
    "anthropic": (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
        "text/event-stream",
    ),
    "ollama": (b'{"error":"server overloaded, please try again"}\n', "application/x-ndjson"),
}


@pytest.mark.parametrize("dialect", PATHS)
async def test_overload_inside_a_200_is_tried_again_and_seen(speak, dialect):
    body, kind = OVERLOADED[dialect]
    async with speak(dialect, RawAnswer((body,), content_type=kind), recorded(TEXTS[dialect][0])) as talk:
        ended = await talk.say()
        assert (ended["outcome"], talk.streamed(ended["turnId"])) == ("completed", TEXTS[dialect][1])
        (retrying,) = talk.events("retrying")
    assert "verloaded" in retrying["reason"]


@pytest.mark.parametrize("name", ["anthropic/refusal.sse", "responses/filtered.sse"])
async def test_a_refusal_that_says_nothing_is_said(speak, name):
    dialect = name.partition("/")[0]
    async with speak(dialect, recorded(name), recorded(TEXTS[dialect][0])) as talk:
        ended = await talk.say()
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "refused")
        assert "Say it in another way." in ended["message"]
        assert (talk.events("retrying"), len(asked(talk))) == ([], 1)
        assert (await talk.say())["outcome"] == "completed"


async def test_a_refusal_in_words_is_the_answer(speak):
    async with speak("responses", recorded("responses/refusal.sse")) as talk:
        ended = await talk.say()
    assert (ended["outcome"], talk.streamed(ended["turnId"])) == ("completed", "I may not do that.")


@pytest.mark.usefixtures("files")
async def test_ollama_is_told_the_window_and_a_cut_prompt_is_noticed_once(speak):
    async with speak("ollama", recorded(CALLS["ollama"]), recorded("ollama/text.ndjson")) as talk:
        talk.settings["llm_config.context_window"] = 50_000
        assert (await talk.say("word " * 4_000))["outcome"] == "completed"
        assert [body["options"]["num_ctx"] for body in asked(talk)] == [50_000] * 2
        (notice,) = talk.events("notice")
    assert (notice["severity"], notice["code"]) == ("warning", "promptTruncated")
    assert "read only 120 tokens" in notice["message"]
    assert "OLLAMA_CONTEXT_LENGTH" in notice["message"]


async def test_ollama_is_told_what_it_says_of_the_model_from_the_first_request_on(speak):
    async with speak("ollama", recorded("ollama/text.ndjson")) as talk:
        talk.provider.shown = b'{"parameters": "num_ctx 16384", "model_info": {"x.context_length": 40960}}'
        for _ in range(2):
            assert (await talk.say("hi"))["outcome"] == "completed"
        assert [body["options"]["num_ctx"] for body in asked(talk)] == [16_384] * 2
        paths = [request.path for request in talk.provider.requests]
        assert (paths[0], paths.count("/api/show")) == ("/api/show", 1)


def broken(name: str, chance: random.Random) -> RawAnswer:
    """A recording with its events cut, shuffled, doubled or some of its bytes changed."""
    body = (GOLDEN / name).read_bytes()
    separator = b"\n" if name.endswith(".ndjson") else b"\n\n"
    events = [event + separator for event in body.split(separator) if event]
    match chance.choice(("cut", "shuffled", "doubled", "changed")):
        case "cut":
            body = body[: chance.randrange(len(body))]
        case "shuffled":
            body = b"".join(chance.sample(events, len(events)))
        case "doubled":
            body = b"".join(chance.choices(events, k=len(events)))
        case _:
            changed = bytearray(body)
            for _ in range(5):
                changed[chance.randrange(len(body))] = chance.randrange(256)
            body = bytes(changed)
    return RawAnswer((body,), content_type=recorded(name).content_type, is_cut=chance.random() < 0.3)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("dialect", PATHS)
async def test_broken_streams_end_their_turns_and_leave_the_conversation_whole(speak, dialect):
    chance = random.Random(5)
    faults = [broken(CALLS[dialect], chance) for _ in range(25)]
    async with speak(dialect, *faults, recorded(TEXTS[dialect][0])) as talk:
        while len(asked(talk)) < len(faults):
            assert (await talk.say())["outcome"] in {"completed", "error"}
        ended = await talk.say("well?")
        assert (ended["outcome"], talk.streamed(ended["turnId"])) == ("completed", TEXTS[dialect][1])
        results(dialect, asked(talk)[-1])


async def test_the_cache_key_is_that_of_the_conversation(speak):
    async with speak("responses", recorded("responses/only_the_end.sse")) as talk:
        await talk.say()
        await talk.say()
        assert [body["prompt_cache_key"] for body in asked(talk)] == [talk.identifier] * 2
        assert [body["store"] for body in asked(talk)] == [False] * 2


REASONING = ["reasoning", "reasoning_content"]


@pytest.mark.parametrize("field", REASONING)
async def test_llm_30_reasoning_has_two_names(open_talk, field):
    body = (CASES / "LLM-30" / f"{field}.sse").read_bytes()
    async with open_talk(RawAnswer((body,)), ScriptedModel(lambda _: reply("Fine."))) as talk:
        ended = await talk.say()
        assert talk.streamed(ended["turnId"]) == "B"
        assert "".join(event["text"] for event in talk.events("reasoningDelta")) == "think A"
        (_, answer) = await talk.stored()
        assert (answer["text"], answer["reasoning"]) == ("B", "think A")
        await talk.say()
        assert [message["content"] for message in talk.bodies[-1]["messages"][2:3]] == ["B"]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("switch", "empty"), [(None, None), (True, ""), (False, None)])
async def test_llm_34_an_answer_of_calls_alone(open_talk, switch, empty):
    calls = ScriptedModel([reply(Call("read", {"path": "a.py"}))])
    async with open_talk(calls, ScriptedModel(lambda _: reply("Fine."))) as talk:
        talk.settings["llm_config.switches.empty_content"] = switch
        assert (await talk.say())["outcome"] == "completed"
        (answer,) = [message for message in talk.bodies[1]["messages"] if message.get("tool_calls")]
        assert answer["content"] == empty


async def test_llm_34_an_answer_of_nothing_is_not_sent_back(open_talk):
    silent = RawAnswer((b'data: {"choices":[{"delta":{"content":" "},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',))
    async with open_talk(silent, silent, silent, ScriptedModel(lambda _: reply("Fine."))) as talk:
        ended = await talk.say("one")
        assert (ended["outcome"], ended["error"]["code"], len(talk.events("retrying"))) == ("error", "emptyAnswer", 2)
        assert (await talk.say("two"))["outcome"] == "completed"
        assert [message["content"] for message in talk.bodies[-1]["messages"][1:]] == ["one", "two"]


FINE = RawAnswer((b'data: {"choices":[{"delta":{"content":"Fine."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',))
ALLOWED = {"model", "messages", "tools", "tool_choice", "temperature", "max_tokens", "stream"}


def strict(request: HttpRequest) -> RawAnswer:
    """A server that takes nothing it does not know, in the body or in a message."""
    body = json.loads(request.body)
    unknown = body.keys() - ALLOWED
    for message in body["messages"]:
        unknown |= message.keys() - {"role", "content", "tool_calls", "tool_call_id", "name"}
    if not unknown:
        return FINE
    said = {"error": {"message": f"Unrecognized fields: {', '.join(sorted(unknown))}"}}
    return RawAnswer((json.dumps(said).encode(),), 400, "application/json")


async def test_llm_41_a_strict_server_is_understood_after_its_first_refusal(open_talk):
    async with open_talk(strict) as talk:
        for _ in range(2):
            assert (await talk.say())["outcome"] == "completed"
        assert ["stream_options" in body for body in talk.bodies] == [True, False, False]
        assert talk.events("retrying") == []


async def test_llm_41_stream_options_can_be_switched_off(open_talk):
    async with open_talk(strict) as talk:
        talk.settings["llm_config.switches.stream_options"] = False
        assert (await talk.say())["outcome"] == "completed"
        assert ["stream_options" in body for body in talk.bodies] == [False]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("switch", "sent_back"), [(True, ["Two files. 編"]), (False, []), (None, [])])
async def test_llm_42_reasoning_is_sent_back_where_it_is_switched_on(open_talk, switch, sent_back):
    async with open_talk(recorded(CALLS["chat_completions"]), FINE) as talk:
        talk.settings["llm_config.switches.replay_reasoning"] = switch
        assert (await talk.say())["outcome"] == "completed"
        second = json.loads(talk.provider.requests[-1].body)
    key = "reasoning_content"
    assert [message[key] for message in second["messages"] if key in message] == sent_back


TEMPLATE = b'{"error":{"code":500,"message":"Conversation roles must alternate user/assistant/user/assistant/..."}}'


async def test_a_strict_template_is_understood_after_its_first_refusal(open_talk):
    def alternating(request: HttpRequest) -> RawAnswer:
        roles = [message["role"] for message in json.loads(request.body)["messages"]][1:]
        if any(pair[0] == pair[1] for pair in pairwise(roles)):
            return RawAnswer((TEMPLATE,), 500, "application/json")
        return FINE

    broken = RawAnswer((b'{"error":{"message":"no"}}',), 400, "application/json")
    async with open_talk(broken, alternating) as talk:
        assert (await talk.say("one"))["outcome"] == "error"
        assert (await talk.say("two"))["outcome"] == "completed"
        assert [message["content"] for message in talk.bodies[-1]["messages"][1:]] == ["one\n\ntwo"]
        assert (len(talk.bodies), talk.events("retrying")) == (3, [])


def page(status: int, said: bytes, kind: str = "application/json") -> RawAnswer:
    return RawAnswer((said,), status, kind)


BAD: dict[str, tuple[RawAnswer, str, tuple[str, ...]]] = {
    "wrong key": (
        page(401, b'{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}'),
        "authRequired",
        ("answered 401 to /v1/chat/completions for 'scripted'", "Incorrect API key provided", "LLM_API_KEY"),
    ),
    "unknown model": (
        page(404, b'{"error":{"message":"The model `scripted` does not exist","code":"model_not_found"}}'),
        "modelNotFound",
        ("answered 404", "'scripted'", "does not exist", "Choose a model that this provider has"),
    ),
    "a proxy's page": (
        page(502, b"<html><h1>Bad gateway</h1>", "text/html"),
        "providerHttp",
        ("answered 502", "text/html", "Bad gateway", "try again"),
    ),
    "a login page": (
        page(200, b"<html><title>Sign in</title>", "text/html"),
        "unexpectedBody",
        ("answered 200", "text/html", "Sign in", "llm_config.base_url", "proxy"),
    ),
    "another dialect": (
        recorded(CALLS["anthropic"]),
        "wrongDialect",
        ("/v1/chat/completions", "Chat Completions", "message_start", "Set llm_config.dialect to anthropic."),
    ),
}


@pytest.mark.parametrize("fault", BAD)
async def test_a_fault_names_what_was_asked_what_came_and_what_to_change(open_talk, fault):
    answer, code, said = BAD[fault]
    async with open_talk(answer, answer, answer) as talk:
        ended = await talk.say()
        assert (ended["outcome"], ended["error"]["code"]) == ("error", code)
        for words in (*said, f"127.0.0.1:{talk.provider.port}"):
            assert words in ended["message"]
        assert talk.events("textDelta") == []


@pytest.mark.parametrize(("wrong", "advice"), [("", "has no version"), ("/v1/v1", "has /v1 twice")])
async def test_a_wrong_path_is_corrected_in_words(open_talk, wrong, advice):
    async with open_talk(FINE) as talk:
        right = talk.settings["llm_config.base_url"]
        talk.settings["llm_config.base_url"] = right.removesuffix("/v1") + wrong
        ended = await talk.say()
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "providerHttp")
        assert f"{advice}: set llm_config.base_url to {right}." in ended["message"]


async def test_a_server_without_tls_is_named(open_talk):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain, open_talk() as talk:
        host = f"127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        talk.settings["llm_config.base_url"] = f"https://{host}/v1"
        ended = await talk.say()
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "connectFailed")
        for words in (f"{host} does not speak TLS", "http://", "llm_config.base_url"):
            assert words in ended["message"]
        assert talk.events("retrying") == []


async def test_a_certificate_that_nobody_vouches_for_is_named(open_talk, tmp_path):
    async with Site(tls=self_signed(tmp_path, "localhost")) as site, open_talk() as talk:
        talk.settings["llm_config.base_url"] = f"https://localhost:{site.port}/v1"
        ended = await talk.say()
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "connectFailed")
        for words in (f"The certificate of localhost:{site.port} is not trusted", "SSL_CERT_FILE"):
            assert words in ended["message"]
        assert talk.events("retrying") == []
