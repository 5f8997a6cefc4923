"""Images that come with a message: their exact bytes reach each dialect, after a restart too; bad ones are refused."""

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.wire.client import RpcError
from tests.wire.test_cases_providers import PATHS, TEXTS, recorded
from tests.workspace.test_images import gif, jpeg, lossy, png

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import ScriptedModel, Wait, reply
from tinsmith.store import Store
from tinsmith.store.transaction import Span

PNG, JPEG, GIF, WEBP = png(640, 48), jpeg(30, 20), gif(3, 2), lossy(7, 5)
LIMIT = 5 * 1024 * 1024 * 3 // 4


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def data(content: bytes, **fields: Any) -> dict[str, Any]:
    return {"type": "image", "data": encoded(content), **fields}


def seen(dialect: str, body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The images of a request with the type they are called, which Ollama is not told."""
    match dialect:
        case "chat_completions":
            urls = [part["image_url"]["url"] for part in parts(body["messages"], "image_url")]
        case "responses":
            urls = [part["image_url"] for part in parts(body["input"], "input_image")]
        case "anthropic":
            sources = [part["source"] for part in parts(body["messages"], "image")]
            assert {source["type"] for source in sources} <= {"base64"}
            urls = [f"data:{source['media_type']};base64,{source['data']}" for source in sources]
        case _:
            urls = [f"data:;base64,{image}" for message in body["messages"] for image in message.get("images", [])]
    split = [url.removeprefix("data:").split(";base64,") for url in urls]
    return [(kind, base64.b64decode(text, validate=True)) for kind, text in split]


def parts(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    contents = [message["content"] for message in messages if isinstance(message.get("content"), list)]
    return [part for content in contents for part in content if part["type"] == kind]


def asked(provider: LoopbackServer) -> list[dict[str, Any]]:
    posts = [each for each in provider.requests if each.method == "POST" and each.path in PATHS.values()]
    return [json.loads(request.body) for request in posts]


def prefix(dialect: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request, without the cache marks, which move on."""
    messages = body["input" if dialect == "responses" else "messages"]
    return json.loads(
        json.dumps(messages), object_hook=lambda each: {k: v for k, v in each.items() if k != "cache_control"}
    )


def settings(dialect: str) -> dict[str, Any]:
    llm = {"dialect": dialect, "retry_backoff_ms": [0]}
    return {"initializationOptions": {"settings": {"permission_mode": "full", "llm_config": llm}}}


def blobs(home: Path) -> Store:
    """The store of a server; others may have it open."""
    return Store.open(str(next((home / "data").rglob("data.mdb")).parent))


async def kept(home: Path) -> list[bytes]:
    """The keys of everything that is kept under a hash."""
    store = blobs(home)
    keys = store.read(lambda session: [key for key, _ in session._transaction.scan("blob", Span())])
    await store.close()
    return keys


@pytest.mark.parametrize("dialect", PATHS)
async def test_the_exact_bytes_are_sent_and_sent_again(connect, workspace, dialect):
    (workspace / "ä photo.jpg").write_bytes(JPEG)
    async with LoopbackServer(recorded(TEXTS[dialect][0])) as provider:
        client = await connect(provider.base_url, **settings(dialect))
        images = [
            data(PNG, mimeType="image/webp"),
            {"type": "text", "text": "and"},
            {"type": "image", "uri": (workspace / "ä photo.jpg").as_uri()},
            data(GIF),
            data(WEBP),
            data(PNG),
        ]
        ended = await client.turn("look at", input=images)
        assert ended["outcome"] == "completed", ended.get("message")
        conversation = {"conversationId": ended["conversationId"]}
        assert (await client.turn("again", **conversation))["outcome"] == "completed"
        assert await client.stop() == 0
        (workspace / "ä photo.jpg").unlink()
        client = await connect(provider.base_url, **settings(dialect))
        assert (await client.turn("once more", **conversation))["outcome"] == "completed"
        bodies = asked(provider)
    contents = [(PNG, "png"), (JPEG, "jpeg"), (GIF, "gif"), (WEBP, "webp"), (PNG, "png")]
    expected = [("" if dialect == "ollama" else f"image/{kind}", content) for content, kind in contents]
    assert [seen(dialect, body) for body in bodies] == [expected] * 3
    first, second, third = (prefix(dialect, body) for body in bodies)
    assert second[: len(first)] == first
    assert third[: len(second)] == second


async def test_what_a_client_sees_of_them(connect, home):
    async with LoopbackServer(recorded(TEXTS["chat_completions"][0])) as provider:
        client = await connect(provider.base_url)
        ended = await client.turn("see", input=[data(PNG), data(PNG)])
        conversation = {"conversationId": ended["conversationId"]}
        history = await client.request("agent/historyRead", {**conversation, "limit": 10, "direction": "newer"})
        stored = await client.request("agent/inspect", {"what": "messages", **conversation})
        context = await client.request("agent/inspect", {"what": "context", **conversation})
    digest = hashlib.sha256(PNG).hexdigest()
    image = {"hash": digest, "mimeType": "image/png", "size": len(PNG), "width": 640, "height": 48}
    shown = history["items"][0]["images"]
    assert shown == [image, image]
    assert await kept(home) == [f"{digest}:00000000".encode()]
    text = "see\n[image: png, 1 kB]\n[image: png, 1 kB]"
    (started,) = client.events("turnStarted")
    assert (started["text"], started["images"], history["items"][0]["text"]) == (text, shown, text)
    assert stored["messages"][0]["text"] == text
    (user,) = [part for part in context["parts"] if part["kind"] == "user"]
    assert user["text"] == text
    assert user["tokens"] >= 2 * 640 * 48 // 750


BAD: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "not base64": ([{"type": "image", "data": "iVBOR!"}], "input[0].data", "not base64"),
    "a data url": ([{"type": "image", "data": f"data:image/png;base64,{encoded(PNG)}"}], "input[0].data", "not base64"),
    "no image": ([data(b"hello"), data(PNG)], "input[0].data", "no PNG, JPEG, GIF or WebP"),
    "another format": ([data(PNG), data(b"BM6\0", mimeType="image/png")], "input[1].data", "Convert it"),
    "nothing": ([{"type": "image", "data": ""}], "input[0].data", "no PNG, JPEG"),
    "broken off": ([data(PNG[:12])], "input[0].data", "broken off"),
    "too many pixels": ([data(png(8001, 2))], "input[0].data", "8,000 pixels"),
    "too large": ([data(PNG + b"\0" * LIMIT)], "input[0].data", "3,932,160 bytes"),
    "too many": ([data(PNG)] * 21, "input[20]", "20 images"),
    "too much together": ([data(PNG + bytes(LIMIT - len(PNG)))] * 4 + [data(PNG)], "input[4].data", "together"),
    "neither": ([{"type": "image"}], "input[0]", "Send one of them"),
    "both": ([data(PNG, uri="file:///x.png")], "input[0]", "Send one of them"),
    "a remote uri": ([{"type": "image", "uri": "https://h/x.png"}], "input[0].uri", "file: URI"),
    "a data uri": ([{"type": "image", "uri": f"data:image/png;base64,{encoded(PNG)}"}], "input[0].uri", "file: URI"),
    "outside": ([{"type": "image", "uri": "OUTSIDE"}], "input[0].uri", "outside the workspace"),
    "by dots": ([{"type": "image", "uri": "WORKSPACE/../outside.png"}], "input[0].uri", "outside the workspace"),
    "by a link": ([{"type": "image", "uri": "WORKSPACE/link.png"}], "input[0].uri", "outside the workspace"),
    "a secret file": ([{"type": "image", "uri": "WORKSPACE/.env.png"}], "input[0].uri", "secret"),
    "a pipe": ([{"type": "image", "uri": "WORKSPACE/pipe.png"}], "input[0].uri", "no regular file"),
    "a directory": ([{"type": "image", "uri": "WORKSPACE"}], "input[0].uri", "is a directory"),
    "missing": ([data(PNG), {"type": "image", "uri": "WORKSPACE/no.png"}], "input[1].uri", "is not there"),
    "a text": ([{"type": "image", "uri": "WORKSPACE/text.png"}], "input[0].uri", "no PNG, JPEG"),
    "a large file": ([{"type": "image", "uri": "WORKSPACE/large.png"}], "input[0].uri", "3,932,160 bytes"),
    "a number": ([{"type": "image", "data": 7}], "input[0].data", "str"),
}


