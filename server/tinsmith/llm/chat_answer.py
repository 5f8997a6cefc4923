"""Reading one Chat Completions answer from an open response, whatever form it comes in."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, closing

from tinsmith.domain.errors import AgentError, ProtocolError, TransportError
from tinsmith.domain.message import ModelDelta
from tinsmith.llm import errors
from tinsmith.llm.assemble import Assembly
from tinsmith.llm.chat_chunks import decode_chunk
from tinsmith.llm.endpoint import Endpoint
from tinsmith.llm.sse import SseSplitter
from tinsmith.llm.stall import StallClock
from tinsmith.net.http import HttpResponse

_BODY_LIMIT = 32 * 1024 * 1024
_DRAIN_SECONDS = 0.25
"""How long the end of the response may take after `[DONE]`; longer costs the connection, not the answer."""


class AnswerReader:
    """The state of one read. An event stream, a plain completion and a page of HTML are told apart by what comes.

    `clock` limits the time to the next event; `late` is raised when it rings.
    """

    def __init__(
        self,
        response: HttpResponse,
        endpoint: Endpoint,
        assembly: Assembly,
        clock: StallClock,
        late: TransportError,
    ) -> None:
        self._response = response
        self._endpoint = endpoint
        self._assembly = assembly
        self._clock = clock
        self._late = late
        self._is_done = False
        self._has_events = False
        self._before_events: list[bytes] = []
        self._kept = 0

    async def batches(self) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Deltas, one batch a read that shows something; the Answer comes last. The response is read to its end.

        Raises TransportError (`streamInterrupted`, `late`, or what the provider reports), ProtocolError
        (`badEvent`, `unexpectedBody`, `eventTooLarge`).
        """
        splitter = SseSplitter()
        with closing(self._clock):
            async with aclosing(self._response.chunks()) as chunks:
                is_open = True
                while is_open and not self._is_done:
                    chunk = await self._next(chunks)
                    is_open = chunk is not None
                    batch: list[ModelDelta] = []
                    failure = self._take(splitter.close() if chunk is None else splitter.feed(chunk), batch)
                    if batch:
                        yield batch
                    if failure is not None:
                        raise failure
                if is_open:
                    await _drain(chunks)
        yield self._finish()

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        """The next piece of the body, None at its end: a break or a stall after the finish reason is an end too."""
        try:
            chunk = await self._clock.wait(anext(chunks, None))
        except (TimeoutError, TransportError) as error:
            if self._assembly.finish_reason:
                return None
            if isinstance(error, TransportError):
                raise
            raise self._late from error
        if chunk is not None and not self._has_events:
            self._keep(chunk)
        return chunk

    def _take(self, payloads: list[bytes], batch: list[ModelDelta]) -> AgentError | None:
        """Assemble what a read brought. An error is given back, so that what came before it is shown first."""
        has_event = False
        for payload in payloads:
            text = payload.strip()
            if text == b"[DONE]":
                self._is_done = True
                break
            if not text or text.startswith(b":"):  # the latter: a heartbeat that a gateway wrapped into an event
                continue
            try:
                has_event |= self._add(payload, batch)
            except AgentError as failure:
                return failure
        if has_event:
            self._has_events = True
            self._before_events.clear()
            self._clock.restart()
        return None

    def _add(self, payload: bytes, batch: list[ModelDelta]) -> bool:
        chunk = decode_chunk(payload, self._endpoint.host)
        if chunk.failure is not None:
            raise errors.from_event(chunk.failure, self._endpoint)
        return self._assembly.add(chunk, batch)

    def _finish(self) -> Sequence[ModelDelta]:
        if self._is_done or self._assembly.finish_reason:
            return [self._assembly.finish()]
        body = b"".join(self._before_events).strip()
        content_type = self._response.headers.get("content-type", "")
        if self._has_events or not body or content_type.startswith("text/event-stream"):
            raise self._interrupted()
        return self._read_completion(body, content_type)

    def _read_completion(self, body: bytes, content_type: str) -> Sequence[ModelDelta]:
        """A completion that came whole, although a stream was asked for or because none was."""
        batch: list[ModelDelta] = []
        try:
            is_answer = self._add(body, batch)
        except ProtocolError as error:
            raise errors.unexpected_body(self._response.status, content_type, body, self._endpoint) from error
        if not is_answer:
            raise errors.unexpected_body(self._response.status, content_type, body, self._endpoint)
        return [*batch, self._assembly.finish()]

    def _keep(self, chunk: bytes) -> None:
        self._before_events.append(chunk)
        self._kept += len(chunk)
        if self._kept > _BODY_LIMIT:
            message = f"{self._endpoint.host} sent more than 32 MiB that is no answer. Check llm_config.base_url."
            raise ProtocolError("unexpectedBody", message, origin="llm")

    def _interrupted(self) -> TransportError:
        when = "in the middle of its answer" if self._has_events else "before it said anything"
        message = f"{self._endpoint.host} closed the stream {when}. Try again."
        return TransportError("streamInterrupted", message, retryable=True, origin="llm")


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except (TimeoutError, TransportError):
        return  # the answer is whole; only the connection is lost
