"""Which images of a history still go along: no more than providers take. Pure; the edge moves in steps.

Whatever is sent once is sent with every later request, so the images of a long conversation add up.
"""

from collections.abc import Sequence

import msgspec

from tinsmith.domain.message import ImagePart, Message, Part, TextPart, UserMessage

MOST_IMAGES = 20
"""Of a request. With more of them Anthropic refuses what is larger than 2,000 pixels a side ("Images and vision")."""
MOST_BYTES = 15 * 1024 * 1024
"""Of all images of a request; in base64 a third larger. Anthropic takes requests of 32 MB ("Request size limits")."""


def with_newest_images(messages: Sequence[Message]) -> Sequence[Message]:
    """The history with the oldest images told in words once there are too many, until half of what may be is left.

    The images of one message go together; what a message leaves out stays out for all that follow.
    """
    edge = _edge(messages)
    return _told(messages, edge) if edge else messages


def _edge(messages: Sequence[Message]) -> int:
    """How many images are left out, the oldest first."""
    images: list[ImagePart] = []
    edge = 0
    for message in messages:
        first = len(images)
        images += message.images if isinstance(message, UserMessage) else ()
        if len(images) > first and _is_over(images[edge:], MOST_IMAGES, MOST_BYTES):
            while edge < first and _is_over(images[edge:], MOST_IMAGES // 2, MOST_BYTES // 2):
                edge += 1
    return edge


def _is_over(images: Sequence[ImagePart], most_images: int, most_bytes: int) -> bool:
    return len(images) > most_images or sum(image.size for image in images) > most_bytes


def _told(messages: Sequence[Message], edge: int) -> list[Message]:
    told: list[Message] = []
    for message in messages:
        count = min(edge, len(message.images)) if isinstance(message, UserMessage) else 0
        edge -= count
        told.append(_without(message, count) if count and isinstance(message, UserMessage) else message)
    return told


def _without(message: UserMessage, count: int) -> UserMessage:
    parts: list[Part] = []
    for part in message.parts:
        is_told = isinstance(part, ImagePart) and count > 0
        count -= is_told
        parts.append(TextPart(f"{part} (left out: newer images took its place)") if is_told else part)
    return msgspec.structs.replace(message, parts=tuple(parts))
