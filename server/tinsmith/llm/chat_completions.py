"""The Chat Completions dialect: one request, its answer as it streams. No retries."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import msgspec

from tinsmith.domain.errors import TransportError
from tinsmith.domain.message import ModelDelta
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm import errors
from tinsmith.llm.assemble import Assembly
from tinsmith.llm.chat_answer import AnswerReader
from tinsmith.llm.chat_request import encode_request
from tinsmith.llm.endpoint import Endpoint, resolve
from tinsmith.llm.history import check_history
from tinsmith.llm.profiles import Profile, profile_for
from tinsmith.llm.stall import StallClock
from tinsmith.net.http import Deadlines, HttpClient, HttpResponse

_REFUSAL_LIMIT = 64 * 1024
_REFUSAL_SECONDS = 10.0


class ChatCompletions:
    """A `ports.Model`. `api_key` looks up the environment variable it is given, `mint` makes the ids of calls.

    Remembers for its lifetime which servers refuse `stream_options`.
    """

    def __init__(
        self,
        http: HttpClient,
        api_key: Callable[[str], str | None],
        mint: Callable[[], str],
        profile: Callable[[str], Profile] = profile_for,
    ) -> None:
        self._http = http
        self._api_key = api_key
        self._mint = mint
        self._find_profile = profile
        self._refuse_stream_options: set[str] = set()

    async def stream(self, request: ModelRequest, settings: LlmSettings) -> AsyncGenerator[Sequence[ModelDelta]]:
        """As ports.Model; an answer that is not streamed comes in one batch."""
        check_history(request.messages)
        endpoint = resolve(settings, self._api_key, "/chat/completions")
        deadline = asyncio.get_running_loop().time() + settings.timeout
        async with self._open(request, settings, endpoint) as response:
            clock, late = _clock(request, settings, endpoint, deadline)
            reader = AnswerReader(response, endpoint, Assembly(self._mint), clock, late)
            async with aclosing(reader.batches()) as batches:
                async for batch in batches:
                    yield batch

    @asynccontextmanager
    async def _open(
        self, request: ModelRequest, settings: LlmSettings, endpoint: Endpoint
    ) -> AsyncGenerator[HttpResponse]:
        """A response with a status that promises an answer. Raises what any other status means."""
        while True:
            profile = self._profile(endpoint)
            async with self._post(request, settings, endpoint, profile) as response:
                if 200 <= response.status < 300:
                    yield response
                    return
                body = await _read_refusal(response)
            if not self._learn(response.status, body, endpoint, profile):
                raise errors.from_response(response.status, response.headers, body, endpoint, time.time())

    def _profile(self, endpoint: Endpoint) -> Profile:
        profile = self._find_profile(endpoint.url)
        if endpoint.url in self._refuse_stream_options:
            return msgspec.structs.replace(profile, asks_usage=False)
        return profile

    def _learn(self, status: int, body: bytes, endpoint: Endpoint, profile: Profile) -> bool:
        """Whether the refusal was about `stream_options`, so that the request is worth making once more without."""
        is_about_it = status in {400, 422} and (b"stream_options" in body or b"include_usage" in body)
        if not (is_about_it and profile.asks_usage):
            return False
        self._refuse_stream_options.add(endpoint.url)
        return True

    def _post(
        self, request: ModelRequest, settings: LlmSettings, endpoint: Endpoint, profile: Profile
    ) -> AbstractAsyncContextManager[HttpResponse]:
        head = settings.connect_timeout if request.is_streamed else settings.timeout
        return self._http.stream(
            "POST",
            endpoint.url,
            headers={**endpoint.headers, "accept": "text/event-stream" if request.is_streamed else "application/json"},
            body=encode_request(request, profile),
            deadlines=Deadlines(settings.connect_timeout, settings.send_timeout, head),
            advice=endpoint.advice,
        )


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
