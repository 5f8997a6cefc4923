"""What the commands of a plain client do: ask, cancel, new. The answer is shown as a Markdown file and a message."""

import os

import msgspec

from tinsmith.adapters.lsp import wire
from tinsmith.adapters.lsp.transport import RequestError, Transport
from tinsmith.domain.errors import AgentError
from tinsmith.domain.event import Event, TurnCompleted, TurnFailed
from tinsmith.domain.message import AssistantMessage, Message, TextPart, ToolMessage, UserMessage
from tinsmith.runtime import Runtime
from tinsmith.services.turns import TurnStart
from tinsmith.workspace.paths import uri_of_path

SHOW_TIMEOUT = 10.0
"""Seconds an editor may take to show a document."""
_ERROR, _INFO = 1, 3


class PlainCommands:
    """Runs turns for a client that only knows commands."""

    def __init__(self, runtime: Runtime, workspace: str, transport: Transport) -> None:
        self._runtime = runtime
        self._workspace = workspace
        self._transport = transport
        runtime.journal.subscribe(self._follow)

    async def ask(self, text: str) -> dict[str, str]:
        """Start a turn in the workspace's conversation, or steer the one that runs. Says in a message why it cannot."""
        try:
            accepted = await self._runtime.turns.accept(
                TurnStart(self._workspace, (TextPart(text),), mode="steerOrStart")
            )
        except AgentError as error:
            self._show(_ERROR, error.message)
            return {"error": error.code}
        self._runtime.turns.begin(accepted.turn_id)
        return {"conversationId": accepted.conversation_id, "turnId": accepted.turn_id}

    def cancel(self) -> dict[str, str]:
        """Stop the turn that runs."""
        conversation_id = self._runtime.conversations.active(self._workspace)
        return {"state": self._runtime.turns.cancel(conversation_id, "", "") if conversation_id else "ended"}

    async def new(self) -> dict[str, str]:
        """Make a fresh conversation the workspace's own."""
        conversation = await self._runtime.conversations.new(self._workspace)
        await self._runtime.conversations.activate(conversation)
        return {"conversationId": conversation.conversation_id}

    def _follow(self, event: Event) -> None:
        if isinstance(event.body, TurnCompleted | TurnFailed):
            self._runtime.spawn(self._show_transcript(event.conversation_id, event.body), "show transcript")

    async def _show_transcript(self, conversation_id: str, end: TurnCompleted | TurnFailed) -> None:
        error = end.record.error
        self._show(_ERROR if error else _INFO, error.message if error else f"Tinsmith: {end.record.outcome}.")
        text = markdown(self._runtime.conversations.transcript(conversation_id))
        path = os.path.join(self._runtime.directories.cache, "transcripts", f"{conversation_id}.md")
        try:
            await self._runtime.off_loop(lambda: _write(path, text))
        except OSError as error:
            self._show(
                _ERROR, f"The transcript cannot be written to {path} ({error.strerror}). Free the way and ask again."
            )
            return
        try:
            await self._transport.request(
                "window/showDocument", {"uri": uri_of_path(path), "takeFocus": False}, wire.Shown, SHOW_TIMEOUT
            )
        except (RequestError, TimeoutError, msgspec.DecodeError):
            self._show(_INFO, f"The transcript is in {path}.")

    def _show(self, severity: int, text: str) -> None:
        self._transport.notify("window/showMessage", {"type": severity, "message": text})


def markdown(messages: tuple[Message, ...]) -> str:
    """A transcript as a person reads it. Pure."""
    blocks: list[str] = []
    for message in messages:
        match message:
            case UserMessage():
                blocks.append(f"## You\n\n{message.text}")
            case AssistantMessage():
                blocks.append(f"## Tinsmith\n\n{message.text}" if message.text else "## Tinsmith")
            case ToolMessage():
                first = message.content.split("\n", 1)[0]
                blocks.append(f"- {'✓' if message.ok else '✗'} `{message.name}` {first}")
    return "\n\n".join(blocks) + "\n"


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
