"""SIGKILL from outside, again and again: what was told is kept, nothing runs twice, and every turn has one end."""

import asyncio
import random
from collections import Counter

import pytest
from tests.engine.test_window import is_valid
from tests.wire.client import RpcError

from tinsmith.demo.server import LoopbackServer
from tinsmith.domain.message import AssistantMessage, UserMessage
from tinsmith.llm.history import check_history
from tinsmith.llm.scripted import Call, ScriptedModel, Think, reply

FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}
ROUNDS = 8
FINISHED = {"completed", "failed", "cancelled", "declined"}


def script(request):
    """Rounds of reading, running and writing for `go`, one answer for everything else."""
    newest = max(number for number, message in enumerate(request.messages) if isinstance(message, UserMessage))
    text = request.messages[newest].text
    done = sum(isinstance(message, AssistantMessage) for message in request.messages[newest:])
    if not text.startswith("go") or done == ROUNDS:
        return reply(f"Done with {text}.")
    mark = f"{text.partition(' ')[2]}_{done}"
    return reply(
        Think("Let me see. "),
        f"Round {done} of {text}. ",
        Call("read", {"path": "a.txt"}),
        Call("bash", {"command": f"echo {mark} | tee -a log.txt"}),
        Call("write", {"path": f"made_{mark}.txt", "content": f"{mark}\n"}),
    )


class Survivor:
    """One conversation that is run, killed, opened again and looked at, by one server after the other."""

    def __init__(self, connect, provider, model, workspace):
        self.connect = connect
        self.provider = provider
        self.model = model
        self.workspace = workspace
        self.number = 0
        self.outcomes = Counter()

    async def open(self):
        self.client = await self.connect(self.provider.base_url, **FULL)
        await self.renew()

    async def renew(self):
        """Go on in a fresh conversation."""
        made = await self.client.request("agent/conversationNew", {})
        self.identifier = made["conversation"]["conversationId"]

    async def crash(self, moment):
        """Start a turn, kill the server at the moment, open the conversation with another, and check everything."""
        self.number += 1
        text, turn_id = f"go {self.number}", f"turn_{self.number}"
        asked = self.client.post("agent/runTurn", {"text": text, "conversationId": self.identifier, "turnId": turn_id})
        await moment(self.client, turn_id)
        await self.client.kill()
        dead, self.client = self.client, await self.connect(self.provider.base_url, **FULL)
        loaded = await self.client.request("agent/conversationLoad", {"conversationId": self.identifier})
        assert loaded["snapshot"]["activeTurn"] is None
        was_accepted = any(message.get("id") == asked and "result" in message for message in dead.received)
        await self.check_end(dead, turn_id, was_accepted=was_accepted)
        messages = await self.messages()
        self.check_history(messages)
        self.check_told(dead, messages, turn_id)
        await self.goes_on()

    async def check_end(self, dead, turn_id, *, was_accepted):
        """A turn that was accepted has ended: as was told, or interrupted."""
        told = [event["outcome"] for event in dead.events("turnEnded") if event["turnId"] == turn_id]
        try:
            ended = await self.client.request("agent/turnWait", {"turnId": turn_id})
        except RpcError as error:
            if was_accepted or error.name != "turnNotFound":
                raise
            self.outcomes["never was"] += 1
            return
        self.outcomes[ended["outcome"]] += 1
        assert len(told) <= 1
        if told:
            assert ended["outcome"] == told[0]
        else:
            assert ended["outcome"] in {"interrupted", "completed"}

    async def messages(self):
        view = await self.client.request("agent/inspect", {"what": "messages", "conversationId": self.identifier})
        return view["messages"]

    def check_history(self, messages):
        """Ids in order, and each call with exactly one result."""
        assert [each["messageId"] for each in messages] == [f"m{number:08d}" for number in range(len(messages))]
        calls = [call_id for each in messages for call_id in each.get("calls", {})]
        results = [each["callId"] for each in messages if each["kind"] == "toolResult"]
        assert sorted(calls) == sorted(results)
        assert len(set(calls)) == len(calls)

    def check_told(self, dead, messages, turn_id):
        """Everything that an event told is stored; what had begun is not said to be not run; nothing ran twice."""
        of_turn = [each for each in messages if each["turnId"] == turn_id]
        results = {each["callId"]: each["text"] for each in of_turn if each["kind"] == "toolResult"}
        texts = [each["text"] for each in of_turn]
        begun = set()
        for event in dead.events():
            if event.get("turnId") != turn_id:
                continue
            match event["type"]:
                case "turnStarted":
                    assert texts[0] == event["text"]
                case "itemUpdated":
                    assert event["item"]["text"] in texts
                case "toolUpdated" if event["status"] in FINISHED:
                    assert results[event["callId"]] == event["result"]
                case "toolUpdated" if event["status"] == "running" and event["name"] != "read":
                    begun.add(event["callId"])
        for call_id in begun:
            assert not results[call_id].startswith("Not run")
        log = self.workspace / "log.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        assert len(lines) == len(set(lines))
        finished = [text.removeprefix("exit: 0\n") for text in results.values() if text.startswith("exit: 0\n")]
        assert {line for text in finished for line in text.split()} <= set(lines)

    async def goes_on(self):
        """A new turn completes, and the provider gets a valid history."""
        ended = await self.client.turn(f"after {self.number}", conversationId=self.identifier)
        assert ended["outcome"] == "completed"
        check_history(self.model.requests[-1].messages)
        assert is_valid(self.model.requests[-1].messages)


@pytest.fixture
async def survivor(connect, workspace):
    (workspace / "a.txt").write_text("here\n")
    model = ScriptedModel(script)
    async with LoopbackServer(model) as provider:
        survivor = Survivor(connect, provider, model, workspace)
        await survivor.open()
        yield survivor


@pytest.mark.parametrize("kills", [15, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
async def test_at_random_moments(survivor, kills):
    async def some_time(client, turn_id):
        events = random.choice([0, 0, 1, *range(2, 90)])
        before = len(client.received)
        await client.poll(
            lambda: (
                len(client.received) >= before + events
                or any(event["turnId"] == turn_id for event in client.events("turnEnded"))
            )
        )
        await asyncio.sleep(random.choice([0, 0.001, 0.005, 0.02]))

    for number in range(kills):
        if number % 20 == 19:
            await survivor.renew()
        await survivor.crash(some_time)
    assert sum(survivor.outcomes.values()) == kills
    assert survivor.outcomes["interrupted"] > 0


def received(kind, **fields):
    """The moment in which the client has this event of the turn."""

    async def moment(client, turn_id):
        of_turn = {} if kind == "conversationUpdated" else {"turnId": turn_id}
        await client.event(kind, **of_turn, **fields)

    return moment


STEPS = [
    received("turnStarted"),
    received("conversationUpdated", state="running"),
    received("activityUpdated", state="thinking"),
    received("reasoningDelta"),
    received("textDelta"),
    received("toolUpdated", name="bash", status="pending"),
    received("itemUpdated"),
    received("usageUpdated"),
    received("toolUpdated", name="read", status="running"),
    received("toolUpdated", name="read", status="completed"),
    received("toolUpdated", name="bash", status="running"),
    received("toolOutput"),
    received("toolUpdated", name="bash", status="completed"),
    received("toolUpdated", name="write", status="running"),
    received("toolUpdated", name="write", status="completed"),
    received("diffUpdated"),
    received("turnEnded"),
]


async def test_at_each_step_of_a_round(survivor):
    for step in STEPS:
        await survivor.crash(step)
    assert survivor.outcomes["completed"] >= 1
    assert survivor.outcomes["interrupted"] >= len(STEPS) // 2
