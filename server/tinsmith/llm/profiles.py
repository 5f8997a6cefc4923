"""What servers of one dialect differ in: one row a server, found by its host."""

from typing import Literal
from urllib.parse import urlsplit

import msgspec


class Profile(msgspec.Struct, frozen=True):
    """The switches of one server.

    `empty_content` is the content of an assistant message that has calls and no text.
    `limit_field` is the name of the limit of output tokens. `asks_usage` sends
    `stream_options`, without which most servers count no tokens of a stream.
    """

    empty_content: Literal[""] | None = None
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    asks_usage: bool = True


DEFAULT = Profile()

_BY_HOST: dict[str, Profile] = {
    "api.openai.com": Profile(limit_field="max_completion_tokens"),  # its reasoning models refuse max_tokens
}


def profile_for(base_url: str) -> Profile:
    """The profile of the server at `base_url`."""
    return _BY_HOST.get(urlsplit(base_url).hostname or "", DEFAULT)
