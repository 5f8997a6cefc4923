"""What was said, found from the command line: for a person, or as lines of JSON. Needs no settings, only the store."""

import asyncio
import os
import sys
from datetime import UTC, datetime

import msgspec

from tinsmith.adapters.lsp.convert import wire_hit
from tinsmith.config.directories import find_directories
from tinsmith.domain.errors import AgentError
from tinsmith.services.conversations import search
from tinsmith.store import Hit, Hits, Store

_BOLD, _PLAIN = "\033[1m", "\033[0m"


def search_store(query: str, *, workspace: str | None, limit: int, is_json: bool) -> int:
    """Print the messages that hold the words of `query`, best first; 0 found, 1 none found or an error."""
    try:
        found = asyncio.run(_search(query, os.path.abspath(workspace) if workspace else None, limit))
    except AgentError as error:
        sys.stderr.write(f"tinsmith search: {error.message}\n")
        return 1
    for hit in found.hits:
        sys.stdout.write(_line(hit) if is_json else _shown(hit, is_bold=sys.stdout.isatty()))
    if found.unindexed:
        sys.stderr.write(f"tinsmith search: {found.unindexed} messages are still to be indexed and were left out.\n")
    return 0 if found.hits else 1


async def _search(query: str, workspace: str | None, limit: int) -> Hits:
    store = Store.open(find_directories(os.environ).store)
    try:
        return search(store, query, workspace, limit)
    finally:
        await store.close()


def _line(hit: Hit) -> str:
    return msgspec.json.encode(wire_hit(hit)).decode() + "\n"


def _shown(hit: Hit, *, is_bold: bool) -> str:
    """The conversation on one line, what was said below it."""
    day = datetime.fromtimestamp(hit.created_at / 1000, UTC).date().isoformat()
    pieces = ((_harmless(part.text), part.is_hit and is_bold) for part in hit.snippet)
    snippet = "".join(f"{_BOLD}{text}{_PLAIN}" if is_marked else text for text, is_marked in pieces)
    title = _harmless(hit.conversation.title or hit.conversation.workspace)
    return f"{hit.conversation.conversation_id}  {day}  {title}\n    {hit.kind}: {snippet}\n"


def _harmless(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
