"""What protocol.md says of the wire by itself: tables of fields, the hash of the schema. Pure, but for the command.

`python -m tests.docs.reference` brings protocol.md, the announced hash and the golden files up to date after a
change of wire.py. The meaning of a field is written by hand in its row and survives.
"""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as types

from tinsmith.adapters.lsp import bootstrap, schema, wire

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = ROOT / "protocol.md"
GOLDEN = Path(__file__).with_name("golden")
COMMAND = "python -m tests.docs.reference"

RESULTS: dict[str, Any] = {
    "agent/conversationNew": wire.ConversationResult,
    "agent/conversationList": wire.ConversationListResult,
    "agent/conversationSearch": wire.ConversationSearchResult,
    "agent/conversationLoad": wire.ConversationLoadResult,
    "agent/conversationFork": wire.ConversationResult,
    "agent/conversationRewind": wire.ConversationRewindResult,
    "agent/conversationUnrewind": wire.ConversationResult,
    "agent/conversationUpdate": wire.ConversationResult,
    "agent/conversationClear": wire.Done,
    "agent/conversationDelete": wire.Done,
    "agent/conversationExport": wire.ConversationExportResult,
    "agent/conversationImport": wire.ConversationResult,
    "agent/historyRead": wire.HistoryReadResult,
    "agent/runTurn": wire.RunTurnResult,
    "agent/turnWait": wire.TurnEnded,
    "agent/cancel": wire.CancelResult,
    "agent/subscribe": wire.SubscribeResult,
    "agent/turnChanges": wire.TurnChangesResult,
    "agent/changeResolve": wire.ChangeResolveResult,
    "agent/inspect": dict[str, Any],
    "agent/inspectEdit": wire.EditResult,
    "agent/inspectDelete": wire.EditResult,
    "agent/modelsList": wire.ModelsListResult,
    "agent/configGet": wire.ConfigResult,
    "agent/configSet": wire.ConfigResult,
    "agent/configUnset": wire.ConfigResult,
}
"""What each request of a client is answered with."""

ASKED: dict[str, tuple[Any, Any]] = {
    "agent/requestPermission": (wire.RequestPermissionParams, wire.RequestPermissionResult),
    "agent/applyEdits": (wire.ApplyEditsParams, wire.ApplyEditsResult),
    "agent/reloadDocument": (wire.ReloadDocumentParams, wire.ReloadDocumentResult),
    "agent/diagnostics": (wire.DiagnosticsParams, wire.DiagnosticsResult),
    "agent/symbols": (wire.SymbolsParams, wire.SymbolsResult),
    "workspace/applyEdit": (wire.ApplyEditParams, wire.ApplyEditResult),
}
"""What a client is asked, and what it answers."""

_ENVELOPES = (wire.AgentEvent, wire.TurnEvent)
_BLOCK = re.compile(r"<!-- (?P<kind>fields|shapes): (?P<names>[\w, ]+) -->\n(?P<table>(?:\|.*\n)*)")
_HASH = re.compile(r"(Schema hash: `)[0-9a-f]{16}(`)")
_ROW = re.compile(r"\| `(?P<field>\w+)\??` \|.*\| (?P<meaning>[^|]*?) *\|$")


def messages() -> dict[str, type[wire.Wire]]:
    """Every type of wire.py by name, in the order of the file."""
    found = {name: kind for name, kind in vars(wire).items() if inspect.isclass(kind) and issubclass(kind, wire.Wire)}
    return {name: kind for name, kind in found.items() if kind is not wire.Wire}


def filled(document: str) -> str:
    """The document with its tables and the hash as wire.py has them now."""
    document = _HASH.sub(rf"\g<1>{schema.schema_hash()}\g<2>", document)
    return _BLOCK.sub(lambda block: block[0].removesuffix(block["table"]) + _table(block), document)


def described(document: str) -> list[str]:
    """The names of the types that the document has a table of."""
    return [name.strip() for block in _BLOCK.finditer(document) for name in block["names"].split(",")]


