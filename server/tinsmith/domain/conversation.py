"""A conversation as it is stored."""

import msgspec

from tinsmith.domain.message import Usage
from tinsmith.domain.turn import WindowEdges


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Settings and head of a durable transcript.

    `role` and `model` override the configuration when set; times in milliseconds.
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
