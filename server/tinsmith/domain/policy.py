"""Who is asked before a call runs: the permission table, rules, and what a question is about. Pure."""

from typing import Any, Literal

import msgspec

from tinsmith.domain.ids import new_id

PermissionMode = Literal["read_only", "ask", "edits", "full"]
Decision = Literal["run", "ask", "refuse"]
Action = Literal["look", "remember", "change", "run", "web"]
"""A row of the permission table: look (read, search), remember (notes), change (edit, write), run (bash), web."""
Grant = Literal["network", "unsandboxed"]
"""What a command is given beyond the sandbox: the network, or everything. The second holds the first."""
CommandClass = Literal["read", "write_workspace", "network", "destructive", "privileged", "unknown"]
Scope = Literal["once", "turn", "conversation", "workspace", "user"]
AnswerKind = Literal["allow", "deny", "cancelTurn"]


class CommandPart(msgspec.Struct, frozen=True):
    """One simple command of a script: its words, wrappers taken off, and what it may do.

    `is_plain` says that every word is known, and that its script was understood, assigns nothing and redirects no file.
    """

    argv: tuple[str, ...]
    command_class: CommandClass = "unknown"
    is_plain: bool = False


class FileDelta(msgspec.Struct, frozen=True):
    """How much one file changes: `added` and `removed` count lines."""

    path: str
    added: int
    removed: int
    op: Literal["edit", "create", "delete"] = "edit"
    before_hash: str = ""
    after_hash: str = ""


class CommandSubject(msgspec.Struct, frozen=True, tag="command"):
    """A shell command, exactly as it would run; `sandbox` says in what, and why when that is not the best."""

    command: str
    cwd: str
    command_class: CommandClass = "unknown"
    sandbox: str = ""


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
    `look` (relative inside the workspace, absolute outside), the host for `web`. A command that was understood has
    `parts` too, which rules match by their first words; `rule_prefix` is what a new rule would name. `notes` are
    sentences for the person who is asked.
    """

    action: Action
    title: str
    subject: Subject
    target: str = ""
    command_class: CommandClass = "unknown"
    is_outside: bool = False
    is_secret: bool = False
    grant: Grant | None = None
    paths: tuple[str, ...] = ()
    parts: tuple[CommandPart, ...] = ()
    rule_prefix: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """A remembered answer, for as long as `scope` lasts: to exactly `target`, or to commands that begin with `prefix`.

    A prefix allows commands up to `command_class`. No rule allows a grant beyond its own.
    """

    rule_id: str
    effect: Literal["allow", "ask", "deny"]
    tool: str
    target: str
    scope: Scope
    turn_id: str = ""
    prefix: tuple[str, ...] = ()
    command_class: CommandClass = "unknown"
    grant: Grant | None = None

    @property
    def text(self) -> str:
        """The rule as a person reads it: `bash(make test …)` for a prefix, `bash(./run.sh)` for a whole command."""
        words = f"{' '.join(self.prefix)} …" if self.prefix else self.target
        return f"{self.tool}({words}){_GRANTED[self.grant]}"

    def is_heard(self, tool: str, turn_id: str) -> bool:
        """Whether the rule is about this tool now; a rule of one turn is silent in every other."""
        return self.tool == tool and (self.scope != "turn" or self.turn_id == turn_id)

    def touches(self, access: Access) -> bool:
        """Whether it names the call, or any command of its script."""
        if not self.prefix:
            return self.target == access.target
        return any(part.argv[: len(self.prefix)] == self.prefix for part in access.parts)

    def reaches(self, grant: Grant | None) -> bool:
        """Whether it was given for as much as that, or for more."""
        grants = list(_GRANTED)
        return grants.index(self.grant) >= grants.index(grant)

    def covers(self, part: CommandPart) -> bool:
        """Whether it allows this command of a script."""
        is_named = bool(self.prefix) and part.argv[: len(self.prefix)] == self.prefix
        is_milder = part.command_class not in _SEVERE or part.command_class == self.command_class
        return is_named and part.is_plain and is_milder


_GRANTED: dict[Grant | None, str] = {None: "", "network": " with network", "unsandboxed": " without the sandbox"}
"""Each grant as a rule's last words, the least first."""
_SEVERE: frozenset[CommandClass] = frozenset({"destructive", "privileged"})
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
    if access.is_outside or access.is_secret or access.grant:
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
    heard = [rule for rule in rules if rule.is_heard(tool, turn_id)]
    effects = {rule.effect for rule in heard if rule.touches(access)}
    if "deny" in effects:
        return "refuse"
    if "ask" in effects or (_is_opaque(access) and any(rule.prefix and rule.effect != "allow" for rule in heard)):
        return "ask"
    is_allowed = _is_allowed(access, [rule for rule in heard if rule.effect == "allow"])
    return "run" if is_allowed else decision


def _is_opaque(access: Access) -> bool:
    """A command of which nothing was understood may be what a rule forbids."""
    return access.action == "run" and not access.parts


def _is_allowed(access: Access, rules: list[Rule]) -> bool:
    """By one rule for the whole call; or by rules for each command of it, where plain reading needs none."""
    fitting = [rule for rule in rules if rule.reaches(access.grant)]
    if any(not rule.prefix and rule.target == access.target for rule in fitting):
        return True
    return any(rule.covers(part) for rule in fitting for part in access.parts) and all(
        any(rule.covers(part) for rule in fitting) or _only_reads(part) for part in access.parts
    )


def _only_reads(part: CommandPart) -> bool:
    return part.is_plain and part.command_class == "read" and part.argv[0] != "cd"


def rule_for(access: Access, tool: str, scope: Scope, turn_id: str) -> Rule:
    """The rule that remembers an allowed call."""
    return Rule(
        rule_id=new_id("r"),
        effect="allow",
        tool=tool,
        target=access.target,
        scope=scope,
        turn_id=turn_id,
        prefix=access.rule_prefix,
        command_class=access.command_class,
        grant=access.grant,
    )


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
    notes: tuple[str, ...] = ()


class PermissionAnswer(msgspec.Struct, frozen=True):
    """What the person answered; anything unknown reads as a deny."""

    option_id: str
    feedback: str = ""
