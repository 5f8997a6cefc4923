"""From files, variables and trees to the effective settings: precedence, provenance, problems, and what is imported."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.config import jsonc
from tinsmith.config.directories import Directories, find_directories
from tinsmith.config.layers import default_tree
from tinsmith.config.load import Effective, Problem, load
from tinsmith.domain.settings import ContextSettings, LlmSettings, Settings


def effective(directory, content=None, environment=None, **more) -> Effective:
    """Load with a user's file of this content, text or bytes."""
    path = directory / "tinsmith.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(user_file=str(path), environment=environment or {}, **more)


def test_nothing_configured_gives_the_defaults(tmp_path):
    assert effective(tmp_path) == Effective(
        settings=Settings(),
        tree=default_tree(),
        layers={"defaults": default_tree(), "user": {}, "persisted": {}, "ephemeral": {}},
        provenance=effective(tmp_path).provenance,
        problems=(),
        version=effective(tmp_path).version,
        validated=frozenset(),
    )
    assert set(effective(tmp_path).provenance.values()) == {"defaults"}


def test_layers_stand_over_each_other(tmp_path):
    found = effective(
        tmp_path,
        json.dumps(
            {
                "default_model": "file",
                "models": {"direct": "file", "worker": "file"},
                "llm_config": {"timeout": 1, "connect_timeout": 1, "send_timeout": 1, "retry_backoff_ms": [1, 2, 3]},
            }
        ),
        {"TINSMITH_MODEL": "variable", "TINSMITH_BASE_URL": "http://variable"},
        persisted={"models": {"direct": "patch"}, "llm_config": {"connect_timeout": 2, "send_timeout": 2}},
        editor={"llm_config": {"send_timeout": 3, "retry_backoff_ms": [9], "base_url": "http://editor"}},
        command_line={"llm_config": {"base_url": "http://command"}, "context_management": {"enabled": False}},
    )
    assert found.problems == ()
    assert found.settings == Settings(
        default_model="variable",
        models={"direct": "patch", "worker": "file"},
        llm_config=LlmSettings(
            timeout=1, connect_timeout=2, send_timeout=3, retry_backoff_ms=(9,), base_url="http://command"
        ),
        context_management=ContextSettings(enabled=False),
    )
    assert found.layers["persisted"] == {
        "models": {"direct": "patch"},
        "llm_config": {"connect_timeout": 2, "send_timeout": 2},
    }
    assert found.layers["ephemeral"] == {
        "default_model": "variable",
        "llm_config": {"send_timeout": 3, "retry_backoff_ms": [9], "base_url": "http://command"},
        "context_management": {"enabled": False},
    }
    assert found.tree["llm_config"]["send_timeout"] == 3
    assert {path: layer for path, layer in found.provenance.items() if layer != "defaults"} == {
        "default_model": "ephemeral",
        "models.direct": "persisted",
        "models.worker": "user",
        "llm_config.timeout": "user",
        "llm_config.connect_timeout": "persisted",
        "llm_config.send_timeout": "ephemeral",
        "llm_config.retry_backoff_ms": "ephemeral",
        "llm_config.base_url": "ephemeral",
        "context_management.enabled": "ephemeral",
    }


def test_null_makes_absent_what_a_lower_layer_set(tmp_path):
    found = effective(tmp_path, '{"default_model": "m", "tool_step_budget": 5}', editor={"default_model": None})
    assert (found.settings.default_model, found.settings.tool_step_budget) == (None, 5)
    assert "default_model" not in found.tree
    assert found.provenance["default_model"] == "ephemeral"


def test_a_faulty_source_is_left_out_alone_and_named(tmp_path):
    found = effective(
        tmp_path,
        '{"llm_config": {"timeout": -1, "base_url": "http://file"}, "default_model": "file"}',
        {"TINSMITH_MODEL": "variable", "TINSMITH_BASE_URL": "variable"},
        persisted={"permission_mode": "yolo", "active_role": "orchestrator"},
        editor="not a tree",
        command_line={"tool_step_budget": 3},
    )
    assert found.settings == Settings(default_model="variable", tool_step_budget=3)
    path = str(tmp_path / "tinsmith.json")
    later = "Correct it; until then everything from here is left out."
    assert [problem.text for problem in found.problems] == [
        f"{path}: `llm_config.timeout` must be greater than 0. {later}",
        f"the settings changed at run time: `permission_mode` must be 'read_only', 'ask', 'edits' or 'full'. {later}",
        (
            "TINSMITH_BASE_URL: `llm_config.base_url` must be an http:// or https:// URL such as "
            f"http://127.0.0.1:8080/v1. {later}"
        ),
        "the editor's settings: must be an object of settings. Correct it; until then it is left out.",
    ]
    assert [problem.path for problem in found.problems] == [
        "llm_config.timeout",
        "permission_mode",
        "llm_config.base_url",
        "",
    ]


