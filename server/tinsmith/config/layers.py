"""Trees of settings: which leaves there are, how layers merge, who may change what. Pure.

A tree is a partial settings object as JSON gives it. A path names a leaf, its segments joined by dots; below an open
group everything is one key, so that a key may hold dots itself.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache
from typing import Any, cast

import msgspec

from tinsmith.domain.errors import PolicyError, SchemaError
from tinsmith.domain.settings import LayerName, Settings

Tree = dict[str, Any]

SERVICE_PATHS = frozenset(
    f"services.tool.{name}"
    for name in (
        "web_fetch.allowed_addresses",
        *(
            f"web_search.{option}"
            for option in ("api_key_env", "endpoint", "depth", "output_type", "max_results", "timeout")
        ),
    )
)
"""What may be said to services; only the user's file and the ephemeral layer say it."""


_OPEN = ("models.", "llm_config.headers.")
"""Groups whose keys are the person's own."""


@cache
def _every_default() -> Tree:
    return msgspec.json.decode(msgspec.json.encode(Settings()))


@cache
def fixed_paths() -> frozenset[str]:
    """Every leaf that always has a place, also when it is absent: all but the keys of open groups and of `services`."""
    return frozenset(path for path, _ in leaves(_every_default()))


def default_tree() -> Tree:
    """The defaults, without the leaves that are absent by default."""
    return without_absent(_every_default())


def merge(*trees: Tree) -> Tree:
    """The trees key by key, later ones over earlier; scalars and lists replace."""
    merged: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            below = merged.get(key)
            if isinstance(value, dict):
                beneath = cast("Tree", below) if isinstance(below, dict) else {}
                merged[key] = merge(beneath, cast("Tree", value))
            else:
                merged[key] = value
    return merged


def without_absent(tree: Tree) -> Tree:
    """The tree without leaves that are None, which means absent."""
    return {
        key: without_absent(cast("Tree", value)) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None
    }


def leaves(tree: Tree, above: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of every leaf; lists are leaves, empty groups are nothing."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(cast("Tree", value), f"{above}{key}.")
        else:
            yield above + key, value


def provenance(layers: Mapping[LayerName, Tree]) -> dict[str, LayerName]:
    """For each leaf the highest layer that speaks of it; `layers` from low to high. Absent leaves count as defaults."""
    sources: dict[str, LayerName] = dict.fromkeys(sorted(fixed_paths()), "defaults")
    for name, tree in layers.items():
        sources.update((path, name) for path, _ in leaves(tree))
    return sources


def split_unknown(tree: Tree, above: str = "") -> tuple[Tree, list[str]]:
    """The tree without the keys that mean nothing to us, and the paths of those."""
    known: Tree = {}
    unknown: list[str] = []
    for key, value in tree.items():
        path = above + key
        if not _is_group(path):
            is_known = path in fixed_paths() or path in SERVICE_PATHS or above in _OPEN
            if is_known:
                known[key] = value
            else:
                unknown.append(path)
        elif isinstance(value, dict):
            known[key], below = split_unknown(cast("Tree", value), f"{path}.")
            unknown.extend(below)
        else:
            known[key] = value
    return known, unknown


def value_at(tree: Tree, path: str) -> Any:
    """The value at the path, None when there is none."""
    value: Any = tree
    for segment in _segments(path):
        value = cast("Tree", value).get(segment) if isinstance(value, dict) else None
    return value


def with_value(tree: Tree, path: str, value: Any) -> Tree:
    """The tree with this leaf set."""
    for segment in reversed(_segments(path)):
        value = {segment: value}
    return merge(tree, value)


def without_value(tree: Tree, path: str) -> Tree:
    """The tree without this leaf and without the groups that this leaves empty."""
    return _pruned(tree, _segments(path))


def is_overridable(path: str) -> bool:
    """Whether the leaf may be changed at run time."""
    return path in fixed_paths() or (path.startswith(_OPEN) and path not in _OPEN)


def check_overridable(path: str) -> None:
    """Raises SchemaError `unknownSetting` with the nearest path that may be changed, PolicyError for those of services.

    `data.path` and `data.nearest` hold the paths.
    """
    if is_overridable(path):
        return
    if path in SERVICE_PATHS:
        raise PolicyError(
            "settingNotOverridable", f"`{path}` cannot be changed at run time. Set it in the user's tinsmith.json."
        )
    nearest = nearest_path(path)
    what = "is a group of settings" if _is_group(path) else "is not a setting"
    raise SchemaError(
        "unknownSetting", f"`{path}` {what}; did you mean `{nearest}`?", data={"path": path, "nearest": nearest}
    )


def nearest_path(path: str) -> str:
    """The known path that looks most like this one, as a whole or by its last segment."""
    wanted = path.casefold()
    models = {f"models.{name}" for name in ("default", "direct", "orchestrator", "worker", "explorer")}
    last = wanted.rpartition(".")[2]

    def likeness(candidate: str) -> tuple[float, float]:
        whole = SequenceMatcher(None, wanted, candidate).ratio()
        return max(whole, SequenceMatcher(None, last, candidate.rpartition(".")[2]).ratio()), whole

    known = SERVICE_PATHS if wanted.startswith("services.") else fixed_paths() | models
    return max(sorted(known), key=likeness)


def _is_group(path: str) -> bool:
    return path in _groups()


@cache
def _groups() -> frozenset[str]:
    parts = [path.split(".") for path in fixed_paths() | SERVICE_PATHS]
    found = {".".join(segments[:count]) for segments in parts for count in range(1, len(segments))}
    return frozenset(found | {group.removesuffix(".") for group in _OPEN} | {"services"})


def _segments(path: str) -> list[str]:
    group = next((group for group in _OPEN if path.startswith(group)), "")
    return [*group.split(".")[:-1], path.removeprefix(group)] if group else path.split(".")


def _pruned(tree: Tree, segments: list[str]) -> Tree:
    key, *deeper = segments
    rest = {name: value for name, value in tree.items() if name != key}
    below = tree.get(key)
    if deeper and isinstance(below, dict):
        kept = _pruned(cast("Tree", below), deeper)
        return {**rest, key: kept} if kept else rest
    return tree if deeper else rest
