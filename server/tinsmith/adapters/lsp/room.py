"""The door to the language features: pygls is imported off the loop, and what comes meanwhile waits in order."""

import asyncio
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinsmith.adapters.lsp.plain import PlainCommands
from tinsmith.adapters.lsp.router import Reply, Request
from tinsmith.runtime import Runtime

if TYPE_CHECKING:
    from tinsmith.adapters.lsp.language import LanguageFeatures

LANGUAGE_METHODS = ("workspace/executeCommand",)
"""What is served by the language features."""


class LanguageRoom:
    """Takes requests for the language features at any time; serves them once these are loaded."""

    def __init__(self, runtime: Runtime, opening: dict[str, Any], commands: PlainCommands) -> None:
        self._runtime = runtime
        self._opening = opening
        self._commands = commands
        self._features: asyncio.Future[LanguageFeatures] = asyncio.get_running_loop().create_future()
        runtime.spawn(self._load(), "language features")

    @property
    def requests(self) -> dict[str, Request]:
        """The requests that are served here."""
        return {method: (dict[str, Any], partial(self._serve, method)) for method in LANGUAGE_METHODS}

    async def _serve(self, method: str, params: dict[str, Any]) -> Reply:
        features = await asyncio.shield(self._features)
        return Reply(await features.serve(method, params))

    async def _load(self) -> None:
        await self._runtime.off_loop(_import)
        from tinsmith.adapters.lsp.language import LanguageFeatures

        self._features.set_result(LanguageFeatures(self._opening, self._commands))


def _import() -> None:
    """The half second that pygls takes, off the loop."""
    import_module("tinsmith.adapters.lsp.language")
