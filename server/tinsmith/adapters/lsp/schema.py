"""The wire's types as JSON Schema, generated from wire.py; its hash is what `initialize` announces."""

import hashlib
import inspect
import json
from typing import Any

import msgspec

from tinsmith.adapters.lsp import wire


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of every message: definitions by type name."""
    types = [
        kind
        for name, kind in sorted(vars(wire).items())
        if inspect.isclass(kind) and issubclass(kind, wire.Wire) and not name.startswith("_")
    ]
    _, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tinsmith", "$defs": components}


def schema_json() -> str:
    """The schema as text: sorted keys, two spaces."""
    return json.dumps(schema(), indent=2, sort_keys=True)


def schema_hash() -> str:
    """The first 16 hex digits of SHA-256 over the schema's text."""
    return hashlib.sha256(schema_json().encode()).hexdigest()[:16]
