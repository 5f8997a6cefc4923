"""A bench for the tools: a folder, an editor with open buffers, one conversation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.change import ApplyResult, FileChange, Refreshed, Snapshot
from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access
from tinsmith.domain.ports import Documents, NoDocuments
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.tools import builtin_tools
from tinsmith.workspace.text import dominant_eol, text_hash

builtin_tools(NoDocuments(), cache_dir="")  # reads the texts for the model once, before a loop runs


class Buffers:
    """Open documents, as an editor keeps them."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find(self, path: str) -> Snapshot | None:
        text = self.texts.get(path)
        if text is None:
            return None
        return Snapshot(path, text, text_hash(text), "buffer", dominant_eol(text), is_dirty=True)

    def open_paths(self) -> tuple[str, ...]:
        return ()

    async def refresh(self, disk_hashes):
        return Refreshed()

    def unsaved(self) -> tuple[str, ...]:
        return tuple(self.texts)

    async def apply(self, label: str, turn_id: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        for change in changes:
            if change.before is None or text_hash(self.texts[change.path]) != change.before.hash:
                return tuple(ApplyResult(each.path, "stale") for each in changes)
        for change in changes:
            text = self.texts[change.path]
            for part in reversed(change.changes):
                text = text[: part.start] + part.text + text[part.end :]
            self.texts[change.path] = text
            assert text == change.after_text
        return tuple(ApplyResult(each.path, "applied", each.after_hash, is_dirty=True) for each in changes)


class Bench:
    """Calls tools as the engine does: JSON in, preview, run."""

    def __init__(self, root: Path, documents: Documents | None = None, **options: Any) -> None:
        self.root = root
        self.cancel = CancelToken()
        self.shown: list[str] = []
        self.cache = root.parent / f"{root.name}-cache"
        options = {"cache_dir": str(self.cache), **options}
        self.specs = {spec.name: spec for spec in builtin_tools(documents or NoDocuments(), **options)}

    def scope(self, conversation: str = "c1") -> CallScope:
        return CallScope(
            role="direct",
            turn_id="t1",
            call_id="k1",
            conversation_id=conversation,
            cwd=str(self.root),
            root=str(self.root),
            cancel=self.cancel,
            output=self.shown.append,
        )

    def decoded(self, name: str, arguments: dict[str, Any]) -> Any:
        return msgspec.json.decode(msgspec.json.encode(arguments), type=self.specs[name].args)

    async def preview(self, name: str, conversation: str = "c1", **arguments: Any) -> Access:
        return await self.specs[name].preview(self.decoded(name, arguments), self.scope(conversation))

    async def call(self, name: str, conversation: str = "c1", **arguments: Any) -> ToolResult:
        await self.preview(name, conversation, **arguments)
        return await self.specs[name].run(self.decoded(name, arguments), self.scope(conversation))

    async def read(self, path: str, **arguments: Any) -> str:
        """Read a file and give its hash."""
        result = await self.call("read", path=path, **arguments)
        return field(result, "hash")

    async def edit(self, path: str, digest: str, *edits: tuple[Any, ...]) -> ToolResult:
        """Edits as (op, start, end, text), shorter for those that need less."""
        names = ("op", "start", "end", "text")
        parts = [{name: value for name, value in zip(names, edit, strict=False) if value is not None} for edit in edits]
        return await self.call("edit", path=path, hash=digest, edits=parts)

    async def refusal(self, name: str, **arguments: Any) -> ToolError:
        """The error that the call is refused with."""
        try:
            result = await self.call(name, **arguments)
        except ToolError as error:
            return error
        raise AssertionError(f"not refused: {result}")


def field(result: ToolResult, name: str) -> str:
    return next(line.removeprefix(f"{name}: ") for line in result.content.split("\n") if line.startswith(f"{name}: "))