def test_an_unknown_key_is_reported_and_the_rest_of_its_layer_counts(tmp_path):
    found = effective(tmp_path, '{"$schema": "x", "defaultModel": "a", "default_model": "b"}')
    assert found.settings.default_model == "b"
    assert found.layers["user"] == {"default_model": "b"}
    assert found.problems == (
        Problem(
            str(tmp_path / "tinsmith.json"),
            "`defaultModel` is not a setting and is ignored; did you mean `default_model`?",
            "defaultModel",
        ),
    )


@pytest.mark.parametrize("nothing", [None, {}, []])
def test_an_editor_without_settings(tmp_path, nothing):
    assert effective(tmp_path, editor=nothing) == effective(tmp_path)


def test_empty_variables_say_nothing(tmp_path):
    assert effective(tmp_path, environment={"TINSMITH_MODEL": "", "TINSMITH_BASE_URL": ""}) == effective(tmp_path)


def test_the_version_changes_with_any_layer_and_comes_back(tmp_path):
    versions = [
        effective(tmp_path).version,
        effective(tmp_path, editor={"default_model": "a"}).version,
        effective(tmp_path, persisted={"default_model": "a"}).version,
        effective(tmp_path, persisted={"default_model": "b"}).version,
    ]
    assert len(set(versions)) == 4
    assert effective(tmp_path, editor={"default_model": "a"}).version == versions[1]
    assert all(0 <= version < 2**48 for version in versions)


# files


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_file_with_a_bom_applies(tmp_path, bom):
    """CFG-01."""
    found = effective(tmp_path, bom + b'{"default_model":"m-test"}\n')
    assert (found.settings.default_model, found.problems) == ("m-test", ())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8"])
def test_a_file_in_another_encoding_of_unicode_applies(tmp_path, encoding):
    assert effective(tmp_path, '{"default_model": "mü"}'.encode(encoding)).settings.default_model == "mü"


def test_a_file_with_comments_and_trailing_commas_applies(tmp_path):
    """CFG-03: the URL in a string stays whole."""
    text = """{
      // a server on this machine
      "llm_config": {"base_url": "http://127.0.0.1:8080/v1", /* , } */ "retry_backoff_ms": [1, 2,],},
      "models": {"direct": "/* keep */ // too ,}", },
    }"""
    found = effective(tmp_path, text)
    assert found.problems == ()
    assert found.settings.llm_config.base_url == "http://127.0.0.1:8080/v1"
    assert found.settings.llm_config.retry_backoff_ms == (1, 2)
    assert found.settings.models == {"direct": "/* keep */ // too ,}"}


@pytest.mark.parametrize("content", [b"", b" \r\n", b"// nothing yet\n", b"\xef\xbb\xbf"])
def test_a_file_without_settings_is_fine(tmp_path, content):
    assert effective(tmp_path, content) == effective(tmp_path, "{}")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{\n  "a": 1\n  "b": 2\n}', 3),
        (b'{\n // c\n /* d\n */ "a": nope}', 4),
        (b'{"a": "b', 1),
        (b'{\n"a": 1,,}', 2),
        (b'{"a": 1}}', 1),
        (b"{\n/* open", 2),
        (b"\n\n[1, 2", 3),
        (b"\xff\xfe\xff", 0),
        (b'{"a": "\xff"}', 0),
        (b"[" * 200_000, 0),
        (b'{"tool_step_budget": ' + b"9" * 5000 + b"}", 0),
    ],
)
def test_a_broken_file_is_reported_with_its_line_and_left_out(tmp_path, content, line):
    found = effective(tmp_path, content, persisted={"default_model": "m"})
    assert found.settings == Settings(default_model="m")
    (problem,) = found.problems
    assert (problem.source, problem.line) == (str(tmp_path / "tinsmith.json"), line)
    assert (f"line {line}," in problem.text) == (line > 0)
    assert "whole file is left out" in problem.text


