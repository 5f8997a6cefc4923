"""Decoding and assembling of streamed answers, each dialect beside plain `msgspec.json.decode` of the same events.

As a program, run by the installed environment: `decoding.py TIMES` prints the samples as JSON.
"""

import json
import subprocess
import sys
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.scenarios import Samples

DELTAS = 20_000
LONG = 10_000_000
"""Bytes of the stream whose memory is measured."""
READ = 16_384
"""Bytes of one read from the network."""
_WORDS = ("the ", "parser ", "reads ", "a ", "token", "; ", "編集", "\n    ", "return ", "value")


def measure_decoding(
    python: Path, environment: Mapping[str, str], times: int, server: "Samples", floor: "Samples"
) -> None:
    """Add samples: microseconds a delta by dialect, and the MB that a long answer and its text take."""
    command = (python, __file__, str(times))
    done = subprocess.run(command, env=dict(environment), capture_output=True, check=True)
    told: dict[str, dict[str, list[float]]] = json.loads(done.stdout)
    for samples, key in ((server, "server"), (floor, "floor")):
        for row, taken in told[key].items():
            samples[row] += taken


def events(dialect: str) -> Iterator[bytes]:
    """The payloads of an answer of ordinary words without end, as its reference writes them."""
    number = 0
    while True:
        word = _WORDS[number % len(_WORDS)]
        number += 1
        yield json.dumps(_event(dialect, word, number), ensure_ascii=False, separators=(",", ":")).encode()


def _event(dialect: str, word: str, number: int) -> dict[str, Any]:
    match dialect:
        case "anthropic":
            return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        case "responses":
            place = {"item_id": "msg_0a1b2c3d4e5f", "output_index": 0, "content_index": 0}
            kind = "response.output_text.delta"
            return {"type": kind, "sequence_number": number, **place, "delta": word, "logprobs": []}
        case "ollama":
            message = {"role": "assistant", "content": word}
            return {"model": "m", "created_at": "2026-01-01T00:00:00.000000Z", "message": message, "done": False}
        case _:
            choice = {"index": 0, "delta": {"content": word}, "logprobs": None, "finish_reason": None}
            frame = {"id": "chatcmpl-0a1b2c3d4e5f", "object": "chat.completion.chunk", "created": 1700000000}
            return {**frame, "model": "m", "system_fingerprint": "fp_0a1b2c", "choices": [choice]}


def framed(dialect: str, payload: bytes) -> bytes:
    """One event as it stands in the stream."""
    return payload + b"\n" if dialect == "ollama" else b"data: " + payload + b"\n\n"


def _sampled(times: int) -> dict[str, dict[str, list[float]]]:
    import msgspec

    from tinsmith.llm.dialects import DIALECTS

    server: dict[str, list[float]] = defaultdict(list)
    floor: dict[str, list[float]] = defaultdict(list)
    for _ in range(times):
        for name in DIALECTS:
            source = events(name)
            payloads = [next(source) for _ in range(DELTAS)]
            body = b"".join(framed(name, payload) for payload in payloads)
            chunks = [body[start : start + READ] for start in range(0, len(body), READ)]
            begun = time.perf_counter()
            _assemble(name, chunks)
            server[f"delta, {name}"].append(1e6 * (time.perf_counter() - begun) / DELTAS)
            begun = time.perf_counter()
            for payload in payloads:
                msgspec.json.decode(payload)
            floor[f"delta, {name}"].append(1e6 * (time.perf_counter() - begun) / DELTAS)
    kept, text = long_answer()
    server["memory of a long answer"].append(kept / 1e6)
    floor["memory of a long answer"].append(text / 1e6)
    return {"server": server, "floor": floor}


def _assemble(name: str, chunks: "list[bytes] | Iterator[bytes]") -> Any:
    from tinsmith.llm.dialects import DIALECTS
    from tinsmith.llm.endpoint import Endpoint

    dialect = next(known for known in DIALECTS.values() if known.name == name)
    splitter = dialect.splitter()
    assembly = dialect.assembly(Endpoint("http://host/v1", "host", "KEY"), lambda: "call", "")
    for chunk in chunks:
        batch: list[Any] = []
        for payload in splitter.feed(chunk):
            assembly.take(payload, batch)
    return assembly.finish()


def long_answer() -> tuple[int, int]:
    """Bytes that an answer of LONG bytes of stream has taken at its end, and the bytes of its text."""

    def chunks() -> Iterator[bytes]:
        sent = 0
        for payload in events("chat_completions"):
            yield framed("chat_completions", payload)
            sent += len(payload)
            if sent > LONG:
                return

    _assemble("chat_completions", [])  # imports what it needs
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    answer = _assemble("chat_completions", chunks())
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before, sys.getsizeof(answer.text)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_sampled(int(sys.argv[1]))))
