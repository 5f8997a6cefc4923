"""The door to the language features: pygls is imported off the loop, and what comes meanwhile waits in order."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinsmith.adapters.lsp.errors import error_body
from tinsmith.adapters.lsp.plain import PlainCommands
from tinsmith.adapters.lsp.transport import Transport
from tinsmith.runtime import Runtime

if TYPE_CHECKING:
    from tinsmith.adapters.lsp.language import LanguageFeatures

LANGUAGE_METHODS = frozenset({"workspace/executeCommand"})
"""What is served by the language features."""


class LanguageRoom:
    """Takes messages for the language features at any time; serves them once these are loaded."""

    def __init__(self, runtime: Runtime, transport: Transport, opening: dict[str, Any], workspace: str) -> None:
        self._transport = transport
        self._opening = opening
        self._commands = PlainCommands(runtime, workspace, transport)
        self._waiting: list[dict[str, Any]] = []
        self._features: LanguageFeatures | None = None
        runtime.spawn(self._load(runtime.off_loop), "language features")

    def take(self, message: dict[str, Any]) -> None:
        """Serve one request, now or when everything is loaded."""
        if self._features is None:
            self._waiting.append(message)
            return
        try:
            self._features.take(message)
        except ValueError as error:
            self._transport.send(error_body(message["id"], -32602, "schema", "invalidParams", f"{error}."))

    async def _load(self, off_loop: Callable[[Callable[[], Any]], Any]) -> None:
        await off_loop(_import)
        from tinsmith.adapters.lsp.language import LanguageFeatures

        self._features = LanguageFeatures(self._transport.send, self._opening, self._commands)
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self.take(message)


def _import() -> None:
    """The half second that pygls takes, off the loop."""
    import_module("tinsmith.adapters.lsp.language")
