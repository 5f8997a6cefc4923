"""The permission table, row by row, and rules on top of it."""

import pytest

from tinsmith.domain.policy import Access, CommandPart, Rule, ToolSubject, decide, judge, rule_for
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


def command(*parts: CommandPart, **more) -> Access:
    text = "; ".join(" ".join(part.argv) for part in parts)
    return Access("run", "title", SUBJECT, text, parts=parts, **more)


def part(text: str, command_class="unknown", *, is_plain=True) -> CommandPart:
    return CommandPart(tuple(text.split()), command_class, is_plain)


def prefix(text: str, effect="allow", **more) -> Rule:
    return Rule("r", effect, "bash", text, "conversation", prefix=tuple(text.split()), **more)


def whole(text: str, **more) -> Rule:
    return Rule("r", "allow", "bash", text, "conversation", **more)


@pytest.mark.parametrize(
    ("rules", "access", "word"),
    [
        ([prefix("git commit")], command(part("git commit -m x")), "run"),
        ([prefix("git commit")], command(part("git push")), "ask"),
        ([prefix("git commit")], command(part("git commit-tree")), "ask"),
        ([prefix("make test")], command(part("make test"), part("tail -5", "read")), "run"),
        ([prefix("make test")], command(part("cd x", "read"), part("make test")), "ask"),
        ([prefix("make test")], command(part("make test"), part("make install")), "ask"),
        ([prefix("make test"), prefix("make lint")], command(part("make test"), part("make lint")), "run"),
        ([prefix("make test")], command(part("make test", is_plain=False)), "ask"),
        ([prefix("git push")], command(part("git push --force", "destructive")), "ask"),
        ([prefix("git push", command_class="destructive")], command(part("git push -f", "destructive")), "run"),
        ([prefix("git push")], command(part("sudo git push", "privileged"), part("git push")), "ask"),
        ([prefix("git push", "deny"), prefix("git")], command(part("ls", "read"), part("git push")), "refuse"),
        ([prefix("git push", "deny")], command(part("git push", is_plain=False), command_class="network"), "refuse"),
        ([prefix("git push", "ask"), prefix("git")], command(part("git push")), "ask"),
        ([prefix("git")], command(part("git push"), grant="network"), "ask"),
        ([prefix("git")], command(part("git push"), grant="unsandboxed"), "ask"),
        ([prefix("git", grant="network")], command(part("git push")), "run"),
        ([prefix("git", grant="network")], command(part("git push"), grant="network"), "run"),
        ([prefix("git", grant="network")], command(part("git push"), grant="unsandboxed"), "ask"),
        ([prefix("git", grant="unsandboxed")], command(part("git push")), "run"),
        ([prefix("git", grant="unsandboxed")], command(part("git push"), grant="network"), "run"),
        ([prefix("git", grant="unsandboxed")], command(part("git push"), grant="unsandboxed"), "run"),
        ([prefix("git", "deny")], command(part("git push"), grant="network"), "refuse"),
        ([whole("./x")], command(part("./x"), grant="network"), "ask"),
        ([whole("./x", grant="network")], command(part("./x"), grant="network"), "run"),
        ([whole("./x", grant="network")], command(part("./x"), grant="unsandboxed"), "ask"),
        ([prefix("git")], command(), "ask"),
        ([prefix("git push", "deny")], command(command_class="read"), "ask"),
        ([], command(part("ls", "read"), command_class="read"), "run"),
    ],
)
def test_rules_by_their_first_words(rules, access, word):
    assert judge("ask", access, "bash", tuple(rules), "t1") == word


@pytest.mark.parametrize("grant", ["network", "unsandboxed"])
@pytest.mark.parametrize("command_class", ["read", "write_workspace", "network", "unknown"])
def test_a_grant_asks_in_every_mode_but_the_one_that_refuses(grant, command_class):
    wanted = command(part("ls", command_class), command_class=command_class, grant=grant)
    assert [decide(mode, wanted) for mode in MODES] == ["refuse", "ask", "ask", "ask"]
    assert judge("read_only", wanted, "bash", (prefix("ls", grant="unsandboxed"),), "t1") == "refuse"


@pytest.mark.parametrize(
    ("access", "text"),
    [
        (command(part("git commit -m x"), rule_prefix=("git", "commit")), "bash(git commit …)"),
        (command(part("./run.sh --fast")), "bash(./run.sh --fast)"),
        (command(part("npm ci"), rule_prefix=("npm", "ci"), grant="network"), "bash(npm ci …) with network"),
        (command(part("./x"), grant="network"), "bash(./x) with network"),
        (command(part("npm ci"), rule_prefix=("npm", "ci"), grant="unsandboxed"), "bash(npm ci …) without the sandbox"),
        (Access("change", "title", SUBJECT, "src/a.py"), "edit(src/a.py)"),
    ],
)
def test_the_rule_that_remembers_an_answer_allows_the_same_again(access, text):
    tool = text.partition("(")[0]
    made = rule_for(access, tool, "turn", "t1")
    assert made.text == text
    assert judge("ask", access, tool, (made,), "t1") == "run"
    assert judge("ask", access, tool, (made,), "t2") == "ask"


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
