"""Sorts what comes in (answers, notifications, requests) and sees that every request is answered exactly once.

Frames are taken in the order they came: notifications at once, requests as tasks. An answer that introduces an id is
sent before any event that uses it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET, Raw

from tinsmith.adapters.lsp import wire
from tinsmith.adapters.lsp.errors import REQUEST_CANCELLED, failure, method_not_found
from tinsmith.adapters.lsp.messages import RequestId, id_of, read_message, read_params
from tinsmith.adapters.lsp.transport import Transport, encode
from tinsmith.domain.errors import AgentError, InternalError, ProtocolError, SchemaError
from tinsmith.domain.ids import new_id
from tinsmith.runtime import Runtime

_log = logging.getLogger(__name__)

STOP_TIMEOUT = 2.5
"""Seconds that running turns have to end when the editor goes away."""
DRAIN_TIMEOUT = 0.5
"""Seconds that the requests before a goodbye have to be answered, once every turn has ended."""


class Reply(NamedTuple):
    """A result, and what happens right after it was sent."""

    result: Any
    after: Callable[[], None] | None = None


Request = tuple[type[Any], Callable[[Any], Awaitable[Reply]]]
Notification = tuple[type[Any], Callable[[Any], None]]


class Router:
    """The life of a session: open, shut down, ended."""

    def __init__(self, end: Callable[[int], None]) -> None:
        self._end = end
        self._is_shut_down = False
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._runtime: Runtime
        self._transport: Transport
        self._requests: Mapping[str, Request] = {}
        self._notifications: Mapping[str, Notification] = {}
        self._barred: AgentError | None = None

    def open(
        self,
        runtime: Runtime,
        transport: Transport,
        requests: Mapping[str, Request],
        notifications: Mapping[str, Notification],
    ) -> None:
        """From now on messages can be served."""
        self._runtime, self._transport = runtime, transport
        self._requests, self._notifications = requests, notifications

    def bar(self, reason: AgentError, transport: Transport) -> None:
        """Nothing can be served in this session: every request but `shutdown` is answered with the reason."""
        self._barred, self._transport = reason, transport

    def closed(self, reason: str) -> None:
        """The other end is gone."""
        _log.info("closing: %s", reason)
        self._end(0 if self._is_shut_down else 1)

    async def close(self) -> None:
        """End every turn and answer what was asked before; what comes from now on is refused."""
        await self._runtime.turns.stop_all(STOP_TIMEOUT)
        self._transport.fail_requests()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=DRAIN_TIMEOUT)
        self._is_shut_down, self._notifications = True, {}

    def receive(self, body: bytes) -> None:
        """Take one message."""
        try:
            message = read_message(body)
        except ProtocolError as error:
            self._transport.send(failure(id_of(body), error))
            return
        request_id = None if message.id is UNSET else message.id
        if message.method is None:
            if message.result or message.error or self._transport.awaits(request_id):
                self._transport.settle(message)
            else:
                self._refuse(request_id, "invalidRequest", "A message needs a method, or an id with a result.")
        elif request_id is not None:
            self._requested(request_id, message.method, message.params)
        elif message.id is None and message.method in self._requests:
            self._refuse(None, "invalidRequest", "The id of a request is a number or a string, not null.")
        else:
            self._notified(message.method, message.params)

    def _refuse(self, request_id: RequestId | None, code: str, text: str) -> None:
        self._transport.send(failure(request_id, ProtocolError(code, text)))

    def _notified(self, method: str, params: Raw) -> None:
        if method == "exit":
            self._end(0 if self._is_shut_down else 1)
            return
        known = (wire.CancelRequestParams, self._cancel) if method == "$/cancelRequest" else None
        known = known or self._notifications.get(method)
        if known is None:
            return
        shape, take = known
        try:
            take(read_params(params, shape))
        except SchemaError as error:
            _log.warning("notification %s was left out: %s", method, error.message)

    def _cancel(self, params: wire.CancelRequestParams) -> None:
        task = self._running.get(params.id)
        if task is not None:
            task.cancel()

    def _requested(self, request_id: RequestId, method: str, params: Raw) -> None:
        if self._is_shut_down:
            self._refuse(request_id, "shutdown", "The server was shut down. Only `exit` may follow.")
        elif method == "initialize":
            self._refuse(request_id, "alreadyInitialized", "The server is initialized already.")
        elif self._barred is not None:
            self._is_shut_down = method == "shutdown"
            answer = {"jsonrpc": "2.0", "id": request_id, "result": None}
            self._transport.send(answer if self._is_shut_down else failure(request_id, self._barred))
        elif request_id in self._running:
            self._refuse(request_id, "duplicateId", f"A request with the id {request_id!r} is still being served.")
        else:
            self._is_shut_down = method == "shutdown"
            task = self._runtime.spawn(self._answer(request_id, method, params), method)
            self._running[request_id] = task
            task.add_done_callback(lambda ended: self._ended(request_id, ended))

    def _ended(self, request_id: RequestId, task: asyncio.Task[None]) -> None:
        """A request that was cancelled, maybe before it began, is answered all the same."""
        del self._running[request_id]
        if task.cancelled():
            self._transport.send(failure(request_id, REQUEST_CANCELLED))

    async def _answer(self, request_id: RequestId, method: str, params: Raw) -> None:
        """Serve one request; exactly one answer leaves, whatever happens (a cancelled one is answered by `_ended`)."""
        after: Callable[[], None] | None = None
        try:
            reply = await self._serve(method, params)
            body = encode({"jsonrpc": "2.0", "id": request_id, "result": reply.result})
            after = reply.after
        except AgentError as error:
            body = encode(failure(request_id, error))
        except Exception:  # noqa: BLE001  the boundary of a request
            error_id = new_id("e")
            _log.exception("request %s failed, error %s", method, error_id)
            text = f"An internal error occurred (error {error_id} in the log). Try again."
            body = encode(failure(request_id, InternalError("internal", text, data={"errorId": error_id})))
        self._transport.send_body(body)
        if after is not None:
            after()

    async def _serve(self, method: str, params: Raw) -> Reply:
        if method == "shutdown":
            await self._runtime.turns.stop_all(STOP_TIMEOUT)
            return Reply(None)
        known = self._requests.get(method)
        if known is None:
            raise method_not_found(method)
        shape, answer = known
        return await answer(read_params(params, shape))
