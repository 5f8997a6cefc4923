"""What comes from the web: data, never instructions."""

from typing import Literal

import msgspec

Cut = Literal["", "size", "time", "broken"]
"""Why a body is not whole: too large, too slow, broken off; empty when it is."""


class Fetched(msgspec.Struct, frozen=True):
    """A page as it came. `content_type` is the header, possibly empty; `body` has its content-encoding undone."""

    url: str
    status: int
    content_type: str
    body: bytes
    cut: Cut = ""


class Hit(msgspec.Struct, frozen=True):
    """One result of a search."""

    title: str
    url: str
    text: str


class Found(msgspec.Struct, frozen=True):
    """What a search gave, best first; `answer` is the back end's own summary, when it makes one."""

    hits: tuple[Hit, ...]
    answer: str = ""
