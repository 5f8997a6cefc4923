"""Reading one answer from an open response, whatever form it comes in."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, closing

from tinsmith.domain.errors import AgentError, ProtocolError, TransportError
from tinsmith.domain.message import Answer, ModelDelta
from tinsmith.llm import errors
from tinsmith.llm.dialect import Assembly, Dialect
from tinsmith.llm.endpoint import Endpoint
from tinsmith.llm.recognition import name_dialect
from tinsmith.llm.stall import StallClock
from tinsmith.net.http import HttpResponse

_BODY_LIMIT = 32 * 1024 * 1024
_DRAIN_SECONDS = 0.25
"""How long the end of the response may take after the last event; longer costs the connection, not the answer."""
_REFUSED = frozenset({"content_filter", "refusal"})


class AnswerReader:
    """The state of one read. A stream, a whole answer and a page of HTML are told apart by what comes.

    `clock` limits the time to the next event; `late` is raised when it rings.
    """

    def __init__(
        self,
        response: HttpResponse,
        endpoint: Endpoint,
        dialect: Dialect,
        assembly: Assembly,
        clock: StallClock,
        late: TransportError,
    ) -> None:
        self._response = response
        self._endpoint = endpoint
        self._dialect = dialect
        self._assembly = assembly
        self._clock = clock
        self._late = late
        self._has_events = False
        self._before_events: list[bytes] = []
        self._kept = 0

    async def batches(self) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Deltas, one batch a read that shows something; the Answer comes last. The response is read to its end.

        Raises TransportError (`streamInterrupted`, `refused`, `late`, or what the provider reports), ProtocolError
        (`badEvent`, `unexpectedBody`, `wrongDialect`, `eventTooLarge`).
        """
        splitter = self._dialect.splitter()
        with closing(self._clock):
            async with aclosing(self._response.chunks()) as chunks:
                is_open = True
                while is_open and not self._assembly.is_done:
                    chunk = await self._next(chunks)
                    is_open = chunk is not None
                    batch: list[ModelDelta] = []
                    failure = self._take(splitter.feed(chunk) if chunk is not None else splitter.close(), batch)
                    if isinstance(failure, ProtocolError) and not is_open:  # the half of an event
                        failure = None if self._assembly.finish_reason else self._interrupted()
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
        try:
            for payload in payloads:
                text = payload.strip()
                if not text or text.startswith(b":"):  # the latter: a heartbeat that a gateway wrapped into an event
                    continue
                has_event |= self._add(text, batch)
                if self._assembly.is_done:
                    break
        except AgentError as failure:
            return failure
        if has_event:
            self._has_events = True
            self._before_events.clear()
            self._clock.restart()
        return None

    def _add(self, text: bytes, batch: list[ModelDelta]) -> bool:
        """Take one payload in. What is no event may be part of a page, if the body does not claim to be a stream."""
        is_event = False
        try:
            is_event = self._assembly.take(text, batch)
        except ProtocolError:
            if self._has_events:
                raise
            self._check_dialect(text)
            if self._content_type.startswith(self._dialect.media_type):
                raise
        if not is_event and not self._has_events:
            self._check_dialect(text)
        return is_event

    @property
    def _content_type(self) -> str:
        return self._response.headers.get("content-type", "")

    def _check_dialect(self, text: bytes) -> None:
        spoken = name_dialect(text)
        if spoken is not None and spoken != self._dialect.name:
            raise errors.wrong_dialect(text, self._endpoint, self._dialect.title, spoken)

    def _finish(self) -> Sequence[ModelDelta]:
        if self._assembly.is_done or self._assembly.finish_reason:
            return [self._checked()]
        body = b"".join(self._before_events).strip()
        if not self._has_events and body:
            self._check_dialect(body)
        if self._has_events or not body or self._content_type.startswith(self._dialect.media_type):
            raise self._interrupted()
        return self._read_whole(body)

    def _read_whole(self, body: bytes) -> Sequence[ModelDelta]:
        """An answer that came whole, although a stream was asked for or because none was."""
        batch: list[ModelDelta] = []
        unexpected = errors.unexpected_body(self._response.status, self._content_type, body, self._endpoint)
        try:
            is_answer = self._assembly.take_whole(body, batch)
        except ProtocolError as error:
            raise unexpected from error
        if not is_answer:
            raise unexpected
        return [*batch, self._checked()]

    def _checked(self) -> Answer:
        answer = self._assembly.finish()
        if answer.is_empty and answer.finish_reason in _REFUSED:
            message = f"The model or a filter of {self._endpoint.host} refused to answer. Say it in another way."
            raise TransportError("refused", message, origin="llm")
        return answer

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
