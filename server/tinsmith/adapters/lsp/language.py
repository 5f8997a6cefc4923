"""The pygls server behind our own table: what an editor with no plug-in of ours gets. Imported when first needed.

It sees each message as one object, decoded by us, and writes through our transport; `initialize` is replayed to it.
"""

import logging
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from tinsmith import __version__
from tinsmith.adapters.lsp.plain import PlainCommands

_log = logging.getLogger(__name__)

REPLAYED = "tinsmith-initialize"
"""The id under which `initialize` is replayed; its answer goes nowhere, the client has one already."""

Send = Callable[[Any], None]


class _Protocol(LanguageServerProtocol):
    """pygls's protocol with our transport under it."""

    send: Send

    def _send_data(self, data: Any) -> None:
        message: dict[str, Any] = self._converter.unstructure(data)
        if message.get("id") != REPLAYED:
            self.send(message)


class _Server(LanguageServer):
    def report_server_error(self, error: Exception, source: Any) -> None:
        _log.error("a language feature failed: %s", type(source).__name__, exc_info=error)


class LanguageFeatures:
    """The features of a plain client. Made once, off the loop; used on it."""

    def __init__(self, send: Send, initialize_params: dict[str, Any], commands: PlainCommands) -> None:
        self._server = _Server("tinsmith", __version__, protocol_cls=_Protocol)
        self._protocol: Any = self._server.protocol
        self._protocol.send = send
        _register(self._server, commands)
        self.take({"jsonrpc": "2.0", "id": REPLAYED, "method": "initialize", "params": initialize_params})

    @property
    def methods(self) -> frozenset[str]:
        """The methods that are served here."""
        return frozenset({types.WORKSPACE_EXECUTE_COMMAND})

    def take(self, message: dict[str, Any]) -> None:
        """Handle one message; its answer leaves by itself. Raises ValueError for parameters of another shape."""
        try:
            typed = self._protocol.structure_message(message)
        except JsonRpcException as error:
            raise ValueError(f"the parameters do not fit {message.get('method')}") from error
        self._protocol.handle_message(typed)


def _register(server: LanguageServer, commands: PlainCommands) -> None:
    @server.command("tinsmith.ask")
    async def ask(_: LanguageServer, text: str = "") -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return await commands.ask(text)

    @server.command("tinsmith.cancel")
    async def cancel(_: LanguageServer) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return commands.cancel()

    @server.command("tinsmith.new")
    async def new(_: LanguageServer) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return await commands.new()