async def test_bad_ones_are_refused_and_nothing_is_kept(connect, home, workspace):
    outside = workspace.parent / "outside.png"
    outside.write_bytes(PNG)
    (workspace / "link.png").symlink_to(outside)
    (workspace / ".env.png").write_bytes(PNG)
    (workspace / "text.png").write_text("no image\n")
    (workspace / "large.png").write_bytes(PNG + bytes(11_000_000))
    os.mkfifo(workspace / "pipe.png")
    uris = {"OUTSIDE": outside.as_uri(), "WORKSPACE": workspace.as_uri()}
    async with LoopbackServer(recorded(TEXTS["chat_completions"][0])) as provider:
        client = await connect(provider.base_url)
        for name, (images, place, says) in BAD.items():
            text = json.dumps(images)
            for word, uri in uris.items():
                text = text.replace(word, uri)
            with pytest.raises(RpcError, match=re.escape(says)) as refused:
                await client.ask("look", input=json.loads(text))
            error = refused.value
            assert (error.code, error.name, error.data["path"]) == (-32602, "invalidParams", place), name
            assert encoded(PNG)[:20] not in str(error)
        assert (await client.request("agent/conversationList", {}))["conversations"] == []
        assert await kept(home) == []
        assert asked(provider) == []
        ended = await client.turn("", input=[data(PNG + bytes(LIMIT - len(PNG)))] * 4)
        assert ended["outcome"] == "completed"
        assert len(asked(provider)[0]["messages"][-1]["content"]) == 4


