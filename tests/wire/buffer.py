"""An editor's side of edits: open buffers, guarded by the hash of the text that an edit was made from."""

import hashlib
from typing import Any

from tests.wire.client import Client


def text_hash(text: str) -> str:
    """The hash of a text, whatever its line ends."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:16]


class Buffer:
    """Answers `agent/applyEdits` for every document that the client has open; `asked` holds what came."""

    def __init__(self, client: Client, *, encoding: str = "utf-16") -> None:
        self.client = client
        self.encoding = encoding
        self.asked: list[dict[str, Any]] = []
        client.answers["agent/applyEdits"] = self.apply

    def apply(self, params: dict[str, Any]) -> dict[str, Any]:
        """Compare the hash, apply, tell the change, then answer."""
        self.asked.append(params)
        (document,) = params["documents"]
        version, text = self.client.texts[document["uri"]]
        if text_hash(text) != document["expect"]["hash"]:
            return self.refuse(document, "stale", text)
        for edit in reversed(document["edits"]):
            start, end = (self.offset(text, edit["range"][edge]) for edge in ("start", "end"))
            text = text[:start] + edit["newText"] + text[end:]
        self.client.type(document["uri"], text)
        status = {"uri": document["uri"], "status": "applied", "version": version + 1, "hash": text_hash(text)}
        return {"applied": True, "documents": [status | {"dirty": True}]}

    def refuse(self, document: dict[str, Any], status: str, text: str = "") -> dict[str, Any]:
        """The answer that nothing was changed."""
        return {"applied": False, "documents": [{"uri": document["uri"], "status": status, "hash": text_hash(text)}]}

    def offset(self, text: str, position: dict[str, int]) -> int:
        """The code points before a position in the encoding that was agreed."""
        lines = text.split("\n")
        before = sum(len(line) + 1 for line in lines[: position["line"]])
        line = lines[position["line"]] if position["line"] < len(lines) else ""
        units = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[self.encoding]
        return before + len(line.encode(codec)[: position["character"] * units].decode(codec))
