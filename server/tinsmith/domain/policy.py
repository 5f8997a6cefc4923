"""Who is asked before a call runs: the permission table, rules, and what a question is about. Pure."""

from typing import Any, Literal

import msgspec

PermissionMode = Literal["read_only", "ask", "edits", "full"]
Decision = Literal["run", "ask", "refuse"]
Action = Literal["look", "remember", "change", "run", "web"]
"""A row of the permission table: look (read, search), remember (notes), change (edit, write), run (bash), web."""
CommandClass = Literal["read", "write_workspace", "network", "destructive", "privileged", "unknown"]
Scope = Literal["once", "turn", "conversation", "workspace", "user"]
AnswerKind = Literal["allow", "deny", "cancelTurn"]


class FileDelta(msgspec.Struct, frozen=True):
    """How much one file changes: `added` and `removed` count lines."""

    path: str
    added: int
    removed: int
    op: Literal["edit", "create", "delete"] = "edit"
    before_hash: str = ""
    after_hash: str = ""


class CommandSubject(msgspec.Struct, frozen=True, tag="command"):
    """A shell command, exactly as it would run."""

    command: str
    cwd: str
    command_class: CommandClass = "unknown"


class EditSubject(msgspec.Struct, frozen=True, tag="edit"):
    """A change to files, with its unified diff."""

    files: tuple[FileDelta, ...]
    diff: str


class NetworkSubject(msgspec.Struct, frozen=True, tag="network"):
    """A request to a host."""

    host: str


class ToolSubject(msgspec.Struct, frozen=True, tag="tool"):
    """Any other call, by name and arguments."""

    name: str
    args: dict[str, Any]


Subject = CommandSubject | EditSubject | NetworkSubject | ToolSubject


class Access(msgspec.Struct, frozen=True):
    """What a call wants, as the gate needs to know it.

    `target` is what a rule matches: the command for `run`, the path for `change` and
    `look` (relative inside the workspace, absolute outside), the host for `web`.
    """

    action: Action
    title: str
    subject: Subject
    target: str = ""
    command_class: CommandClass = "unknown"
    is_outside: bool = False
    is_secret: bool = False
    paths: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """A remembered answer: `tool(target)`, for as long as `scope` lasts."""

    rule_id: str
    effect: Literal["allow", "ask", "deny"]
    tool: str
    target: str
    scope: Scope
    turn_id: str = ""

    @property
    def text(self) -> str:
        """The rule as a person reads it, such as `bash(make test)`."""
        return f"{self.tool}({self.target})"

    def matches(self, tool: str, access: Access, turn_id: str) -> bool:
        """Whether the rule speaks of this call; a rule of one turn is silent in every other."""
        in_scope = self.scope != "turn" or self.turn_id == turn_id
        return in_scope and self.tool == tool and self.target == access.target


_RUN, _ASK, _REFUSE = "run", "ask", "refuse"
_MODES: tuple[PermissionMode, ...] = ("read_only", "ask", "edits", "full")
_TABLE: dict[str, tuple[Decision, Decision, Decision, Decision]] = {
    "look": (_RUN, _RUN, _RUN, _RUN),
    "remember": (_RUN, _RUN, _RUN, _RUN),
    "change": (_REFUSE, _ASK, _RUN, _RUN),
    "run:read": (_RUN, _RUN, _RUN, _RUN),
    "run": (_REFUSE, _ASK, _ASK, _RUN),
    "web": (_ASK, _ASK, _ASK, _RUN),
    "outside": (_REFUSE, _ASK, _ASK, _ASK),
}
"""Source: the permission table of the behaviour page, one row a line, one column a mode."""


def decide(mode: PermissionMode, access: Access) -> Decision:
    """The table's word on one call, before rules."""
    row: str = access.action
    if access.action == "run" and access.command_class == "read":
        row = "run:read"
    if access.is_outside or access.is_secret:
        row = "outside"
    return _TABLE[row][_MODES.index(mode)]


def modes_that_run(access: Access) -> tuple[PermissionMode, ...]:
    """The modes in which this call would run without a question."""
    return tuple(mode for mode in _MODES if decide(mode, access) == "run")


def judge(mode: PermissionMode, access: Access, tool: str, rules: tuple[Rule, ...], turn_id: str) -> Decision:
    """The table's word after rules (deny > ask > allow). No rule lifts a refusal of the mode."""
    decision = decide(mode, access)
    if decision == "refuse":
        return decision
    effects = {rule.effect for rule in rules if rule.matches(tool, access, turn_id)}
    if "deny" in effects:
        return "refuse"
    if "ask" in effects:
        return "ask"
    return "run" if "allow" in effects else decision


class PermissionOption(msgspec.Struct, frozen=True):
    """One answer that may be given; `rule` is the exact text of what would be remembered."""

    option_id: str
    kind: AnswerKind
    scope: Scope
    label: str
    rule: str = ""


class PermissionQuestion(msgspec.Struct, frozen=True):
    """What a person is asked. `request_key` stays the same however often the question is sent."""

    request_key: str
    conversation_id: str
    turn_id: str
    call_id: str
    tool: str
    title: str
    subject: Subject
    options: tuple[PermissionOption, ...]


class PermissionAnswer(msgspec.Struct, frozen=True):
    """What the person answered; anything unknown reads as a deny."""

    option_id: str
    feedback: str = ""
