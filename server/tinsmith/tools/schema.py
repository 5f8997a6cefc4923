"""Argument structs as the small closed JSON Schemas that models are shown. Pure."""

from typing import Any, cast

import msgspec

_DROPPED = frozenset({"title", "$defs"})


def closed_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The struct's JSON Schema with references resolved, titles and docstrings dropped, and `T | None` shown as `T`.

    Every object has `additionalProperties: false` (the struct forbids unknown fields).
    """
    schema = msgspec.json.schema(arguments)
    return cast("dict[str, Any]", _simplified(schema, schema.get("$defs", {})))


def _simplified(node: object, definitions: dict[str, Any]) -> object:
    if isinstance(node, list):
        return [_simplified(item, definitions) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    branch = _unwrapped(cast("dict[str, Any]", node), definitions)
    simple: dict[str, object] = {}
    for key, value in branch.items():
        if key == "properties":
            fields = cast("dict[str, Any]", value)
            simple[key] = {name: _simplified(field, definitions) for name, field in fields.items()}
        elif key not in _DROPPED:
            simple[key] = _simplified(value, definitions)
    return simple


def _unwrapped(branch: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The branch with its reference followed, its `null` option gone, and an object's docstring left out."""
    if "$ref" in branch:
        branch = definitions[str(branch["$ref"]).rsplit("/", 1)[-1]]
    if "anyOf" in branch:
        options = [option for option in branch["anyOf"] if option != {"type": "null"}]
        rest = {key: value for key, value in branch.items() if key not in {"anyOf", "default"}}
        branch = {**rest, **options[0]} if len(options) == 1 else {**rest, "anyOf": options}
    if branch.get("type") == "object":
        branch = {key: value for key, value in branch.items() if key != "description"}
    return branch
