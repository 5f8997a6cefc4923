"""Errors on the wire: LSP's codes, and our `data {kind, code, retryable}` in each. No tracebacks."""

from typing import Any

from tinsmith.adapters.lsp.messages import RequestId
from tinsmith.domain.errors import AgentError, Cancelled, SchemaError

REQUEST_CANCELLED = Cancelled("The request was cancelled.")

_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602
_CONTENT_MODIFIED = -32801
_REQUEST_FAILED = -32803
_CODES = {
    "parse": -32700,
    "batchUnsupported": _INVALID_REQUEST,
    "invalidRequest": _INVALID_REQUEST,
    "alreadyInitialized": _INVALID_REQUEST,
    "duplicateId": _INVALID_REQUEST,
    "shutdown": _INVALID_REQUEST,
    "invalidParams": _INVALID_PARAMS,
    "unknownSetting": _INVALID_PARAMS,
    "invalidSetting": _INVALID_PARAMS,
    "settingNotOverridable": _INVALID_PARAMS,
    "invalidCursor": _INVALID_PARAMS,
    "emptyQuery": _INVALID_PARAMS,
    "invalidImport": _INVALID_PARAMS,
    "invalidId": _INVALID_PARAMS,
    "methodNotFound": -32601,
    "cancelled": -32800,
    "stale": _CONTENT_MODIFIED,
    "turnMismatch": _CONTENT_MODIFIED,
    "configVersion": _CONTENT_MODIFIED,
    "bufferDiskConflict": _CONTENT_MODIFIED,
    "internal": -32603,
}


def method_not_found(method: str) -> AgentError:
    """The error for a method that nobody serves."""
    return SchemaError("methodNotFound", f"There is no method {method!r} here.")


def failure(request_id: RequestId | None, error: AgentError) -> dict[str, Any]:
    """An error of ours as a response; what has no LSP code of its own is a failed request."""
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "error": {
            "code": _CODES.get(error.code, _REQUEST_FAILED),
            "message": error.message,
            "data": {"kind": error.kind, "code": error.code, "retryable": error.retryable, **error.data},
        },
    }