@pytest.mark.parametrize("content", [b"[1]", b'"text"', b"5", b"null // and so on"])
def test_a_file_that_holds_no_object_is_reported(tmp_path, content):
    found = effective(tmp_path, content)
    assert found.settings == Settings()
    assert [problem.text.rpartition(":")[2] for problem in found.problems] == (
        []
        if content.startswith(b"null")
        else [" must be an object of settings. Correct it; until then it is left out."]
    )


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    (tmp_path / "tinsmith.json").mkdir()
    (problem,) = effective(tmp_path).problems
    assert "cannot be read (Is a directory)" in problem.text
    (tmp_path / "plain").write_text("")
    (problem,) = load(user_file=str(tmp_path / "plain" / "tinsmith.json"), environment={}).problems
    assert "cannot be read (Not a directory)" in problem.text


def test_reading_leaves_the_file_alone(tmp_path):
    text = '{"default_model": "m", // mine\n}'
    effective(tmp_path, text)
    assert (tmp_path / "tinsmith.json").read_text() == text
    assert os.listdir(tmp_path) == ["tinsmith.json"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=10,
)


@given(json_values, st.sampled_from([None, 2]))
def test_plain_json_reads_as_json(value, indent):
    assert jsonc.parse(json.dumps(value, indent=indent)) == value


@given(st.lists(st.text(st.sampled_from('/*,}]"\\ \na'), max_size=12), max_size=4))
def test_comments_and_commas_inside_strings_stay(texts):
    written = "[ // first\n" + "".join(f"{json.dumps(text)} /* , */ ,\n" for text in texts) + "/*]*/ ]//"
    assert jsonc.parse(written) == texts


# what was found valid before


def test_a_tree_that_was_found_valid_is_not_checked_again(tmp_path):
    first = effective(tmp_path, '{"default_model": "m"}', editor={"tool_step_budget": 5})
    assert len(first.validated) == 2
    again = effective(tmp_path, editor={"tool_step_budget": 5}, known_valid=first.validated)
    assert again.validated == frozenset()
    assert again.settings == first.settings
    other = effective(tmp_path, editor={"tool_step_budget": 6}, known_valid=first.validated)
    assert len(other.validated - first.validated) == 1


def test_a_faulty_tree_is_never_remembered(tmp_path):
    assert effective(tmp_path, '{"tool_step_budget": -1}').validated == frozenset()


def test_pydantic_stays_away_unless_a_tree_is_new(tmp_path):
    (tmp_path / "tinsmith.json").write_text('{"default_model": "m", "unknown": 1}')
    program = f"""
import sys
from tinsmith.config import directories, jsonc, layers, load, overrides, selection
def loads(**more):
    return load.load(user_file={str(tmp_path)!r} + more.pop("file", "/none"), environment={{}}, **more)
heavy = lambda: sorted({{"pydantic", "platformdirs", "lmdb", "httpx"}} & set(sys.modules))
loads()
defaults = heavy()
validated = set(sys.argv[1:])
known = loads(file="/tinsmith.json", known_valid=validated)
print(defaults, heavy(), known.settings.default_model, *known.validated)
"""

    def run(*hashes: str) -> list[str]:
        command = [sys.executable, "-c", program, *hashes]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    defaults, heavy, model, digest = run()
    assert (defaults, heavy, model) == ("[]", "['pydantic']", "m")
    assert run(digest) == ["[]", "[]", "m"]


# directories


def test_directories_of_the_environment():
    environment = {"TINSMITH_DATA_DIR": "/d", "TINSMITH_CONFIG_DIR": "~/c", "TINSMITH_CACHE_DIR": "x"}
    found = find_directories(environment)
    assert found == Directories("/d", os.path.expanduser("~/c"), os.path.abspath("x"))
    assert (found.store, found.user_file) == ("/d/store", os.path.expanduser("~/c/tinsmith.json"))


def test_directories_of_the_platform(monkeypatch):
    for variable, path in (("XDG_DATA_HOME", "/data"), ("XDG_CONFIG_HOME", "/config"), ("XDG_CACHE_HOME", "/cache")):
        monkeypatch.setenv(variable, path)
    assert find_directories({"TINSMITH_DATA_DIR": ""}) == Directories(
        "/data/tinsmith", "/config/tinsmith", "/cache/tinsmith"
    )
