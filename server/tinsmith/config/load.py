"""From every source of settings to the effective ones. A faulty source is reported and left out; nothing raises."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import msgspec

import tinsmith
from tinsmith.config import jsonc
from tinsmith.config.layers import (
    Tree,
    default_tree,
    fixed_paths,
    merge,
    nearest_path,
    provenance,
    split_unknown,
    with_value,
    without_absent,
)
from tinsmith.domain.settings import LayerName, Settings

_ENVIRONMENT = {"TINSMITH_MODEL": "default_model", "TINSMITH_BASE_URL": "llm_config.base_url"}


class Source(msgspec.Struct, frozen=True):
    """A tree as somebody wrote it; `name` is what they know it by."""

    layer: LayerName
    name: str
    tree: Any


class Problem(msgspec.Struct, frozen=True):
    """Something a person should correct. `path` is the faulty key, `line` the faulty line of a file (1-based) or 0."""

    source: str
    message: str
    path: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """One line for a person."""
        return f"{self.source}: {self.message}"


class Effective(msgspec.Struct, frozen=True):
    """The effective settings and where they come from.

    `tree` is `settings` as a tree, without absent leaves. `layers` has all four, from low to high, as far as they
    count. `provenance` names the layer of every leaf, the absent ones too. `version` is a fingerprint of the
    layers, below 2**48: equal exactly when they are. `validated` are the hashes of trees that
    were checked in this load and found good: handed in as `known_valid` they spare the next load the check.
    """

    settings: Settings
    tree: Tree
    layers: dict[LayerName, Tree]
    provenance: dict[str, LayerName]
    problems: tuple[Problem, ...]
    version: int
    validated: frozenset[str]


def load(
    *,
    user_file: str,
    environment: Mapping[str, str],
    persisted: Any = None,
    editor: Any = None,
    command_line: Any = None,
    known_valid: AbstractSet[str] = frozenset(),
) -> Effective:
    """Read the user's file (missing is fine) and the environment's variables, and merge them with the given trees."""
    source, problems = read_user_file(user_file)
    sources = [
        source,
        Source("persisted", "the settings changed at run time", persisted),
        *_environment_sources(environment),
        Source("ephemeral", "the editor's settings", editor),
        Source("ephemeral", "the command line", command_line),
    ]
    return resolve(sources, problems, known_valid)


def read_user_file(path: str) -> tuple[Source, tuple[Problem, ...]]:
    """The user's file, UTF-8 or with a BOM UTF-16 or UTF-32, with comments and trailing commas."""
    absent = Source("user", path, None)
    left_out = "until then the whole file is left out."
    try:
        with open(path, "rb") as file:
            raw = file.read()
        text = raw.decode(json.detect_encoding(raw))
        return Source("user", path, jsonc.parse(text)), ()
    except FileNotFoundError:
        return absent, ()
    except OSError as error:
        message = f"cannot be read ({error.strerror}). Make it readable; {left_out}"
        return absent, (Problem(path, message),)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {error.msg}. Correct it; {left_out}"
        return absent, (Problem(path, message, line=error.lineno),)
    except (ValueError, RecursionError) as error:
        message = f"is not a settings file ({type(error).__name__}). Save it as UTF-8 JSON; {left_out}"
        return absent, (Problem(path, message),)


def find_reasons_to_leave_out(source: Source) -> list[Problem]:
    """Why `resolve` would leave the whole source out; nothing when it would not."""
    tree, remarks = _known_part(source)
    return _broken_rules(source.name, tree) if tree else [remark for remark in remarks if not remark.path]


def resolve(
    sources: Sequence[Source], problems: Sequence[Problem] = (), known_valid: AbstractSet[str] = frozenset()
) -> Effective:
    """Merge the sources over the defaults, later over earlier within a layer; `problems` are handed on.

    Every rule speaks of one leaf alone, so a merge of valid trees is valid. The rules (and pydantic) are
    loaded only for a tree whose hash is not in `known_valid`.
    """
    layers: dict[LayerName, Tree] = {"defaults": default_tree(), "user": {}, "persisted": {}, "ephemeral": {}}
    found = list(problems)
    validated: set[str] = set()
    for source in sources:
        tree, remarks = _known_part(source)
        digest = _fingerprint(tree)
        found += remarks
        if tree and digest not in known_valid:
            faults = _broken_rules(source.name, tree)
            found += faults
            if faults:
                continue
            validated.add(digest)
        layers[source.layer] = merge(layers[source.layer], tree)
    merged = merge(*layers.values())
    return Effective(
        settings=msgspec.convert(merged, Settings),
        tree=without_absent(merged),
        layers=layers,
        provenance=provenance(layers),
        problems=tuple(found),
        version=int(_fingerprint(layers)[:12], 16),
        validated=frozenset(validated),
    )


def _known_part(source: Source) -> tuple[Tree, list[Problem]]:
    """The keys of the source that mean something, and what is to be said about the others."""
    if source.tree is None or source.tree == []:  # an empty table of Lua arrives as an empty list
        return {}, []
    if not isinstance(source.tree, dict):
        return {}, [Problem(source.name, "must be an object of settings. Correct it; until then it is left out.")]
    written = cast("Tree", source.tree)
    known, unknown = split_unknown({key: value for key, value in written.items() if key != "$schema"})
    return known, [
        Problem(
            source.name,
            f"`{path}` is not a setting and is ignored; did you mean `{nearest_path(path)}`?",
            path,
        )
        for path in unknown
    ]


def _broken_rules(name: str, tree: Tree) -> list[Problem]:
    from tinsmith.config.schema import find_faults

    return [
        Problem(name, f"`{path}` {fault}. Correct it; until then everything from here is left out.", path)
        for path, fault in find_faults(tree)
    ]


def _environment_sources(environment: Mapping[str, str]) -> list[Source]:
    sources: list[Source] = []
    for variable, path in _ENVIRONMENT.items():
        if environment.get(variable):
            sources.append(Source("ephemeral", variable, with_value({}, path, environment[variable])))
    return sources


def _fingerprint(tree: Any) -> str:
    """A hash of the tree and of the rules it was held against, as far as the version and the leaves tell them."""
    rules = [tinsmith.__version__, sorted(fixed_paths())]
    return hashlib.sha256(json.dumps([rules, tree], sort_keys=True).encode()).hexdigest()
