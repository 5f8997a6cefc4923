"""The list of tools as a model is told of it."""

import json
import subprocess
import sys

import msgspec
import pytest
from tests.tools.stage import Bench

from tinsmith.domain.redaction import MARK, redact


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_the_tools_and_their_effects(bench):
    assert {name: set(spec.effects) for name, spec in bench.specs.items()} == {
        "read": {"reads"},
        "edit": {"reads", "writes"},
        "write": {"reads", "writes"},
        "bash": {"reads", "writes", "runs", "network"},
        "code_map": {"reads"},
        "code_grep": {"reads"},
        "code_files": {"reads"},
        "code_symbols": {"reads"},
        "code_outline": {"reads"},
        "git": {"reads"},
        "diagnostics": {"reads"},
        "web_search": {"network"},
        "web_fetch": {"network"},
    }
    looking = ["code_map", "code_grep", "code_files", "code_symbols", "code_outline", "git", "diagnostics"]
    assert list(bench.specs) == ["read", "edit", "write", "bash", *looking, "web_search", "web_fetch"]


def test_they_fit_in_a_small_request(bench):
    tools = [{"name": s.name, "description": s.description, "parameters": s.schema} for s in bench.specs.values()]
    assert len(json.dumps(tools)) < 8_000
    assert all(s.description for s in bench.specs.values())


def test_schemas_are_closed_and_plain(bench):
    def check(node):
        if isinstance(node, dict):
            assert not set(node) & {"$ref", "$defs", "anyOf", "title"}
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
            for value in node.values():
                check(value)

    for spec in bench.specs.values():
        check(spec.schema)
    assert bench.specs["edit"].schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "hash": {"type": "string", "minLength": 1, "description": "as a tool last gave it"},
            "edits": {
                "type": "array",
                "minItems": 1,
                "maxItems": 200,
                "items": {
                    "type": "object",
                    "properties": {
                        "op": {"enum": ["delete", "insert", "replace"]},
                        "start": {"type": "integer"},
                        "end": {"type": "integer"},
                        "text": {"type": "string"},
                    },
                    "required": ["op", "start"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["path", "hash", "edits"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": "a", "lines": 3}),
        ("edit", {"path": "a", "hash": "h", "edits": []}),
        ("edit", {"path": "a", "hash": "h", "edits": [{"op": "swap", "start": 1}]}),
        ("bash", {"command": "x", "timeout_s": 0}),
        ("bash", {"command": ""}),
        ("code_grep", {"pattern": "x", "case": "upper"}),
        ("code_grep", {"pattern": "x", "context": 21}),
        ("code_grep", {"pattern": "x", "max_results": 0}),
        ("code_files", {"query": "x", "path": "y"}),
        ("git", {"command": "push"}),
        ("git", {"command": "log", "args": "-p"}),
        ("code_map", {"depth": 0}),
        ("code_symbols", {"query": ""}),
    ],
)
def test_other_arguments_are_refused(bench, name, arguments):
    with pytest.raises(msgspec.ValidationError):
        bench.decoded(name, arguments)


def test_nothing_is_loaded_before_the_first_call():
    code = (
        "import sys; from tinsmith.tools import builtin_tools; from tinsmith.domain.ports import NoDocuments;"
        "builtin_tools(NoDocuments(), cache_dir='/tmp/x');"
        "names = ('tinsmith.tools.bash', 'tinsmith.tools.ports', 'tinsmith.proc.runner', 'difflib', 'shlex', 're2');"
        "sys.exit(','.join(name for name in names if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_redaction_keeps_the_number_of_lines():
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----END PRIVATE KEY-----"
    text = f"a\n{key}\nb sk-{'x' * 20} c\nplain sk-short eyJ ghp_1\n"
    marks = "\n".join([MARK] * 4)
    assert redact(text) == f"a\n{marks}\nb {MARK} c\nplain sk-short eyJ ghp_1\n"
    assert redact("my value-1", ("value-1",)) == f"my {MARK}"
