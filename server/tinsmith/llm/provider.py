"""A model behind a provider: one request in the dialect that is configured, its answer as it comes. No retries."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import msgspec

from tinsmith.domain.errors import TransportError
from tinsmith.domain.message import Answer, ModelDelta
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import LlmSettings, SwitchSettings
from tinsmith.llm import errors
from tinsmith.llm.answer import AnswerReader
from tinsmith.llm.dialect import Dialect, Terms
from tinsmith.llm.dialects import dialect_of
from tinsmith.llm.endpoint import Endpoint, FindCredentials, resolve
from tinsmith.llm.history import check_history
from tinsmith.llm.lessons import learn
from tinsmith.llm.profiles import Profile, profile_for
from tinsmith.llm.remarks import remark_on_images, remark_on_truncation
from tinsmith.llm.stall import StallClock
from tinsmith.net.http import Deadlines, HttpClient, HttpResponse

_REFUSAL_LIMIT = 64 * 1024
_REFUSAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Asking:
    """One request and whom it goes to."""

    request: ModelRequest
    settings: LlmSettings
    dialect: Dialect
    endpoint: Endpoint

    @property
    def origin(self) -> str:
        """What marks the sealed parts of its answer."""
        return f"{self.dialect.name} {self.endpoint.host} {self.endpoint.model}"

    @property
    def learner(self) -> tuple[str, str, SwitchSettings]:
        """What a lesson is kept for: one model behind one address, as the user has switched it."""
        return self.endpoint.url, self.endpoint.model, self.settings.switches


class Provider:
    """A `ports.Model`. `credentials` finds what makes us known to a provider, `mint` makes the ids of calls.

    `load_image` gives the bytes of an image by its hash. Remembers for its lifetime what each server refused.
    """

    def __init__(
        self,
        http: HttpClient,
        credentials: FindCredentials,
        mint: Callable[[], str],
        load_image: Callable[[str], bytes | None] = lambda _: None,
    ) -> None:
        self._http = http
        self._credentials = credentials
        self._mint = mint
        self._load_image = load_image
        self._learned: dict[tuple[str, str, SwitchSettings], Profile] = {}

    async def stream(self, request: ModelRequest, settings: LlmSettings) -> AsyncGenerator[Sequence[ModelDelta]]:
        """As ports.Model; an answer that is not streamed comes in one batch."""
        check_history(request.messages)
        dialect = dialect_of(settings)
        credentials = await self._credentials(settings)
        endpoint = resolve(settings, credentials, dialect.path, dialect.headers, request.model.model)
        asking = _Asking(request, settings, dialect, endpoint)
        deadline = asyncio.get_running_loop().time() + settings.timeout
        async with self._open(asking) as response:
            clock, late = _clock(request, settings, endpoint, deadline)
            assembly = dialect.assembly(endpoint, self._mint, asking.origin)
            reader = AnswerReader(response, endpoint, dialect, assembly, clock, late)
            async with aclosing(reader.batches()) as batches:
                async for batch in batches:
                    yield self._remarked(batch, asking)

    @asynccontextmanager
    async def _open(self, asking: _Asking) -> AsyncGenerator[HttpResponse]:
        """A response with a status that promises an answer. Raises what any other status means.

        A refusal of something that the request does as well without is learned from, and the request made again.
        """
        body = self._encode(asking)
        while True:
            async with self._post(asking, body) as response:
                if 200 <= response.status < 300:
                    yield response
                    return
                refusal = await _read_refusal(response)
            refused = body
            better = learn(response.status, refusal, refused, self._profile(asking))
            if better is not None:
                self._learned[asking.learner] = better
                body = self._encode(asking)
            if body == refused:
                raise errors.from_response(response.status, response.headers, refusal, asking.endpoint, time.time())

    def _encode(self, asking: _Asking) -> bytes:
        terms = Terms(self._profile(asking), asking.origin, asking.settings.reasoning_effort)
        if self._sees_images(asking):
            terms = replace(terms, load_image=self._load_image)
        return asking.dialect.encode(asking.request, terms)

    def _sees_images(self, asking: _Asking) -> bool:
        """Whether the model takes images, as far as anybody has said."""
        return asking.request.model.sees_images is not False and self._profile(asking).sees_images

    def _profile(self, asking: _Asking) -> Profile:
        learned = self._learned.get(asking.learner)
        return learned or profile_for(asking.endpoint.url, asking.settings.switches, asking.dialect.profile)

    def _post(self, asking: _Asking, body: bytes) -> AbstractAsyncContextManager[HttpResponse]:
        settings, endpoint, is_streamed = asking.settings, asking.endpoint, asking.request.is_streamed
        head = settings.connect_timeout if is_streamed else settings.timeout
        return self._http.stream(
            "POST",
            endpoint.url,
            headers={**endpoint.headers, "accept": asking.dialect.media_type if is_streamed else "application/json"},
            body=body,
            deadlines=Deadlines(settings.connect_timeout, settings.send_timeout, head),
            advice=endpoint.advice,
        )

    def _remarked(self, batch: Sequence[ModelDelta], asking: _Asking) -> Sequence[ModelDelta]:
        """The batch; an Answer in it says what its provider kept to itself."""
        *before, last = batch
        if not isinstance(last, Answer):
            return batch
        found = (
            self._profile(asking).truncates_silently
            and remark_on_truncation(asking.request, last.usage, asking.endpoint.host),
            not self._sees_images(asking) and remark_on_images(asking.request),
        )
        remarks = tuple(remark for remark in found if remark)
        return [*before, msgspec.structs.replace(last, remarks=remarks)] if remarks else batch


def _clock(
    request: ModelRequest, settings: LlmSettings, endpoint: Endpoint, deadline: float
) -> tuple[StallClock, TransportError]:
    """The limit of an open response, and what to raise when it is over: for each event, or for a whole answer."""
    if request.is_streamed:
        code, name, seconds = "streamStalled", "stream_stall_timeout", settings.stream_stall_timeout
        clock, what = StallClock(seconds), "sent nothing more of its answer for"
    else:
        code, name, seconds = "timeout", "timeout", settings.timeout
        clock, what = StallClock(deadline - asyncio.get_running_loop().time()), "did not send its whole answer within"
    message = f"{endpoint.host} {what} {seconds:g} s. Try again, or raise llm_config.{name}."
    return clock, TransportError(code, message, retryable=True, origin="llm")


async def _read_refusal(response: HttpResponse) -> bytes:
    """The body of a refusal; one that is slow or breaks off is worth no trouble, its status says enough."""
    try:
        async with asyncio.timeout(_REFUSAL_SECONDS):
            return await response.read(_REFUSAL_LIMIT)
    except (TimeoutError, TransportError):
        return b""
