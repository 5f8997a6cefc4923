"""Identifiers: what they look like and how they are made."""

import os
import re
import time

ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What an id that a client makes must look like (and ours do): it is one segment of a store key."""


def new_id(prefix: str) -> str:
    """A fresh id such as `t_0199b1c2d3e4f5a6b7c8`: 12 hex digits of milliseconds, then 8 random ones."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(4).hex()}"


def message_id(ordinal: int) -> str:
    """The id of the `ordinal`-th message of a conversation; ids sort in the order of the transcript."""
    return f"m{ordinal:08d}"


def message_ordinal(identifier: str) -> int:
    """The inverse of `message_id`. Raises ValueError for anything else."""
    if not identifier.startswith("m"):
        raise ValueError(f"not a message id: {identifier!r}")
    return int(identifier[1:])


def is_valid_id(text: str) -> bool:
    """Whether `text` may be used as an id on the wire and in a store key."""
    return ID_PATTERN.fullmatch(text) is not None


def now_ms() -> int:
    """Wall-clock time in milliseconds since the epoch, the unit of every stored and sent time."""
    return time.time_ns() // 1_000_000
