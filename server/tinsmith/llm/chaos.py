"""A model that breaks another one's answers, the same way for the same seed."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Literal, get_args

import msgspec

from tinsmith.domain.errors import TransportError
from tinsmith.domain.message import Answer, ModelDelta, TextDelta
from tinsmith.domain.ports import Model, ModelRequest
from tinsmith.domain.settings import LlmSettings

Fault = Literal["refuse", "break", "stall", "empty", "split", "cut_call"]
"""What can go wrong.

`refuse`: an error before any output. `break`: one after some. `stall`: silence, then `streamStalled`. `empty`: nothing
said. `split`: text one character a delta. `cut_call`: the last call loses the end of its arguments.
"""

FAULTS: tuple[Fault, ...] = get_args(Fault)


class ChaosModel:
    """A `ports.Model` around another. Each request meets one of `faults` with `probability`; `met` lists which.

    A stall lasts `stall_seconds` before it ends as the real one would.
    """

    def __init__(
        self,
        model: Model,
        seed: int,
        *,
        faults: Sequence[Fault] = FAULTS,
        probability: float = 0.5,
        stall_seconds: float = 0.02,
    ) -> None:
        self.met: list[Fault | None] = []
        self._model = model
        self._random = random.Random(seed)  # noqa: S311  repeatable on purpose, guards nothing
        self._faults = faults
        self._probability = probability
        self._stall_seconds = stall_seconds

    async def stream(self, request: ModelRequest, settings: LlmSettings) -> AsyncGenerator[Sequence[ModelDelta]]:
        """As ports.Model."""
        fault = self._random.choice(self._faults) if self._random.random() < self._probability else None
        self.met.append(fault)
        if fault == "refuse":
            raise TransportError(
                "overloaded", "The provider has too much to do. Try again.", retryable=True, origin="chaos"
            )
        if fault == "empty":
            yield [Answer(finish_reason="stop")]
            return
        answer = self._model.stream(request, settings)
        async for batch in self._spoil(answer, fault):
            yield batch

    async def _spoil(
        self, answer: AsyncIterator[Sequence[ModelDelta]], fault: Fault | None
    ) -> AsyncGenerator[Sequence[ModelDelta]]:
        allowed = self._random.randint(0, 3)
        async for batch in answer:
            if fault in {"break", "stall"} and (allowed == 0 or isinstance(batch[-1], Answer)):
                await self._fail(stalls=fault == "stall")
            allowed -= 1
            yield _reshape(batch, fault)

    async def _fail(self, *, stalls: bool) -> None:
        if stalls:
            await asyncio.sleep(self._stall_seconds)
            raise TransportError("streamStalled", "The stream stood still. Try again.", retryable=True, origin="chaos")
        raise TransportError("streamInterrupted", "The stream broke off. Try again.", retryable=True, origin="chaos")


def _reshape(batch: Sequence[ModelDelta], fault: Fault | None) -> Sequence[ModelDelta]:
    if fault == "split":
        return [piece for delta in batch for piece in _split(delta)]
    if fault == "cut_call":
        return [_cut_last_call(delta) if isinstance(delta, Answer) else delta for delta in batch]
    return batch


def _split(delta: ModelDelta) -> Sequence[ModelDelta]:
    return [TextDelta(character) for character in delta.text] if isinstance(delta, TextDelta) else [delta]


def _cut_last_call(answer: Answer) -> Answer:
    if not answer.calls:
        return answer
    *others, last = answer.calls
    half = last.arguments[: len(last.arguments) // 2]
    cut = msgspec.structs.replace(last, arguments=half, is_complete=False)
    return msgspec.structs.replace(answer, calls=(*others, cut), finish_reason="length")
