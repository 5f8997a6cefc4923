"""What a dialect is: how one wire format is asked and read. Each is a value in a file of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tinsmith.domain.message import Answer, ModelDelta
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import DialectName, Effort
from tinsmith.llm.endpoint import Endpoint
from tinsmith.llm.profiles import DEFAULT, Profile


@dataclass(frozen=True, slots=True)
class Terms:
    """What shapes a request besides its content.

    `origin` marks what only this provider and model can read: an answer's sealed parts go back to nobody else.
    `load_image` gives the bytes of an image by its hash, None when they are not there.
    """

    profile: Profile
    origin: str = ""
    effort: Effort | None = None
    load_image: Callable[[str], bytes | None] = lambda _: None


class Splitter(Protocol):
    """Payloads from bytes as they come; feeding it in any pieces gives the same payloads."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completes. Raises ProtocolError `eventTooLarge`."""
        ...

    def close(self) -> list[bytes]:
        """The payload of a last event that nothing ended, if there is one."""
        ...


class Assembly(Protocol):
    """The state of one answer: payloads in, deltas as they come, one Answer at the end."""

    @property
    def is_done(self) -> bool:
        """Whether the last event has come; nothing after it counts."""
        ...

    @property
    def finish_reason(self) -> str:
        """Why the answer ended, empty until that is known. From then on the stream may break off without harm."""
        ...

    def take(self, payload: bytes, batch: list[ModelDelta]) -> bool:
        """Take an event in and append what it shows to `batch`. False when it was only a sign of life.

        Raises TransportError for what the provider reports, ProtocolError `badEvent`.
        """
        ...

    def take_whole(self, body: bytes, batch: list[ModelDelta]) -> bool:
        """Take in an answer that was not streamed. False when it is none. Raises as `take`."""
        ...

    def finish(self) -> Answer:
        """The whole answer."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire format. `title` is its name for people, `media_type` that of its streams.

    `path` and `models_path` go below `llm_config.base_url`. `assembly` takes the endpoint, what mints the id
    of each call, and the origin of sealed parts. `headers` make the key known. `profile` is assumed of servers that
    are not in the table.
    """

    name: DialectName
    title: str
    path: str
    models_path: str
    media_type: str
    headers: Callable[[str, str], Mapping[str, str]]
    encode: Callable[[ModelRequest, Terms], bytes]
    splitter: Callable[[], Splitter]
    assembly: Callable[[Endpoint, Callable[[], str], str], Assembly]
    profile: Profile = DEFAULT


def bearer(key: str, _host: str) -> Mapping[str, str]:
    """The key as most servers take it."""
    return {"authorization": f"Bearer {key}"} if key else {}
