"""A raw client that notes when each frame came: one process, its two pipes, nothing in between."""

import os
import select
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

DEADLINE = 60.0
"""Seconds that anything may take before the run is given up."""
AGENT: dict[str, Any] = {"versions": [1], "applyEdits": {}, "permissions": {}, "clientName": "bench"}


class Frame(NamedTuple):
    """One message body and when it was read, CLOCK_MONOTONIC in nanoseconds."""

    body: bytes
    at: int


class Agent(NamedTuple):
    """How an agent is started."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    workspace: Path


class Turn(NamedTuple):
    """From the moment the prompt was sent to the arrival of `turnEnded`; `frames` is all that came in between."""

    sent_at: int
    ended_at: int
    frames: Sequence[Frame]


class Client:
    """An agent's process for the length of a block, with one conversation once `converse` was called."""

    def __init__(self, agent: Agent, errors: Path | None = None) -> None:
        self._agent = agent
        self._errors = errors
        self._buffer = bytearray()
        self._unread: deque[Frame] = deque()
        self._turn: list[Frame] = []
        self._last_id = 0

    def __enter__(self) -> Self:
        errors = os.open(self._errors or os.devnull, os.O_WRONLY | os.O_CREAT, 0o600)
        self.spawned_at = time.monotonic_ns()
        self._process = subprocess.Popen(
            self._agent.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=dict(self._agent.environment),
            cwd=self._agent.workspace,
            bufsize=0,
        )
        os.close(errors)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self.pid = self._process.pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.request("shutdown")
                self.notify("exit", {})
                self._process.wait(DEADLINE)
        finally:
            self._process.kill()
            self._process.communicate()

    def initialize(self) -> int:
        """The opening of a session; when the answer came."""
        capabilities: dict[str, Any] = {"general": {"positionEncodings": ["utf-8"]}, "experimental": {"agent": AGENT}}
        parameters: dict[str, Any] = {
            "processId": os.getpid(),
            "rootUri": self._agent.workspace.as_uri(),
            "capabilities": capabilities,
        }
        _, answered_at = self.request("initialize", parameters)
        self.notify("initialized", {})
        return answered_at

    def converse(self) -> int:
        """Open a conversation; when the answer came."""
        result, answered_at = self.request("agent/conversationNew", {})
        self._conversation = result["conversation"]["conversationId"]
        return answered_at

    def turn(self, text: str) -> Turn:
        """Run a turn to its end."""
        sent_at = self.begin(text)
        return self.end(sent_at)

    def begin(self, text: str) -> int:
        """Send a prompt; when it was sent."""
        self._turn.clear()
        sent_at = time.monotonic_ns()
        self._post("agent/runTurn", {"conversationId": self._conversation, "text": text})
        return sent_at

    def end(self, sent_at: int) -> Turn:
        """Wait for the end of the turn."""
        last = self.until(is_event(b"turnEnded"))
        return Turn(sent_at, last.at, tuple(self._turn))

    def cancel(self) -> int:
        """Ask for the end of the running turn; when."""
        asked_at = time.monotonic_ns()
        self._post("agent/cancel", {"conversationId": self._conversation})
        return asked_at

    def request(self, method: str, parameters: Any = None) -> tuple[Any, int]:
        """Ask and wait; the result, and when it came."""
        head = b'{"jsonrpc":"2.0","id":%d,' % self._post(method, parameters)
        frame = self.until(lambda body: body.startswith(head))
        answer = msgspec.json.decode(frame.body)
        if "error" in answer:
            raise RuntimeError(f"{self._agent.name} refused {method}: {answer['error']['message']}")
        return answer["result"], frame.at

    def until(self, is_wanted: Callable[[bytes], bool]) -> Frame:
        """The next wanted frame. Raises EOFError when the agent is gone, TimeoutError when it says nothing."""
        while True:
            while self._unread:
                frame = self._unread.popleft()
                self._turn.append(frame)
                if is_wanted(frame.body):
                    return frame
            self._read()

    def has_come(self, is_wanted: Callable[[bytes], bool]) -> bool:
        """Whether a wanted frame is among those of the turn so far."""
        return any(is_wanted(frame.body) for frame in self._turn)

    def notify(self, method: str, parameters: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def _post(self, method: str, parameters: Any) -> int:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self._send(message if parameters is None else {**message, "params": parameters})
        return self._last_id

    def _send(self, message: dict[str, Any]) -> None:
        body = msgspec.json.encode(message)
        os.write(self._in, b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def _read(self) -> None:
        if not self._poll.poll(DEADLINE * 1000):
            raise TimeoutError(f"{self._agent.name} said nothing for {DEADLINE:g} s")
        piece = os.read(self._out, 1 << 20)
        now = time.monotonic_ns()
        if not piece:
            raise EOFError(f"{self._agent.name} ended by itself")
        self._buffer += piece
        while (head_end := self._buffer.find(b"\r\n\r\n")) >= 0:
            start = head_end + 4
            end = start + int(self._buffer[self._buffer.index(b":") + 1 : head_end].split(b"\r\n")[0])
            if len(self._buffer) < end:
                return
            self._unread.append(Frame(bytes(self._buffer[start:end]), now))
            del self._buffer[:end]


def is_event(kind: bytes) -> Callable[[bytes], bool]:
    """Whether a frame is an `agent/event` of that type; looks at bytes, so that counting costs the run nothing."""
    mark = b'"params":{"type":"%b"' % kind
    return lambda body: mark in body
