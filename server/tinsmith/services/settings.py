"""The live configuration: its layers, changes at run time, and the view of it that a turn freezes."""

import os
from typing import Any

import msgspec

from tinsmith.config.layers import Tree, is_overridable, value_at, with_value
from tinsmith.config.load import Effective, load
from tinsmith.config.overrides import set_override, unset_override
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.event import SettingsChanged
from tinsmith.domain.settings import Settings
from tinsmith.services.journal import Journal
from tinsmith.store import Storage


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

    def __init__(self, storage: Storage, journal: Journal, user_file: str, editor: Any, overrides: Tree) -> None:
        self._storage = storage
        self._journal = journal
        self._user_file = user_file
        self._editor = editor
        self._command_line = _set_all({}, overrides)
        self.effective: Effective = self._load()

    def with_overrides(self, overrides: Tree) -> Settings:
        """The settings of one turn that brings some of its own. Raises SchemaError for what may not be overridden."""
        if not overrides:
            return self.effective.settings
        return self._load(command_line=_set_all(self._command_line, overrides)).settings

    async def set(self, path: str, value: Any, expected_version: int | None = None) -> None:
        """Change one leaf of the persisted patch. Raises SchemaError or PolicyError; nothing is written then."""
        if expected_version is not None and expected_version != self.effective.version:
            raise SchemaError(
                "configVersion",
                "The configuration changed meanwhile. Get it again, then set.",
                data={"expected": expected_version, "actual": self.effective.version},
            )
        await self._replace(set_override(self._persisted(), path, value))

    async def unset(self, path: str) -> None:
        """Take one leaf out of the persisted patch. Raises SchemaError or PolicyError."""
        await self._replace(unset_override(self._persisted(), path))

    async def set_editor(self, tree: Any) -> None:
        """Take the editor's settings as they are now."""
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
        if validated:
            await self._storage.write(lambda session: session.meta.remember_valid_settings(validated))

    async def _replace(self, persisted: Tree) -> None:
        await self._storage.write(lambda session: session.overrides.put(persisted))
        await self._use()

    async def _use(self) -> None:
        self.effective = self._load()
        await self.remember()
        self._journal.announce(SettingsChanged(self.effective.version))

    def _persisted(self) -> Tree:
        return self._storage.read(lambda session: session.overrides.get())

    def _load(self, command_line: Tree | None = None) -> Effective:
        return load(
            user_file=self._user_file,
            environment=os.environ,
            persisted=self._persisted(),
            editor=self._editor,
            command_line=self._command_line if command_line is None else command_line,
            known_valid=self._storage.read(lambda session: session.meta.valid_settings()),
        )


def tool_options(settings: Settings, name: str) -> Tree:
    """What `services.tool.<name>` says; nothing when it is not there."""
    return settings.services.get("tool", {}).get(name, {})


def _set_all(tree: Tree, overrides: Tree) -> Tree:
    """The tree with every path set. Raises SchemaError or PolicyError as `set_override`."""
    for path, value in overrides.items():
        tree = set_override(tree, path, value)
    return tree
