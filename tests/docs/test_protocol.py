"""protocol.md, the golden files and the server say the same about the wire."""

import ast
import json
import re
from typing import Any, get_args

import msgspec
import pytest
from tests.docs import reference
from tests.docs.pages import ROOT, page, rows, section

import tinsmith
from tinsmith.adapters.lsp import bootstrap, convert, errors, schema, transport, wire
from tinsmith.domain.errors import ErrorRecord
from tinsmith.services import journal
from tinsmith.workspace.text import text_hash

DOCUMENT = page("protocol.md")
TYPES = reference.messages()
HOW = f"wire.py changed: run `{reference.COMMAND}`, then write what is new into protocol.md, clients and CHANGELOG.md."
SERVER = ROOT / "server" / "tinsmith"
SENDING = ("editor", "plain", "transport")
"""The modules that send something of their own."""
LIFE = {"initialize", "shutdown", "exit", "$/cancelRequest"}
"""What the router serves itself."""


def test_the_announced_hash_is_that_of_the_schema():
    assert schema.schema_hash() == bootstrap.SCHEMA_HASH, f"{HOW} (announced in bootstrap.py)"
    assert f"Schema hash: `{schema.schema_hash()}`" in DOCUMENT, f"{HOW} (told in protocol.md)"


def test_the_tables_are_those_of_the_types():
    assert reference.filled(DOCUMENT) == DOCUMENT, HOW


def test_every_type_is_described_once_and_every_field_in_words():
    assert sorted(reference.described(DOCUMENT)) == sorted(TYPES), HOW
    assert reference.undescribed_fields(DOCUMENT) == []


@pytest.mark.parametrize("name", TYPES)
def test_an_example_of_each_type_survives_decoding_and_encoding(name):
    golden = (reference.GOLDEN / f"{name}.json").read_text()
    assert reference.golden_text(TYPES[name], golden) == golden
    fields = {field.encode_name for field in msgspec.inspect.type_info(TYPES[name]).fields}
    assert fields <= json.loads(golden).keys(), f"{HOW} (the golden file must hold every field)"


def test_there_is_no_example_of_anything_else():
    assert sorted(path.stem for path in reference.GOLDEN.iterdir()) == sorted(TYPES)


def table(name: str) -> dict[str, Any]:
    """A table of the server: method to the type of its parameters, as server.py writes it down."""
    for node in ast.walk(ast.parse((SERVER / "adapters" / "lsp" / "server.py").read_text())):
        is_it = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) and node.target.attr == name
        if is_it and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {key.value: vars(wire).get(getattr(row.elts[0], "attr", ""), dict[str, Any]) for key, row in pairs}
    raise LookupError(f"server.py has no table {name}")


REQUESTS, NOTIFICATIONS = table("requests"), table("notifications")


def messages_in(text: str) -> list[dict[str, Any]]:
    """Every JSON message of the fenced examples."""
    found = []
    decoder = json.JSONDecoder()
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        position = 0
        while position < len(block.rstrip()):
            message, position = decoder.raw_decode(block, position)
            found.append(message)
            position += len(block[position:]) - len(block[position:].lstrip())
    return found


def survives(value: Any, kind: Any) -> None:
    """An example of a type has all of its fields right and no others."""
    again = msgspec.json.encode(msgspec.json.decode(json.dumps(value), type=kind))
    assert json.loads(again) == value


def test_every_method_has_its_section_and_an_example_that_decodes():
    asked = section(DOCUMENT, "## Requests of a client")
    assert re.findall(r"^### (\S+)$", asked, re.MULTILINE) == list(REQUESTS) == list(reference.RESULTS)
    told = messages_in(DOCUMENT)
    params = REQUESTS | NOTIFICATIONS | {method: kind for method, (kind, _) in reference.ASKED.items()}
    params |= {"initialize": wire.InitializeParams, "agent/event": wire.WireEvent}
    params |= {"workspace/executeCommand": dict[str, Any]}
    results = reference.RESULTS | {method: kind for method, (_, kind) in reference.ASKED.items()}
    open_requests: dict[int, str] = {}
    shown: set[str] = set()
    for message in told:
        assert message.pop("jsonrpc") == "2.0"
        if "method" in message:
            survives(message["params"], params[message["method"]])
            shown.add(message["method"])
            open_requests[message.get("id", 0)] = message["method"]
        elif "result" in message and open_requests[message["id"]] in results:
            survives(message["result"], results[open_requests[message["id"]]])
    assert shown >= {*reference.RESULTS, *reference.ASKED, "initialize", "agent/event"}


