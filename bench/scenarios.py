"""What is measured: each function runs one scenario on an agent and adds what it saw to the samples of its rows."""

import itertools
import os
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bench.client import Agent, Client, Frame, is_event
from bench.process import forget_peak, peak, processes_with, processor_seconds, resident, settle, wait_for_process
from bench.provider import Provider

Samples = defaultdict[str, list[float]]
"""Row name → what was measured."""
DELTAS = 5_000
PACED = 200
PAUSE = 0.01
"""Seconds of silence before a cancel; after a longer one the machine itself must wake up first."""
ROUNDS = 10

_sleeps = itertools.count(os.getpid() * 1_000_000)  # seconds that no other command on this machine sleeps for
_OFFSET_AND_SEQ = re.compile(rb'"(?:offset|seq)":\d+')


class Session(Client):
    """An agent that is warm and talks to the provider in one conversation."""

    def __init__(self, agent: Agent, provider: Provider, samples: Samples) -> None:
        super().__init__(agent)
        self.provider = provider
        self.samples = samples

    def __enter__(self) -> Self:
        super().__enter__()
        self.initialize()
        self.converse()
        self.turn("bench:text:20")
        self.provider.take()
        return self


def bare_interpreter(python: Path, samples: Samples) -> None:
    """The interpreter that the server runs on, doing nothing."""
    begun = time.monotonic_ns()
    subprocess.run((python, "-c", "pass"), env={}, check=True)
    samples["bare interpreter"].append(_ms(begun, time.monotonic_ns()))


def durable_write(place: Path, samples: Samples) -> None:
    """What the disk needs to keep 4 kB: every stored step of a turn waits for at least this."""
    with (place / "durable").open("wb", buffering=0) as file:
        for _ in range(10):
            begun = time.monotonic_ns()
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fdatasync(file.fileno())
            samples["durable write"].append(_ms(begun, time.monotonic_ns()))


def start(agent: Agent, provider: Provider, samples: Samples) -> None:
    """From nothing to the first request, sent when the agent has nothing left to do."""
    with Client(agent) as client:
        samples["initialize"].append(_ms(client.spawned_at, client.initialize()))
        samples["conversation"].append(_ms(client.spawned_at, client.converse()))
        samples["conversation, processor"].append(1000 * processor_seconds(client.pid))
        settle(client.pid)
        samples["memory, conversation open"].append(resident(client.pid))
        for _ in range(3):  # wakes the machine, which sleeps deeper the longer it had nothing to do
            client.request("agent/conversationList", {})
        turn = client.turn("bench:text:20")
        (completion,) = provider.take()
        samples["first prompt"].append(_ms(turn.sent_at, completion.arrived))
        samples["first request"].append(completion.size)


def start_in_haste(agent: Agent, provider: Provider, samples: Samples) -> None:
    """From nothing to the first request, each message sent as soon as the answer before it came."""
    with Client(agent) as client:
        client.initialize()
        client.converse()
        client.turn("bench:text:20")
        (completion,) = provider.take()
        samples["spawn to request"].append(_ms(client.spawned_at, completion.arrived))


def prompt(session: Session) -> None:
    """A short answer to a prompt in a conversation that goes on."""
    turn = session.turn("bench:text:20")
    (completion,) = session.provider.take()
    session.samples["later prompt"].append(_ms(turn.sent_at, completion.arrived))
    session.samples["turn end"].append(_ms(completion.last, turn.ended_at))


def read_rounds(session: Session) -> None:
    """A turn of ten `read` calls: from the end of each answer to the next request."""
    _rounds(session, "read")


def bash_rounds(session: Session) -> None:
    """The same with `bash`, which runs `true`."""
    _rounds(session, "bash")


def _rounds(session: Session, tool: str) -> None:
    before = processor_seconds(session.pid)
    session.turn(f"bench:{tool}:{ROUNDS}")
    session.samples[f"{tool} rounds, processor"].append(1000 * (processor_seconds(session.pid) - before))
    completions = session.provider.take(ROUNDS + 1)
    for earlier, later in itertools.pairwise(completions):
        session.samples[f"{tool} round"].append(_ms(earlier.last, later.arrived))
    session.samples["connections"].append(len({completion.connection for completion in completions}))


def stream(session: Session) -> None:
    """Thousands of deltas as fast as they are taken."""
    before = processor_seconds(session.pid)
    turn = session.turn(f"bench:text:{DELTAS}")
    (completion,) = session.provider.take()
    session.samples["stream"].append(_ms(completion.first, turn.ended_at))
    session.samples["stream, processor"].append(1000 * (processor_seconds(session.pid) - before))
    deltas = [frame for frame in turn.frames if is_event(b"textDelta")(frame.body)]
    session.samples["delta bytes"].extend(map(_overhead, deltas))
    session.samples["memory, after streams"].append(resident(session.pid))


def relay(session: Session) -> None:
    """Deltas at a person's pace; each carries the time it was sent at."""
    turn = session.turn(f"bench:paced:{PACED}")
    session.provider.take()
    for frame in turn.frames:
        sent = re.search(rb'"text":"@(\d+) "', frame.body)
        if sent is not None:
            session.samples["delta relay"].append(_ms(int(sent[1]), frame.at))


def cancel_silence(session: Session) -> None:
    """A cancel while the provider says nothing."""
    begun = session.begin("bench:silent:1")
    session.until(is_event(b"textDelta"))
    time.sleep(PAUSE)
    asked = session.cancel()
    turn = session.end(begun)
    (completion,) = session.provider.take()
    session.samples["cancel"].append(_ms(asked, turn.ended_at))
    session.samples["cancel, upstream"].append(_ms(asked, completion.closed))


def cancel_command(session: Session) -> None:
    """A cancel while a command runs; nothing of it may be left when the turn has ended."""
    seconds = next(_sleeps)
    begun = session.begin(f"bench:sleep:{seconds}")
    wait_for_process(str(seconds))
    time.sleep(PAUSE)
    asked = session.cancel()
    turn = session.end(begun)
    session.samples["processes left"].append(len(processes_with(str(seconds))))
    session.samples["cancel, command"].append(_ms(asked, turn.ended_at))
    session.provider.take()


def flood(session: Session, megabytes: int) -> None:
    """A command that writes as fast as it can; meanwhile the server is asked something small again and again."""
    session.request("agent/conversationList", {})
    before = resident(session.pid)
    forget_peak(session.pid)
    session.begin(f"bench:flood:{megabytes}")
    has_ended = is_event(b"turnEnded")
    while not session.has_come(has_ended):
        asked = time.monotonic_ns()
        _, answered = session.request("agent/conversationList", {})
        session.samples["flood, ping"].append(_ms(asked, answered))
        time.sleep(PAUSE)
    session.samples["flood, memory"].append(peak(session.pid) - before)
    session.provider.take(2)


def growth(memory: Sequence[float]) -> float:
    """MB between the second and the last streamed turn; before that, buffers of a fixed size fill."""
    return memory[-1] - memory[1]


def _overhead(frame: Frame) -> int:
    """Bytes of a delta's frame without its text and without the digits of the two numbers that count."""
    text = re.search(rb'"text":"([^"]*)"', frame.body)
    assert text is not None
    digits = sum(len(number) for number in _OFFSET_AND_SEQ.findall(frame.body))
    return len(frame.body) - len(text[1]) - digits


def _ms(begun: int, ended: int) -> float:
    return (ended - begun) / 1e6