async def test_a_model_that_is_known_not_to_see_is_told_in_words(connect):
    async with LoopbackServer(recorded(TEXTS["ollama"][0])) as provider:
        provider.shown = b'{"model_info": {"a.context_length": 8192}, "capabilities": ["completion", "tools"]}'
        client = await connect(provider.base_url, **settings("ollama"))
        assert (await client.turn("look", input=[data(PNG)]))["outcome"] == "completed"
        (body,) = asked(provider)
    assert seen("ollama", body) == []
    assert "[an image (image/png) that cannot be shown to this model]" in body["messages"][-1]["content"]
    (notice,) = client.events("notice")
    assert (notice["severity"], notice["code"]) == ("warning", "imagesNotSeen")


async def test_a_server_that_refuses_images_is_told_in_words(connect):
    refusal = {"error": {"message": "image input is not supported - hint: you may need to provide the mmproj"}}
    refused = RawAnswer((json.dumps(refusal).encode(),), 500, "application/json")
    async with LoopbackServer(refused, recorded(TEXTS["chat_completions"][0])) as provider:
        client = await connect(provider.base_url)
        for text in ("look", "again"):
            assert (await client.turn(text, input=[data(PNG)]))["outcome"] == "completed"
        bodies = asked(provider)
    assert [seen("chat_completions", body) for body in bodies] == [[("image/png", PNG)], [], []]
    assert client.events("retrying") == []
    assert [notice["code"] for notice in client.events("notice")] == ["imagesNotSeen"] * 2


async def test_bytes_that_are_gone_are_told_in_words(connect, home):
    async with LoopbackServer(recorded(TEXTS["chat_completions"][0])) as provider:
        client = await connect(provider.base_url)
        ended = await client.turn("look", input=[data(PNG)])
        (key,) = await kept(home)
        store = blobs(home)
        await store.write(lambda session: session.blobs.delete(key.decode().partition(":")[0]))
        await store.close()
        assert (await client.turn("go on", conversationId=ended["conversationId"]))["outcome"] == "completed"
        first, second = asked(provider)
    assert seen("chat_completions", first) == [("image/png", PNG)]
    assert seen("chat_completions", second) == []
    assert "[an image (image/png) that cannot be shown to this model]" in json.dumps(second)


async def test_one_can_come_with_a_steering_message(connect):
    model = ScriptedModel([reply("One ", Wait(0.3), "two.")])
    async with LoopbackServer(model, recorded(TEXTS["chat_completions"][0])) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("look")
        await client.event("textDelta")
        with pytest.raises(RpcError, match="not base64"):
            await client.ask("this", input=[{"type": "image", "data": "?"}], mode="steer")
        steered = await client.ask("this", input=[data(PNG)], mode="steer")
        assert (steered["turnId"], steered["disposition"]) == (started["turnId"], "steered")
        assert (await client.event("turnEnded"))["outcome"] == "completed"
        first, second = asked(provider)
    assert seen("chat_completions", first) == []
    assert seen("chat_completions", second) == [("image/png", PNG)]
    (item,) = [each["item"] for each in client.events("itemUpdated") if each["item"]["kind"] == "user"]
    assert (item["text"], item["steering"]) == ("this\n[image: png, 1 kB]", True)
    assert len(item["images"]) == 1
