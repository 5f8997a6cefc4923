"""Reads the first frames and answers `initialize` from the standard library alone; imports nothing of ours before that.

Descriptor 1 is moved away first of all: whatever prints lands on stderr, never on the wire.
"""

import gc
import json
import os
import sys
from typing import Any, TypeGuard

VERSION = "0.1.0"
SCHEMA_HASH = "1557f7588dbef0c0"
"""The first 16 hex digits of SHA-256 over the generated schema; a test pins it to wire.py."""

ENCODINGS = ("utf-8", "utf-16", "utf-32")
MAX_HEADER = 64 * 1024
LIMITS = {"maxMessageBytes": 64 * 1024 * 1024, "replayEvents": 4096}
FEATURES: dict[str, Any] = {"steer": {}, "applyEdits": {}, "permissions": {}}
COMMANDS = ["tinsmith.ask", "tinsmith.cancel", "tinsmith.new"]


def serve() -> int:
    """Run the language server on this process's stdin and stdout; the exit code, by LSP's rule."""
    wire_in, wire_out = _take_the_wire()
    buffer = bytearray()
    while True:
        body = _next_frame(wire_in, buffer)
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
    """The answer to `initialize`: what we can do, in the client's first position encoding that we know."""
    offered = _dig(params, "capabilities", "general", "positionEncodings")
    encodings = offered if _is_list(offered) else []
    encoding = next((each for each in encodings if each in ENCODINGS), "utf-16")
    result: dict[str, Any] = {
        "capabilities": {
            "positionEncoding": encoding,
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


def _take_the_wire() -> tuple[int, int]:
    """Our own copies of stdin and stdout; what others know as 0 and 1 becomes /dev/null and stderr."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return wire_in, wire_out


def _next_frame(wire_in: int, buffer: bytearray) -> bytes | None:
    """The next frame's body; bytes behind it stay in `buffer`. None at the end of input."""
    while True:
        head_end = buffer.find(b"\r\n\r\n")
        if head_end >= 0:
            length = _content_length(bytes(buffer[:head_end]))
            if length is None:
                return None
            while len(buffer) < head_end + 4 + length:
                if not _fill(wire_in, buffer):
                    return None
            body = bytes(buffer[head_end + 4 : head_end + 4 + length])
            del buffer[: head_end + 4 + length]
            return body
        if len(buffer) > MAX_HEADER or not _fill(wire_in, buffer):
            return None


def _fill(wire_in: int, buffer: bytearray) -> bool:
    chunk = os.read(wire_in, 65536)
    buffer += chunk
    return bool(chunk)


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return None


def _open(body: bytes) -> tuple[dict[str, Any] | None, bytes | None]:
    """What the server starts with, and the frame that answers; (None, None) for `exit`."""
    try:
        message: Any = json.loads(body)
    except ValueError:
        return None, _error(None, -32700, "parse", "The message is not JSON.")
    if not _is_object(message):
        return None, _error(None, -32600, "batchUnsupported", "Send one message per frame, as an object.")
    method, request_id = message.get("method"), message.get("id")
    if method == "exit":
        return None, None
    if request_id is None:
        return None, b""
    if method != "initialize":
        return None, _error(request_id, -32600, "notInitialized", "Send `initialize` first.")
    params = message.get("params")
    if not _is_object(params):
        return None, _error(request_id, -32602, "invalidParams", "`initialize` needs an object of parameters.")
    versions = _dig(params, "capabilities", "experimental", "agent", "versions")
    if _is_list(versions) and 1 not in versions:
        return None, _error(request_id, -32600, "unsupportedVersion", "This server speaks version 1.")
    epoch = os.urandom(8).hex()
    answer = _frame({"jsonrpc": "2.0", "id": request_id, "result": initialize_result(params, epoch)})
    return {"params": params, "epoch": epoch}, answer


def _dig(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if _is_object(value) else None
    return value


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _error(request_id: Any, code: int, name: str, message: str) -> bytes:
    return _frame(
        {
            "jsonrpc": "2.0",
            "id": request_id,
            "error": {
                "code": code,
                "message": message,
                "data": {"kind": "protocol", "code": name, "retryable": False},
            },
        }
    )


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _write(wire_out: int, frame: bytes) -> None:
    while frame:
        frame = frame[os.write(wire_out, frame) :]


if __name__ == "__main__":
    sys.exit(serve())
