"""The pygls server behind our own table: what an editor with no plug-in of ours gets. Imported when first needed.

It sees each request as one object, decoded by us, under an id of ours, and its answer comes back here; `initialize` is
replayed to it.
"""

import asyncio
import logging
from itertools import count
from typing import Any

from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from tinsmith import __version__
from tinsmith.adapters.lsp.plain import PlainCommands
from tinsmith.domain.errors import InternalError, SchemaError
from tinsmith.domain.ids import new_id

_log = logging.getLogger(__name__)


class _Protocol(LanguageServerProtocol):
    """pygls's protocol with nothing under it: an answer goes to whoever asked."""

    answers: dict[str, asyncio.Future[dict[str, Any]]]

    def _send_data(self, data: Any) -> None:
        message: dict[str, Any] = self._converter.unstructure(data)
        waiting = self.answers.get(message.get("id", ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


class _Server(LanguageServer):
    def report_server_error(self, error: Exception, source: Any) -> None:
        """No pop-up: pygls has written it into the log, and the request is answered."""


class LanguageFeatures:
    """The features of a plain client. Made once, after its import off the loop; used on the loop."""

    def __init__(self, initialize_params: dict[str, Any], commands: PlainCommands) -> None:
        self._server = _Server("tinsmith", __version__, protocol_cls=_Protocol)
        self._protocol: Any = self._server.protocol
        self._protocol.answers = {}
        self._numbers = count(1)
        _register(self._server, commands)
        try:
            self._hand_over("initialize", initialize_params, "opening")
        except SchemaError:
            _log.warning("what the client said in initialize does not fit; its capabilities count as none")
            self._hand_over("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, "opening")

    async def serve(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request. Raises SchemaError for parameters of another shape, InternalError for a bug."""
        number = f"tinsmith-{next(self._numbers)}"
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._protocol.answers[number] = answer
        try:
            self._hand_over(method, params, number)
            message = await answer
        finally:
            del self._protocol.answers[number]
        error = message.get("error")
        if error is None:
            return message["result"]
        if error["code"] == JsonRpcInvalidParams.CODE:
            raise _invalid(f"they do not fit {params.get('command', method)!r}")
        error_id = new_id("e")
        _log.error("%s failed, error %s: %s", method, error_id, error["message"])
        raise InternalError(
            "internal",
            f"An internal error occurred (error {error_id} in the log). Try again.",
            data={"errorId": error_id},
        )

    def _hand_over(self, method: str, params: dict[str, Any], number: str) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            typed = self._protocol.structure_message(message)
        except JsonRpcException as error:
            raise _invalid(f"they do not fit {method}") from error
        self._protocol.handle_message(typed)


def _invalid(what: str) -> SchemaError:
    return SchemaError("invalidParams", f"Invalid parameters: {what}.", data={"path": ""})


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
