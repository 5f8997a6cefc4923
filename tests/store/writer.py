"""A process that appends messages to one conversation and prints the id of each once it is stored.

Arguments: directory, conversation, how many, characters of each text, bytes of the first map.
"""

import asyncio
import hashlib
import os
import sys

from tinsmith.domain.message import TextPart, UserMessage
from tinsmith.store import Note, Session, Store


def checked_text(conversation_id: str, ordinal: str, size: int) -> str:
    """A text of about `size` characters that only this message can have."""
    digest = hashlib.sha256(f"{conversation_id} {ordinal}".encode()).hexdigest()
    return digest + "x" * (size - len(digest))


async def main(directory: str, conversation_id: str, count: int, size: int, map_size: int) -> None:
    store = Store.open(directory, map_size=map_size)

    def append(session: Session) -> str:
        ordinal = session.messages.next_id(conversation_id)
        text = checked_text(conversation_id, ordinal, size)
        session.notes.put(conversation_id, Note(ordinal, text, 0))
        session.messages.append(conversation_id, UserMessage("", "t", (TextPart(text),)))
        return ordinal

    for _ in range(count):
        ordinal = await store.write(append)
        os.write(1, f"{ordinal}\n".encode())
    await store.close()


if __name__ == "__main__":
    path, conversation, *numbers = sys.argv[1:]
    asyncio.run(main(path, conversation, *map(int, numbers)))
