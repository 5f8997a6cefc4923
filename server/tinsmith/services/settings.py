"""The live configuration: its layers, changes at run time, and the view of it that a turn freezes."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from tinsmith.config.layers import Tree, is_overridable, value_at, with_value
from tinsmith.config.load import Effective, Problem, load
from tinsmith.config.overrides import set_override, unset_override
from tinsmith.domain.errors import PersistenceError, SchemaError
from tinsmith.domain.event import SettingsChanged
from tinsmith.domain.settings import Settings
from tinsmith.services.journal import Journal
from tinsmith.store import Session, Storage

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class OffLoop(Protocol):
    """Runs a function that blocks in a thread."""

    def __call__(self, work: Callable[[], Result], /) -> Coroutine[Any, Any, Result]: ...


class SettingLeaf(msgspec.Struct, frozen=True):
    """One leaf: its value, the layer it comes from, and whether it may be changed at run time."""

    path: str
    value: Any
    layer: str
    is_overridable: bool


class SettingsService:
    """Holds the effective configuration; every change makes a new one, which the next turn uses.

    `editor` is a settings tree, `overrides` maps paths to values (a command line's); with the environment they make
    up the ephemeral layer. Reading the user's file blocks for a moment, so this is made off the loop.
    """

    def __init__(
        self, storage: Storage, journal: Journal, user_file: str, editor: Any, overrides: Tree, off_loop: OffLoop
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._user_file = user_file
        self._editor = editor
        self._command_line = _set_all({}, overrides)
        self._off_loop = off_loop
        self._changing = asyncio.Lock()
        self.effective: Effective = self._load(self._command_line)

    async def with_overrides(self, overrides: Tree) -> Settings:
        """The settings of one turn that brings some of its own. Raises SchemaError for what may not be overridden."""
        if not overrides:
            return self.effective.settings
        return (await self._off_loop(lambda: self._load(_set_all(self._command_line, overrides)))).settings

    async def set(self, path: str, value: Any, expected_version: int | None = None) -> None:
        """Change one leaf of the persisted patch. Raises SchemaError or PolicyError; nothing is written then."""
        async with self._changing:
            if expected_version is not None and expected_version != self.effective.version:
                raise SchemaError(
                    "configVersion",
                    "The configuration changed meanwhile. Get it again, then set.",
                    data={"expected": expected_version, "actual": self.effective.version},
                )
            await self._off_loop(lambda: set_override({}, path, value))  # loads the rules before the store is locked
            await self._rewrite(lambda patch: set_override(patch, path, value))

    async def unset(self, path: str) -> None:
        """Take one leaf out of the persisted patch. Raises SchemaError or PolicyError."""
        async with self._changing:
            await self._rewrite(lambda patch: unset_override(patch, path))

    async def set_editor(self, tree: Any) -> None:
        """Take the editor's settings as they are now."""
        async with self._changing:
            self._editor = tree
            await self._use()

    def leaves(self, path: str | None) -> list[SettingLeaf]:
        """Every leaf at or below a path, by name."""
        return [
            SettingLeaf(each, value_at(self.effective.tree, each), layer, is_overridable(each))
            for each, layer in sorted(self.effective.provenance.items())
            if path is None or each == path or each.startswith(f"{path}.")
        ]

    def tree(self, path: str | None) -> Tree:
        """The effective values at or below a path. Raises SchemaError when there is no such setting."""
        if path is None:
            return self.effective.tree
        if not self.leaves(path):
            raise SchemaError("unknownSetting", f"There is no setting `{path}`.", data={"path": path})
        return with_value({}, path, value_at(self.effective.tree, path))

    async def remember(self) -> None:
        """Note which trees were found valid, so that the next start need not check them."""
        validated = self.effective.validated
        if not validated:
            return
        try:
            await self._storage.write(lambda session: session.meta.remember_valid_settings(validated))
        except PersistenceError as error:  # costs the next start some time, and nobody anything else
            _log.warning("the check of the settings was not noted: %s", error.message)

    async def _rewrite(self, change: Callable[[Tree], Tree]) -> None:
        """Change the patch in one transaction, so that what others set meanwhile stays."""
        await self._storage.write(lambda session: session.overrides.put(change(_patch(session)[0])))
        await self._use()

    async def _use(self) -> None:
        self.effective = await self._off_loop(lambda: self._load(self._command_line))
        await self.remember()
        self._journal.announce(SettingsChanged(self.effective.version))

    def _load(self, command_line: Tree) -> Effective:
        """Blocks: reads the user's file, and loads the rules for a tree that nobody checked before."""
        persisted, problems = self._storage.read(_patch)
        effective = load(
            user_file=self._user_file,
            environment=os.environ,
            persisted=persisted,
            editor=self._editor,
            command_line=command_line,
            known_valid=self._storage.read(_known_valid),
        )
        return msgspec.structs.replace(effective, problems=(*effective.problems, *problems))


def _patch(session: Session) -> tuple[Tree, tuple[Problem, ...]]:
    """The persisted patch; one that cannot be read is left out, and the next change replaces it."""
    try:
        return session.overrides.get(), ()
    except PersistenceError as error:
        return {}, (Problem("the settings changed at run time", error.message),)


def _known_valid(session: Session) -> frozenset[str]:
    try:
        return session.meta.valid_settings()
    except PersistenceError:
        return frozenset()


def tool_options(settings: Settings, name: str) -> Tree:
    """What `services.tool.<name>` says; nothing when it is not there."""
    return settings.services.get("tool", {}).get(name, {})


def _set_all(tree: Tree, overrides: Tree) -> Tree:
    """The tree with every path set. Raises SchemaError or PolicyError as `set_override`."""
    for path, value in overrides.items():
        tree = set_override(tree, path, value)
    return tree
