"""The rules: what each setting may be, and how a fault is told."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.config.layers import default_tree, leaves, merge, split_unknown, with_value
from tinsmith.config.schema import find_faults, json_schema
from tinsmith.domain.settings import Settings, WebFetchSettings, WebSearchSettings

COUNTS = (
    "llm_config.retry_max_retries",
    "empty_response_retry_max_retries",
    "context_management.tool_output_keep_rounds",
    "context_management.tool_output_elide_over_chars",
)
SECONDS = (
    "llm_config.timeout",
    "llm_config.connect_timeout",
    "llm_config.send_timeout",
    "llm_config.stream_stall_timeout",
)
BACKOFFS = ("llm_config.retry_backoff_ms", "empty_response_retry_backoff_ms")
FLAGS = ("llm_config.stream_retry_after_output", "context_management.enabled")
POSITIVE = ("tool_step_budget", "dispatch.max_parallel")
INFINITY = float("inf")

SWITCHES = ("merge_roles", "bridge_results", "replay_reasoning", "empty_content", "stream_options")
GOOD = [
    *((path, value) for path in COUNTS for value in (0, 1, 10**6)),
    *((path, value) for path in SECONDS for value in (0.001, 1, 600)),
    *((path, value) for path in BACKOFFS for value in ([0], [1, 2.5], [500, 1000, 2000])),
    *((path, value) for path in FLAGS for value in (True, False)),
    *((path, value) for path in POSITIVE for value in (1, 50)),
    ("tool_step_budget", None),
    ("default_model", "m"),
    ("default_model", None),
    ("models", {}),
    ("models", {"direct": "m", "anything": "x"}),
    ("index_file", "INDEX.md"),
    ("index_file", "docs/a..b.md"),
    ("active_role", "orchestrator"),
    ("llm_config.api_key_env", "MY_KEY"),
    ("llm_config.api_key_keyring", "work"),
    ("llm_config.api_key_keyring", None),
    *(
        ("llm_config.headers", {name: text})
        for name, text in (
            ("x-title", "Tinsmith"),
            ("X.Odd-1", ""),
            ("authorization", "Bearer ${MY_KEY}"),
            ("api-key", "${AZURE_KEY}"),
            ("user-agent", "mine/1"),
        )
    ),
    *(("llm_config.dialect", name) for name in ("chat_completions", "responses", "anthropic", "ollama")),
    ("llm_config.dialect", None),
    *(("llm_config.reasoning_effort", value) for value in ("none", "minimal", "low", "high", "xhigh", "max", None)),
    *(("llm_config.context_window", value) for value in (1, 200_000, None)),
    *((f"llm_config.switches.{name}", value) for name in SWITCHES for value in (True, False, None)),
    ("llm_config.base_url", "http://127.0.0.1:8080/v1"),
    ("llm_config.base_url", "https://api.example.com"),
    ("llm_config.base_url", "http://[::1]:8080/v1"),
    ("llm_config.base_url", None),
    *(("permission_mode", mode) for mode in ("read_only", "ask", "edits", "full")),
    ("context_management.trim_threshold_pct", 100),
    ("context_management.trim_threshold_pct", 0.5),
    ("services", {"tool": {"web_search": {"depth": "deep", "max_results": 3}}}),
    ("services", {"tool": {"web_fetch": {"allowed_addresses": ["127.0.0.1:8000", "10.0.0.0/8", "[::1]:80", "::1"]}}}),
]
BAD = [
    *(
        ("services.tool.web_fetch.allowed_addresses", [value])
        for value in ("localhost", "10.0.0.1/8", "127.0.0.1:0", "127.0.0.1:x", "[::1", "", 5)
    ),
    *(("services.tool.web_search.depth", value) for value in ("deeper", 5, None)),
    *(("services.tool.web_search.max_results", value) for value in (0, 21, "3")),
    *((path, value) for path in COUNTS for value in (-1, 1.5, 2.0, "1", True, None, [])),
    *((path, value) for path in SECONDS for value in (0, -1, "1", True, None, INFINITY, float("nan"))),
    *((path, value) for path in BACKOFFS for value in ([], [-1], ["1"], 5, "[1]", None, [INFINITY], [True])),
    *((path, value) for path in FLAGS for value in (0, 1, "true", None)),
    *((path, value) for path in POSITIVE for value in (0, -1, 1.5, "5", True)),
    *(("default_model", value) for value in ("", 5, [], "\ud800")),
    *(("models", value) for value in ({"": "m"}, {"direct": ""}, {"direct": 5}, {"direct": None}, [], "m")),
    *(
        ("index_file", value)
        for value in ("", "/etc/passwd", "../x", "a/../b", "a\\..\\b", "\\x", "C:x", "C:\\x", "c:/x", "..", "a\0b", 5)
    ),
    *(("active_role", value) for value in ("worker", "explorer", "", "Direct", 5)),
    *(("llm_config.api_key_env", value) for value in ("", None, 5)),
    *(("llm_config.api_key_keyring", value) for value in ("", 5)),
    *(
        ("llm_config.headers", {name: text})
        for name, text in (
            ("", "x"),
            ("x y", "x"),
            ("x", "a\nb"),
            ("x", "é"),
            ("x", 5),
            ("x", None),
            ("Host", "h"),
            ("content-type", "text/x"),
            ("Authorization", "Bearer abc"),
            ("x-api-key", "$MY_KEY"),
            ("x-session-token", ""),
            ("x-title", "sk-" + "abc123" * 6),
        )
    ),
    *(("llm_config.headers", value) for value in ([], "x", None)),
    *(("llm_config.dialect", value) for value in ("openai", "", [])),
    *(("llm_config.reasoning_effort", value) for value in ("", "much", 5, True)),
    *(("llm_config.context_window", value) for value in (0, -1, 1.5, "5", True)),
    *((f"llm_config.switches.{name}", value) for name in SWITCHES for value in (0, "true", [])),
    *(
        ("llm_config.base_url", value)
        for value in (
            "",
            "127.0.0.1:8080",
            "ftp://x",
            "http://",
            "http:///v1",
            "http://x y",
            "http://x:99999",
            "file:/x",
            5,
        )
    ),
    *(("permission_mode", value) for value in ("yolo", "", None)),
    *(("context_management.trim_threshold_pct", value) for value in (0, -1, 100.1, "80", True)),
    *(
        (group, value)
        for group in ("llm_config", "context_management", "dispatch", "services")
        for value in (5, [], None)
    ),
    ("services", {"tool": 5}),
]


@pytest.mark.parametrize(("path", "value"), GOOD)
def test_good_values(path, value):
    tree = with_value({}, path, value)
    assert find_faults(tree) == []
    assert isinstance(msgspec.convert(merge(default_tree(), tree), Settings), Settings)


@pytest.mark.parametrize(("path", "value"), BAD)
def test_bad_values_are_named_by_their_path(path, value):
    faults = find_faults(with_value({}, path, value))
    assert len(faults) == 1
    faulty, words = faults[0]
    assert faulty == path or faulty.startswith(f"{path}.")
    assert words.startswith(("must ", "String", "List")), words


def test_every_fault_is_told_at_once_and_no_value_is_quoted():
    tree = {
        "llm_config": {"api_key_env": "", "timeout": "sk-secret"},
        "models": {"direct": 5},
        "active_role": "sk-secret",
    }
    assert find_faults(tree) == [
        ("active_role", "must be 'direct' or 'orchestrator'"),
        ("models.direct", "must be a valid string"),
        ("llm_config.api_key_env", "must not be empty"),
        ("llm_config.timeout", "must be a valid number"),
    ]


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**15, 10**400),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=8),
    st.lists(st.integers() | st.floats(), max_size=3),
)
paths = st.sampled_from(
    [path for path, _ in leaves(merge(default_tree(), {"default_model": "m", "models": {"a": "b"}}))]
)


@given(st.dictionaries(paths, values, max_size=4))
def test_whatever_is_found_valid_becomes_settings(assignments):
    tree = {}
    for path, value in assignments.items():
        tree = with_value(tree, path, value)
    if not find_faults(tree):
        assert isinstance(msgspec.convert(merge(default_tree(), tree), Settings), Settings)


def test_the_schema_for_editors_knows_every_setting_and_its_default():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False

    def described(node, above=""):
        for name, child in node["properties"].items():
            target = schema["$defs"][child["$ref"].rpartition("/")[2]] if "$ref" in child else child
            if "properties" in target:
                yield from described(target, f"{above}{name}.")
            else:
                yield above + name, child.get("default"), "description" in child

    found = list(described(schema))
    services = {"tool": {"web_search": WebSearchSettings(), "web_fetch": WebFetchSettings()}}
    every = {**msgspec.structs.asdict(Settings()), "services": services}
    expected = {**dict(leaves(msgspec.json.decode(msgspec.json.encode(every)))), "models": {}, "llm_config.headers": {}}
    assert {path: default for path, default, _ in found if path != "$schema"} == expected
    assert [path for path, _, is_described in found if not is_described] == ["$schema"]


@given(st.dictionaries(st.text(max_size=5), values, max_size=5))
def test_what_is_left_of_unknown_keys_is_known(tree):
    known, unknown = split_unknown(tree)
    assert set(known) | set(unknown) == set(tree)
    assert split_unknown(known) == (known, [])
