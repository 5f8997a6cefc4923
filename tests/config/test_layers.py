"""Trees: merging, provenance, paths, what may be changed and what it is read as."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.config.layers import (
    check_overridable,
    default_tree,
    is_overridable,
    leaves,
    merge,
    nearest_path,
    provenance,
    split_unknown,
    value_at,
    with_value,
    without_value,
)
from tinsmith.config.overrides import coerce, set_override, unset_override
from tinsmith.domain.errors import PolicyError, SchemaError
from tinsmith.domain.settings import Settings

DEFAULTS = {
    "index_file": "INDEX.md",
    "active_role": "direct",
    "permission_mode": "ask",
    "models": {},
    "empty_response_retry_max_retries": 2,
    "empty_response_retry_backoff_ms": [500, 1000],
    "llm_config": {
        "api_key_env": "LLM_API_KEY",
        "retry_max_retries": 2,
        "retry_backoff_ms": [2000, 8000],
        "stream_retry_after_output": False,
        "timeout": 600,
        "connect_timeout": 120,
        "send_timeout": 30,
        "stream_stall_timeout": 120,
        "headers": {},
        "switches": {},
    },
    "context_management": {
        "enabled": True,
        "tool_output_keep_rounds": 7,
        "tool_output_elide_over_chars": 1024,
        "trim_threshold_pct": 80,
    },
    "dispatch": {"max_parallel": 3},
    "store": {},
    "services": {},
}
OVERRIDABLE = [
    "default_model",
    "index_file",
    "active_role",
    "tool_step_budget",
    "permission_mode",
    "models.default",
    "models.worker",
    "models.my.role",
    "empty_response_retry_max_retries",
    "empty_response_retry_backoff_ms",
    "llm_config.api_key_env",
    "llm_config.api_key_keyring",
    "llm_config.headers.x-title",
    "llm_config.headers.x.odd",
    "llm_config.retry_max_retries",
    "llm_config.retry_backoff_ms",
    "llm_config.stream_retry_after_output",
    "llm_config.timeout",
    "llm_config.connect_timeout",
    "llm_config.send_timeout",
    "llm_config.stream_stall_timeout",
    "llm_config.dialect",
    "llm_config.base_url",
    "llm_config.context_window",
    "llm_config.reasoning_effort",
    "llm_config.switches.merge_roles",
    "llm_config.switches.bridge_results",
    "llm_config.switches.replay_reasoning",
    "llm_config.switches.empty_content",
    "llm_config.switches.stream_options",
    "context_management.enabled",
    "context_management.tool_output_keep_rounds",
    "context_management.tool_output_elide_over_chars",
    "context_management.trim_threshold_pct",
    "dispatch.max_parallel",
]

trees = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2), max_size=3),
    lambda below: st.dictionaries(st.sampled_from("xyz"), below, max_size=3),
    max_leaves=6,
)


def test_the_defaults():
    assert default_tree() == DEFAULTS
    assert msgspec.convert(default_tree(), Settings) == Settings()


@given(trees, trees, trees)
def test_merging_is_associative_and_keeps_its_arguments(first, second, third):
    before = repr((first, second, third))
    assert merge(merge(first, second), third) == merge(first, merge(second, third)) == merge(first, second, third)
    assert merge(first, {}) == merge({}, first) == first
    assert merge(first, first) == first
    assert repr((first, second, third)) == before


def test_scalars_and_lists_replace_groups_merge():
    low = {"a": 1, "b": [1, 2], "c": {"d": 1, "e": [3]}, "f": 5}
    high = {"a": 2, "b": [9], "c": {"e": []}, "g": {"h": 1}}
    assert merge(low, high) == {"a": 2, "b": [9], "c": {"d": 1, "e": []}, "f": 5, "g": {"h": 1}}


@given(trees)
def test_a_tree_is_made_of_its_leaves(tree):
    rebuilt = {}
    for path, value in leaves(tree):
        rebuilt = with_value(rebuilt, path, value)
        assert value_at(tree, path) == value
    assert dict(leaves(rebuilt)) == dict(leaves(tree))


def test_provenance_names_the_highest_layer_of_every_leaf():
    layers = {
        "defaults": default_tree(),
        "user": {"llm_config": {"timeout": 5, "base_url": "http://a"}, "models": {"direct": "m"}},
        "persisted": {"llm_config": {"timeout": 6}, "tool_step_budget": 9},
        "ephemeral": {"models": {"my.role": "x"}, "default_model": None},
    }
    found = provenance(layers)
    assert {path: layer for path, layer in found.items() if layer != "defaults"} == {
        "llm_config.timeout": "persisted",
        "llm_config.base_url": "user",
        "models.direct": "user",
        "models.my.role": "ephemeral",
        "tool_step_budget": "persisted",
        "default_model": "ephemeral",
    }
    assert {path for path in OVERRIDABLE if not path.startswith(("models.", "llm_config.headers."))} <= set(found)


def test_unset_prunes_empty_parents_and_nothing_else():
    tree = {"llm_config": {"timeout": 5}, "models": {"a.b": "x", "a": "y"}, "default_model": "m"}
    assert without_value(tree, "llm_config.timeout") == {"models": {"a.b": "x", "a": "y"}, "default_model": "m"}
    assert without_value(tree, "models.a.b") == {
        "llm_config": {"timeout": 5},
        "models": {"a": "y"},
        "default_model": "m",
    }
    assert without_value(tree, "llm_config.base_url") == tree
    assert without_value(tree, "dispatch.max_parallel") == tree
    assert without_value({"default_model": "m"}, "default_model") == {}


@given(st.sampled_from(OVERRIDABLE), st.sampled_from(OVERRIDABLE), st.integers(1, 9))
def test_set_then_unset_is_what_was_there(first, second, value):
    tree = with_value({}, first, value)
    expected = {} if first == second else tree
    assert without_value(with_value(tree, second, value), second) == expected


def test_unknown_keys_are_told_apart_at_every_depth():
    tree = {
        "defaultModel": "x",
        "llm_config": {"timeout": -1, "time_out": 1, "deep": {"a": 1}},
        "models": {"anything": "m"},
        "dispatch": 5,
        "services": {"tool": {"web_search": {"depth": "deep", "colour": 1}, "else": {}}, "other": 1},
    }
    known, unknown = split_unknown(tree)
    assert known == {
        "llm_config": {"timeout": -1},
        "models": {"anything": "m"},
        "dispatch": 5,
        "services": {"tool": {"web_search": {"depth": "deep"}}},
    }
    assert sorted(unknown) == [
        "defaultModel",
        "llm_config.deep",
        "llm_config.time_out",
        "services.other",
        "services.tool.else",
        "services.tool.web_search.colour",
    ]


@pytest.mark.parametrize("path", OVERRIDABLE)
def test_what_may_be_changed(path):
    assert is_overridable(path)
    check_overridable(path)


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("llm_config.time_out", "llm_config.timeout"),
        ("llmConfig.baseUrl", "llm_config.base_url"),
        ("timeout", "llm_config.timeout"),
        ("base_url", "llm_config.base_url"),
        ("defaultModel", "default_model"),
        ("max_parallel", "dispatch.max_parallel"),
        ("model.worker", "models.worker"),
        ("permission-mode", "permission_mode"),
        ("services.tool.web_search.max_result", "services.tool.web_search.max_results"),
    ],
)
def test_an_unknown_path_is_refused_with_the_nearest(path, nearest):
    assert nearest_path(path) == nearest
    for change in (lambda: set_override({}, path, 1), lambda: unset_override({}, path)):
        with pytest.raises(SchemaError, match=f"did you mean `{nearest}`") as caught:
            change()
        assert (caught.value.code, caught.value.data) == ("unknownSetting", {"path": path, "nearest": nearest})


@pytest.mark.parametrize("path", ["llm_config", "models", "models.", "dispatch", "services", "", ".", "llm_config."])
def test_a_group_is_no_leaf(path):
    with pytest.raises(SchemaError) as caught:
        set_override({}, path, {})
    assert caught.value.code == "unknownSetting"


def test_services_are_not_changed_at_run_time():
    with pytest.raises(PolicyError, match=r"tinsmith\.json"):
        set_override({}, "services.tool.web_search.depth", "deep")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("80", 80),
        ("1.5", 1.5),
        ("false", False),
        ("null", None),
        ("[2000,8000]", [2000, 8000]),
        ('"80"', "80"),
        ('{"a": 1}', {"a": 1}),
        ("gpt-5", "gpt-5"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("", ""),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("True", "True"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
        (80, 80),
        ([1], [1]),
        (None, None),
        (False, False),
    ],
)
def test_a_text_is_read_as_json_when_it_is_json(written, read):
    assert coerce(written) == read
    assert type(coerce(written)) is type(read)


def test_a_valid_change_gives_a_new_patch():
    patch = {"models": {"direct": "a"}}
    assert set_override(patch, "llm_config.retry_backoff_ms", "[2000,8000]") == {
        "models": {"direct": "a"},
        "llm_config": {"retry_backoff_ms": [2000, 8000]},
    }
    assert set_override(patch, "models.direct", "b") == {"models": {"direct": "b"}}
    assert set_override(patch, "tool_step_budget", None) == {"models": {"direct": "a"}, "tool_step_budget": None}
    assert unset_override(patch, "models.direct") == {}
    assert patch == {"models": {"direct": "a"}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("context_management.trim_threshold_pct", "0"),
        ("default_model", "123"),
        ("active_role", "worker"),
        ("llm_config.timeout", {"a": 1}),
        ("permission_mode", "yolo"),
    ],
)
def test_an_invalid_change_is_refused_with_its_path(path, value):
    with pytest.raises(SchemaError, match=f"`{path}") as caught:
        set_override({}, path, value)
    assert caught.value.code == "invalidSetting"
    assert caught.value.data["path"].startswith(path)


def test_a_faulty_leaf_of_an_old_patch_can_be_taken_out():
    patch = {"permission_mode": "no longer known", "default_model": "m"}
    with pytest.raises(SchemaError, match="permission_mode"):
        set_override(patch, "default_model", "n")
    assert unset_override(patch, "permission_mode") == {"default_model": "m"}