def undescribed_fields(document: str) -> list[str]:
    """Fields whose meaning is still to be written, as `Type.field`."""
    return [
        f"{block['names']}.{row['field']}"
        for block in _BLOCK.finditer(document)
        if block["kind"] == "fields"
        for row in map(_ROW.match, block["table"].splitlines())
        if row is not None and not row["meaning"]
    ]


def golden_text(kind: type[wire.Wire], text: str | bytes) -> str:
    """An example of the type, decoded and encoded again, as a golden file has it."""
    value = msgspec.json.decode(text, type=kind)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _table(block: re.Match[str]) -> str:
    names = [name.strip() for name in block["names"].split(",")]
    if block["kind"] == "shapes":
        rows = [f"| `{name}` | {_shape(messages()[name])} |" for name in names]
        return "\n".join(["| type | fields |", "|---|---|", *rows]) + "\n"
    meanings = {row["field"]: row["meaning"] for row in map(_ROW.match, block["table"].splitlines()) if row}
    rows = [
        f"| `{_told(field)}` | {_value(field)} | {meanings.get(field.encode_name, '')} |"
        for field in own_fields(messages()[names[0]])
    ]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows]) + "\n"


def own_fields(kind: type[wire.Wire]) -> list[types.Field]:
    """The fields of a type; those of its envelope are told once."""
    described_type = types.type_info(kind)
    assert isinstance(described_type, types.StructType)
    inherited = {name for base in _ENVELOPES if kind is not base and issubclass(kind, base) for name in _names(base)}
    return [field for field in described_type.fields if field.name not in inherited]


def _names(kind: type[wire.Wire]) -> tuple[str, ...]:
    return kind.__struct_fields__


def _shape(kind: type[wire.Wire]) -> str:
    fields = own_fields(kind)
    return ", ".join(f"`{_told(field)}` {_value(field)}" for field in fields)


def _told(field: types.Field) -> str:
    return field.encode_name + ("" if field.required else "?")


def _value(field: types.Field) -> str:
    """The type of a field, and its default where that says something."""
    default = field.default
    says_something = default not in (msgspec.NODEFAULT, None, "", (), msgspec.UNSET) if not field.required else False
    return _name(field.type) + (f" = `{msgspec.json.encode(default).decode()}`" if says_something else "")


def _name(kind: types.Type) -> str:
    match kind:
        case types.StructType(cls=found):
            return found.__name__
        case types.UnionType(types=options):
            return _choice(options)
        case types.VarTupleType(item_type=item):
            inner = _name(item)
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        case types.LiteralType(values=values):
            return " \\| ".join(f"`{msgspec.json.encode(value).decode()}`" for value in values)
        case types.DictType(value_type=value):
            return "object" if isinstance(value, types.AnyType) else f"object of {_name(value)}"
        case types.CustomType(cls=found):
            return found.__name__
        case _:
            return _PLAIN[type(kind)]


def _choice(options: Iterable[types.Type]) -> str:
    """Alternatives; `null` last, absence not at all (the name of the field says it)."""
    named = [_name(option) for option in options if not isinstance(option, types.NoneType)]
    told = [name for name in named if name != "UnsetType"]
    is_nullable = any(isinstance(option, types.NoneType) for option in options)
    return " \\| ".join([*told, *(["null"] if is_nullable else [])])


_PLAIN: dict[type[types.Type], str] = {
    types.StrType: "string",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.AnyType: "any",
}


def update() -> None:
    """Write protocol.md, the announced hash and the golden files as wire.py has them now."""
    PROTOCOL.write_text(filled(PROTOCOL.read_text()))
    announced = Path(bootstrap.__file__)
    announced.write_text(announced.read_text().replace(bootstrap.SCHEMA_HASH, schema.schema_hash()))
    for name, kind in messages().items():
        path = GOLDEN / f"{name}.json"
        if path.exists():
            path.write_text(golden_text(kind, path.read_bytes()))


if __name__ == "__main__":
    update()
