"""Recorded answers of every dialect, and what must come of them however their bytes are cut."""

from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from pathlib import Path

from tinsmith.domain.message import Answer, CallDetected, ModelDelta, ReasoningDelta, Sealed, TextDelta
from tinsmith.domain.settings import DialectName
from tinsmith.llm.dialects import DIALECTS
from tinsmith.llm.endpoint import Endpoint

GOLDEN = Path(__file__).parent / "golden"
ORIGIN = "test origin"
ENDPOINT = Endpoint("http://host/v1", "host", "KEY")


def assemble(dialect: DialectName, chunks: Iterable[bytes]) -> tuple[list[ModelDelta], Answer]:
    """The deltas and the answer of a stream that arrives in these chunks. Raises as the reader of answers does."""
    numbers = count(1)
    spoken = DIALECTS[dialect]
    splitter, assembly = spoken.splitter(), spoken.assembly(ENDPOINT, lambda: f"call_{next(numbers)}", ORIGIN)
    deltas: list[ModelDelta] = []
    for payloads in (*(splitter.feed(chunk) for chunk in chunks), splitter.close()):
        for payload in payloads:
            if not assembly.is_done and payload.strip() and not payload.startswith(b":"):
                assembly.take(payload.strip(), deltas)
    return deltas, assembly.finish()


def assemble_whole(dialect: DialectName, body: bytes) -> tuple[list[ModelDelta], Answer] | None:
    """The deltas and the answer of a body that was not streamed, None when it is no answer."""
    numbers = count(1)
    assembly = DIALECTS[dialect].assembly(ENDPOINT, lambda: f"call_{next(numbers)}", ORIGIN)
    deltas: list[ModelDelta] = []
    return (deltas, assembly.finish()) if assembly.take_whole(body, deltas) else None


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    """The body in pieces, cut at these offsets."""
    return [body[start:end] for start, end in pairwise([0, *places, len(body)])]


def read(name: str) -> tuple[DialectName, bytes]:
    """The dialect and the bytes of a recording, by its path below `golden`."""
    dialect = next(known for known in DIALECTS if known == name.partition("/")[0])
    return dialect, (GOLDEN / name).read_bytes()


def sealed(body: str, after_text: int = 0, after_calls: int = 0) -> Sealed:
    """A sealed part of the recordings' origin."""
    return Sealed(ORIGIN, body, after_text, after_calls)


def check_deltas(deltas: Sequence[ModelDelta], answer: Answer) -> None:
    """What was shown on the way is what the answer holds."""
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == answer.text
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == answer.reasoning
    detected = {(delta.call_id, delta.name) for delta in deltas if isinstance(delta, CallDetected)}
    assert detected == {(call.call_id, call.name) for call in answer.calls if call.name}
