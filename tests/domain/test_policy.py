"""The permission table, row by row, and rules on top of it."""

import pytest

from tinsmith.domain.policy import Access, Rule, ToolSubject, decide, judge
from tinsmith.domain.role import ROLES, permits

SUBJECT = ToolSubject("x", {})
MODES = ("read_only", "ask", "edits", "full")


def access(action, **more):
    return Access(action, "title", SUBJECT, "target", **more)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (access("look"), "run run run run"),
        (access("remember"), "run run run run"),
        (access("change"), "refuse ask run run"),
        (access("run", command_class="read"), "run run run run"),
        (access("run", command_class="write_workspace"), "refuse ask ask run"),
        (access("run", command_class="network"), "refuse ask ask run"),
        (access("run", command_class="destructive"), "refuse ask ask run"),
        (access("run", command_class="privileged"), "refuse ask ask run"),
        (access("run"), "refuse ask ask run"),
        (access("web"), "ask ask ask run"),
        (access("look", is_outside=True), "refuse ask ask ask"),
        (access("look", is_secret=True), "refuse ask ask ask"),
        (access("change", is_outside=True), "refuse ask ask ask"),
    ],
)
def test_the_table(what, words):
    assert [decide(mode, what) for mode in MODES] == words.split()


def rule(effect, scope="conversation", target="target", turn_id=""):
    return Rule("r", effect, "bash", target, scope, turn_id)


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ((), "ask"),
        ((rule("allow"),), "run"),
        ((rule("allow"), rule("deny")), "refuse"),
        ((rule("allow"), rule("ask")), "ask"),
        ((rule("allow", target="other"),), "ask"),
        ((rule("allow", "turn", turn_id="t1"),), "run"),
        ((rule("allow", "turn", turn_id="t2"),), "ask"),
    ],
)
def test_rules_deny_before_ask_before_allow(rules, word):
    assert judge("ask", access("run"), "bash", rules, "t1") == word


def test_no_rule_lifts_a_refusal_of_the_mode():
    assert judge("read_only", access("run"), "bash", (rule("allow"),), "t") == "refuse"


TOOLS = (
    "bash read code_map code_grep code_files code_symbols code_outline git edit write diagnostics plan "
    "web_search web_fetch note dispatch record recall report ask_user"
).split()


@pytest.mark.parametrize(
    ("role", "denied"),
    [
        ("direct", {"git", "report"}),
        ("orchestrator", {"bash", "edit", "write", "web_search", "web_fetch", "report"}),
        ("worker", {"git", "note", "record", "recall", "ask_user"}),
        ("explorer", {"git", "edit", "write", "plan", "note", "dispatch", "record", "recall", "ask_user"}),
        ("nobody", set(TOOLS)),
    ],
)
def test_the_matrix(role, denied):
    assert {tool for tool in TOOLS if not permits(role, tool)} == denied
    assert not permits(role, "unheard_of")


def test_only_two_roles_face_a_user():
    assert [name for name, role in ROLES.items() if role.is_user_facing] == ["direct", "orchestrator"]
