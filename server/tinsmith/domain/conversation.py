"""A conversation as it is stored."""

import msgspec

from tinsmith.domain.message import Usage
from tinsmith.domain.turn import WindowEdges


class Rewind(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rewind that can be taken back: the messages with the ordinals `first` to `last` left the live line.

    `edges` and `context_used` are what the conversation had before it.
    """

    first: int
    last: int
    edges: WindowEdges = WindowEdges()
    context_used: int = 0


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Settings and head of a durable transcript.

    `role` and `model` override the configuration when set; times in milliseconds. `parent` is the conversation that
    this one was forked from. The live line of the transcript is every message that no rewind covers: those that come
    after a rewind hang on the last message before it, so that the messages form a tree. Ordinals below
    `ordinals_used` name no new message. `revision` counts the changes of what was there already.
    """

    conversation_id: str
    workspace: str
    created_at: int
    updated_at: int
    title: str = ""
    role: str = ""
    model: str = ""
    parent: str = ""
    is_archived: bool = False
    usage: Usage = Usage()
    context_used: int = 0
    edges: WindowEdges = WindowEdges()
    rewinds: tuple[Rewind, ...] = ()
    ordinals_used: int = 0
    revision: int = 0