def test_every_notification_is_told():
    for method in {*NOTIFICATIONS, *LIFE}:
        name = method.removeprefix("textDocument/")
        assert f"`{method}`" in DOCUMENT or f"`{name}`" in DOCUMENT or f'"{method}"' in DOCUMENT, method


def test_every_event_has_its_section_and_an_example():
    tags = [msgspec.inspect.type_info(kind).tag for kind in get_args(wire.WireEvent)]
    events = section(DOCUMENT, "## Events")
    assert re.findall(r"^### (\S+)$", events, re.MULTILINE) == tags
    assert [message["params"]["type"] for message in messages_in(events)] == tags


def test_everything_a_client_is_asked_or_told_is_in_the_document():
    sources = "".join((SERVER / "adapters" / "lsp" / f"{name}.py").read_text() for name in SENDING)
    sent = set(re.findall(r'"((?:agent|window|workspace|\$)/\w+)"', sources))
    assert sent >= {*reference.ASKED, "window/showMessage", "$/cancelRequest"}
    assert [method for method in sent if f"`{method}`" not in DOCUMENT and f"### {method}\n" not in DOCUMENT] == []


def test_the_opening_is_what_the_server_answers():
    asked, answered = messages_in(section(DOCUMENT, "## A session"))[:2]
    result = bootstrap.initialize_result(asked["params"], "5f0c9b1e7a3d2468")
    result["capabilities"]["experimental"]["agent"]["schemaHash"] = "…"
    assert answered["result"] == result


def test_the_constants_of_the_opening_are_those_of_the_rooms_that_keep_them():
    assert tinsmith.__version__ == bootstrap.VERSION
    assert bootstrap.LIMITS == {"maxMessageBytes": transport.MAX_BODY, "replayEvents": journal.REPLAY_EVENTS}
    told = rows(section(DOCUMENT, "## A client without agent methods"))
    assert [row[0] for row in told[1:]] == [f"`{command}`" for command in bootstrap.COMMANDS]


def test_the_events_a_client_may_opt_out_of():
    (row,) = [row for row in rows(section(DOCUMENT, "## A session")) if row[0] == "`optOut?`"]
    assert set(re.findall(r"`(\w+)`", row[2])) - {"seq", "thinking"} == set(convert.WIRE_OF)


def test_the_hash_of_the_example():
    digest = text_hash("one\ntwo\nthree\n")
    assert f"`{digest}`" in section(DOCUMENT, "## Conventions")


def raised_codes() -> set[str]:
    """The codes that a request or a turn can end with, as far as they stand literally at what raises them."""
    raising = {"SchemaError", "ProtocolError", "TransportError", "PersistenceError", "BudgetExhausted"}
    places = {"_refuse": 1, "_error": 2, "error_body": 3, "_broken": 0} | dict.fromkeys(raising, 0)
    not_theirs = {"llm/scripted.py", "llm/chaos.py", "adapters/lsp/editor.py", "domain/turn.py"}
    not_theirs |= {
        "adapters/setup.py",
        "config/user_file.py",
        "services/first_run.py",
        "store/backup.py",
    }  # the command line's alone
    rooms = ("adapters", "config", "engine", "llm", "net", "services", "store", "domain", "runtime.py")
    found: set[str] = set()
    for path in SERVER.rglob("*.py"):
        name = path.relative_to(SERVER).as_posix()
        if not name.startswith(rooms) or name in not_theirs:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                code = node.args[places[called] : places[called] + 1] if called in places else []
                found |= {each.value for each in code if isinstance(each, ast.Constant) and each.value}
    return found


def test_the_errors_are_those_that_are_raised():
    answers, ends = (
        [
            row
            for row in rows(section(DOCUMENT, "## Errors"))
            if len(row) == width and row[0] not in {"number", "`code`"}
        ]
        for width in (4, 3)
    )
    told = {row[1].strip("`") for row in answers} | {row[0].strip("`") for row in ends}
    assert raised_codes() - told == set()
    sources = "".join(path.read_text() for path in SERVER.rglob("*.py"))
    assert {code for code in told if f'"{code}"' not in sources} == set()
    for number, code, *_ in answers:
        fixed = errors._CODES.get(code.strip("`"))
        assert int(number) == (fixed if fixed is not None or int(number) in {-32700, -32600} else -32803) or (
            fixed is None and int(number) in {-32700, -32600}
        ), code
    kinds = get_args(msgspec.structs.fields(ErrorRecord)[0].type)
    assert all(f"`{kind}`" in section(DOCUMENT, "## Errors") for kind in kinds)
