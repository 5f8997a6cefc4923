"""Stored conversations from the command line: out as Markdown or JSON Lines, and in again."""

import asyncio
import os
import sys
from collections.abc import Callable

from tinsmith.domain.errors import AgentError
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.runtime import open_runtime

USAGE_ERROR = 2
_USAGE_CODES = frozenset({"conversationNotFound", "invalidImport"})


def export_conversation(conversation_id: str, form: str) -> int:
    """Write the conversation to standard output; 0, 1 for an error, 2 when there is none of this id."""
    return _reported("export", lambda: asyncio.run(_export(conversation_id, form)))


def import_conversation(path: str, workspace: str) -> int:
    """Store the conversation of a file (`-`: standard input) and write its id; 0, 1 for an error, 2 for a bad file."""
    try:
        if path == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"tinsmith import: {path} cannot be read ({error}).\n")
        return USAGE_ERROR
    return _reported("import", lambda: asyncio.run(_import(text, os.path.abspath(workspace))))


def _reported(command: str, work: Callable[[], str]) -> int:
    try:
        text = work()
    except AgentError as error:
        sys.stderr.write(f"tinsmith {command}: {error.message}\n")
        return USAGE_ERROR if error.code in _USAGE_CODES else 1
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # a reader that has enough is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


async def _export(conversation_id: str, form: str) -> str:
    async with open_runtime(documents=NoDocuments(), prompter=NoPrompter()) as runtime:
        return runtime.transcripts.export(conversation_id, form)


async def _import(text: str, workspace: str) -> str:
    async with open_runtime(documents=NoDocuments(), prompter=NoPrompter()) as runtime:
        return (await runtime.transcripts.receive(text, workspace)).conversation_id + "\n"
