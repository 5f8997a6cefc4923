"""One conversation among many on a shared server: a folder of its own, a provider of its own, its own turns."""

import json
from pathlib import Path
from typing import Any

from tests.wire.client import Client

from tinsmith.demo.server import LoopbackServer

SETTINGS = {
    "default_model": "scripted",
    "permission_mode": "full",
    "llm_config.retry_backoff_ms": [0],
    "empty_response_retry_backoff_ms": [0],
}
"""What a talk overrides unless a test says otherwise."""

MESSAGE_KEYS = {"role", "content", "tool_calls", "tool_call_id"}


class Talk:
    """`bodies` are the requests its provider got; `settings` go along with every message as overrides."""

    def __init__(self, client: Client, provider: LoopbackServer, folder: Path, identifier: str) -> None:
        self.client = client
        self.provider = provider
        self.folder = folder
        self.identifier = identifier
        self.settings = {**SETTINGS, "llm_config.base_url": provider.base_url}

    async def begin(self, text: str, **params: Any) -> str:
        """Start a turn; its id."""
        overrides = {**self.settings, **params.pop("overrides", {})}
        started = await self.client.ask(text, conversationId=self.identifier, overrides=overrides, **params)
        return started["turnId"]

    async def end(self, turn_id: str) -> dict[str, Any]:
        """The params of the `turnEnded` of a turn."""
        return await self.client.event("turnEnded", turnId=turn_id)

    async def say(self, text: str = "go", **params: Any) -> dict[str, Any]:
        """Run a turn to its end; the params of its `turnEnded`."""
        return await self.end(await self.begin(text, **params))

    async def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The first event of this conversation of that type and those fields, now or later."""
        return await self.client.event(kind, conversationId=self.identifier, **fields)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Every event of this conversation so far, of these types or of all."""
        return [event for event in self.client.events(*kinds) if event["conversationId"] == self.identifier]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The completion requests so far."""
        return bodies_of(self.provider)

    @property
    def results(self) -> list[str]:
        """The contents of the tool results in the newest request."""
        return [message["content"] for message in self.bodies[-1]["messages"] if message["role"] == "tool"]

    def streamed(self, turn_id: str) -> str:
        """The text that the deltas of a turn gave, which must join without a gap."""
        text = ""
        item = None
        for delta in (each for each in self.events("textDelta") if each["turnId"] == turn_id):
            text = text if delta["itemId"] == item else ""
            item = delta["itemId"]
            assert delta["offset"] == len(text)
            text += delta["text"]
        return text

    async def stored(self) -> list[dict[str, Any]]:
        """The transcript as it is stored."""
        view = await self.client.request("agent/inspect", {"what": "messages", "conversationId": self.identifier})
        return view["messages"]

    async def items(self) -> list[dict[str, Any]]:
        """What a client that loads the conversation shows."""
        loaded = await self.client.request("agent/conversationLoad", {"conversationId": self.identifier})
        return loaded["snapshot"]["lastItems"]


def bodies_of(provider: LoopbackServer) -> list[dict[str, Any]]:
    """The completion requests that a provider got, each checked to be one that a strict server takes."""
    asked = [json.loads(request.body.decode()) for request in provider.requests if request.method == "POST"]
    for body in asked:
        check_history(body["messages"])
    return asked


def check_history(messages: list[dict[str, Any]]) -> None:
    """Strict servers take it: known keys, Unicode, calls with ids and object arguments, each answered once and next."""
    json.dumps(messages, ensure_ascii=False).encode()
    pending: list[str] = []
    seen: set[str] = set()
    talk = [message for message in messages if message["role"] != "system"]
    assert talk[0]["role"] == "user"
    for message in talk:
        assert message.keys() <= MESSAGE_KEYS
        if message["role"] == "tool":
            assert message["tool_call_id"] in pending
            assert isinstance(message["content"], str)
            pending.remove(message["tool_call_id"])
            continue
        assert pending == []
        calls = message.get("tool_calls", [])
        assert calls or isinstance(message["content"], str)
        pending = [call["id"] for call in calls]
        assert all(pending)
        assert len({*pending}) == len(pending)
        assert seen.isdisjoint(pending)
        seen.update(pending)
        for call in calls:
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert pending == []
