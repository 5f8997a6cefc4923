"""The user's settings file is changed in place: comments and other keys stay, a faulty file is left alone."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.config import jsonc
from tinsmith.config.user_file import plan_change, write_change
from tinsmith.domain.errors import AgentError

WANTED = {"default_model": "m", "llm_config.base_url": "http://127.0.0.1:1/v1"}
KEYS = st.sampled_from(["a", "b", 'q"//', "c,}"])
TREES = st.recursive(
    st.integers() | st.text('a/*,}]"\\\n', max_size=5) | st.lists(st.integers(), max_size=2),
    lambda below: st.dictionaries(KEYS, below, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            None,
            '{\n  "default_model": "m",\n  "llm_config": {\n    "base_url": "http://127.0.0.1:1/v1"\n  }\n}\n',
        ),
        (
            "// mine\n",
            '// mine\n{\n  "default_model": "m",\n  "llm_config": {\n    "base_url": "http://127.0.0.1:1/v1"\n  }\n}\n',
        ),
        (
            '{ // mine\n  "default_model": "old", // why\n  "llm_config": {"timeout": 5},\n  "new": [1,], /* e */\n}\n',
            (
                '{ // mine\n  "default_model": "m", // why\n  "llm_config": {"timeout": 5,\n'
                '    "base_url": "http://127.0.0.1:1/v1"\n  },\n  "new": [1,], /* e */\n}\n'
            ),
        ),
        (
            '\ufeff{"llm_config": {"base_url": "x:y" // "base_url": "no"\n}, "active_role": "direct" // last\n}',
            None,
        ),
        (
            '\ufeff{"llm_config": {"base_url": "http://old" // "base_url": "no"\n}, "active_role": "direct" // last\n}',
            (
                '\ufeff{"llm_config": {"base_url": "http://127.0.0.1:1/v1" // "base_url": "no"\n}, '
                '"active_role": "direct", // last\n  "default_model": "m"\n}'
            ),
        ),
    ],
)
def test_only_the_leaves_change(tmp_path, before, after):
    path = tmp_path / "made" / "tinsmith.json"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before.encode())
    if after is None:
        with pytest.raises(AgentError, match="base_url"):
            plan_change(str(path), WANTED)
        assert path.read_bytes() == before.encode()
        return
    write_change(plan_change(str(path), WANTED))
    assert path.read_bytes() == after.encode()
    assert os.listdir(path.parent) == ["tinsmith.json"]


@given(st.dictionaries(KEYS, TREES, max_size=4), KEYS, KEYS, st.sampled_from([None, 2]))
def test_a_member_is_set_and_nothing_else(tree, outer, inner, indent):
    tree = {**tree, outer: tree[outer] if isinstance(tree.get(outer), dict) else {}}
    found = jsonc.parse(jsonc.with_member(json.dumps(tree, indent=indent), (outer, inner), "new"))
    assert found == {**tree, outer: {**tree[outer], inner: "new"}}
    assert list(found) == list(tree)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"default_model": ', "line 1"),
        (b"[1]", "must be an object"),
        (b'{"llm_config": {"timeout": -1}}', "`llm_config.timeout` must be greater than 0"),
        (b'{"llm_config": 5}', "llm_config"),
        ('{"a": 1}'.encode("utf-32"), "Save it as UTF-8 JSON"),
    ],
)
def test_a_faulty_file_is_left_alone(tmp_path, text, says):
    path = tmp_path / "tinsmith.json"
    path.write_bytes(text)
    with pytest.raises(AgentError) as refused:
        plan_change(str(path), WANTED)
    assert refused.value.code == "faultyFile"
    assert says in refused.value.message
    assert path.read_bytes() == text


def test_a_link_stays_one_and_the_mode_is_kept(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "tinsmith.json"
    real.write_text("{}\n")
    real.chmod(0o600)
    link.symlink_to(real)
    write_change(plan_change(str(link), {"default_model": "m"}))
    assert link.is_symlink()
    assert (jsonc.parse(real.read_text()), real.stat().st_mode & 0o777) == ({"default_model": "m"}, 0o600)


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "tinsmith.json"
    path.write_text("{}")
    change = plan_change(str(path), WANTED)
    path.write_text('{"active_role": "orchestrator"}')
    with pytest.raises(AgentError) as refused:
        write_change(change)
    assert refused.value.code == "notWritten"
    assert path.read_text() == '{"active_role": "orchestrator"}'
