"""Reads the first frames and answers `initialize` from the standard library alone; imports nothing of ours before that.

Descriptor 1 is moved away first of all: whatever prints lands on stderr, never on the wire.
"""

import gc
import json
import os
import sys
from typing import Any, TypeGuard

VERSION = "0.1.0"
SCHEMA_HASH = "d8eb2674412e999d"
"""The first 16 hex digits of SHA-256 over the generated schema; a test pins it to wire.py."""

ENCODINGS = ("utf-8", "utf-16", "utf-32")
MAX_HEADER = 64 * 1024
MAX_DIGITS = 12
LIMITS = {"maxMessageBytes": 64 * 1024 * 1024, "replayEvents": 4096}
FEATURES: dict[str, Any] = {"steer": {}, "images": {}, "applyEdits": {}, "permissions": {}, "changes": {}}
COMMANDS = ["tinsmith.ask", "tinsmith.cancel", "tinsmith.new"]


def serve() -> int:
    """Run the language server on this process's stdin and stdout; the exit code, by LSP's rule."""
    wire_in, wire_out = _take_the_wire()
    buffer = bytearray()
    while True:
        try:
            body = _next_frame(wire_in, buffer)
        except ValueError as error:
            _write(wire_out, _error(None, -32700, "parse", f"Cannot read on: {error}."))
            return 1
        if body is None:
            return 1
        opening, answer = _open(body)
        if answer:
            _write(wire_out, answer)
        if opening is not None:
            break
        if answer is None:
            return 1
    gc.disable()  # what the imports make stays; looking through it again and again only costs time
    from tinsmith.adapters.lsp.server import run

    gc.freeze()
    gc.enable()
    return run(opening, bytes(buffer), wire_in, wire_out)


def initialize_result(params: dict[str, Any], epoch: str) -> dict[str, Any]:
    """The answer to `initialize`: what we can do."""
    result: dict[str, Any] = {
        "capabilities": {
            "positionEncoding": position_encoding(params),
            "textDocumentSync": {"openClose": True, "change": 2, "save": {"includeText": False}},
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
            "experimental": {
                "agent": {
                    "version": 1,
                    "schemaHash": SCHEMA_HASH,
                    "features": FEATURES,
                    "limits": LIMITS,
                    "epoch": epoch,
                }
            },
        },
        "serverInfo": {"name": "tinsmith", "version": VERSION},
    }
    if not _is_object(_dig(params, "capabilities", "experimental", "agent")):
        result["capabilities"]["executeCommandProvider"] = {"commands": COMMANDS}
    return result


def position_encoding(params: dict[str, Any]) -> str:
    """The client's first position encoding that we know."""
    offered = _dig(params, "capabilities", "general", "positionEncodings")
    return next((each for each in offered if each in ENCODINGS), "utf-16") if _is_list(offered) else "utf-16"


def _take_the_wire() -> tuple[int, int]:
    """Our own copies of stdin and stdout; what others know as 0 and 1 becomes /dev/null and stderr."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= 2:  # a descriptor that came closed must not become the wire
        nowhere = os.open(os.devnull, os.O_RDWR)
    wire_in, wire_out = os.dup(0), os.dup(1)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return wire_in, wire_out


def _next_frame(wire_in: int, buffer: bytearray) -> bytes | None:
    """The next frame's body; bytes behind it stay in `buffer`. None at the end of input.

    Raises ValueError for a header without a usable length.
    """
    while (head_end := buffer.find(b"\r\n\r\n")) < 0:
        if len(buffer) > MAX_HEADER:
            raise ValueError(f"no end of a header within {MAX_HEADER} bytes")
        if not _fill(wire_in, buffer):
            return None
    body_start = head_end + 4
    body_end = body_start + _content_length(bytes(buffer[:head_end]))
    while len(buffer) < body_end:
        if not _fill(wire_in, buffer):
            return None
    body = bytes(buffer[body_start:body_end])
    del buffer[:body_end]
    return body


def _fill(wire_in: int, buffer: bytearray) -> bool:
    chunk = os.read(wire_in, 65536)
    buffer += chunk
    return bool(chunk)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            digits, most = value.strip(), LIMITS["maxMessageBytes"]
            if not digits.isdigit() or len(digits) > MAX_DIGITS or int(digits) > most:
                raise ValueError(f"Content-Length {digits[:20]!r} is not a number up to {most}")
            return int(digits)
    raise ValueError("a header without Content-Length")


def _open(body: bytes) -> tuple[dict[str, Any] | None, bytes | None]:
    """What the server starts with, and the frame that answers; (None, None) for `exit`."""
    try:
        message: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None, _error(None, -32700, "parse", "The message is not JSON.")
    if _is_list(message):
        return None, _error(None, -32600, "batchUnsupported", "Send one message per frame, not a batch.")
    if not _is_object(message):
        return None, _error(None, -32600, "invalidRequest", "The message is not a JSON-RPC object.")
    method, request_id = message.get("method"), message.get("id")
    if method == "exit":
        return None, None
    if request_id is None or (method is None and ("result" in message or "error" in message)):
        return None, b""
    if isinstance(request_id, bool | list | dict):
        return None, _error(None, -32600, "invalidRequest", "The id of a request is a number or a string.")
    if method != "initialize":
        return None, _error(request_id, -32600, "notInitialized", "Send `initialize` first.")
    params: Any = message.get("params")
    if (path := _faulty_path(params)) is not None:
        return None, _error(
            request_id, -32602, "invalidParams", f"Invalid parameters: `{path}` does not fit.", path=path
        )
    versions = _dig(params, "capabilities", "experimental", "agent", "versions")
    if _is_list(versions) and 1 not in versions:
        return None, _error(request_id, -32600, "unsupportedVersion", "This server speaks version 1.")
    epoch = os.urandom(8).hex()
    answer = _frame({"jsonrpc": "2.0", "id": request_id, "result": initialize_result(params, epoch)})
    return {"params": params, "epoch": epoch, "encoding": position_encoding(params)}, answer


def _faulty_path(params: Any) -> str | None:
    """The first parameter of `initialize` that is of no kind LSP knows; what lies deeper is taken as far as it fits."""
    if not _is_object(params):
        return "params"
    kinds = {"processId": int, "rootUri": str, "rootPath": str, "workspaceFolders": list, "capabilities": dict}
    return next((name for name, kind in kinds.items() if not isinstance(params.get(name), kind | None)), None)


def _dig(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if _is_object(value) else None
    return value


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _error(request_id: Any, code: int, name: str, message: str, **facts: str) -> bytes:
    about = {"kind": "protocol", "code": name, "retryable": False, **facts}
    return _frame({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": about}})


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _write(wire_out: int, frame: bytes) -> None:
    while frame:
        frame = frame[os.write(wire_out, frame) :]


if __name__ == "__main__":
    sys.exit(serve())
