"""Roles: what may be dispatched and which tools exist. One table, no behaviour."""

from typing import Literal

import msgspec

RoleName = Literal["direct", "orchestrator", "worker", "explorer"]


class Role(msgspec.Struct, frozen=True):
    """One row of the role catalogue."""

    name: str
    is_user_facing: bool
    dispatch_targets: tuple[str, ...]
    tools: frozenset[str]


_LOOKING = {
    "read",
    "code_map",
    "code_grep",
    "code_files",
    "code_symbols",
    "code_outline",
    "diagnostics",
}
_WEB = {"web_search", "web_fetch"}
_MEMORY = {"note", "record", "recall"}
_CHANGING = {"edit", "write"}

ROLES: dict[str, Role] = {
    role.name: role
    for role in (
        Role(
            "direct",
            True,
            ("worker", "explorer"),
            frozenset(_LOOKING | _WEB | _MEMORY | _CHANGING | {"bash", "plan", "dispatch", "ask_user"}),
        ),
        Role(
            "orchestrator",
            True,
            ("worker", "explorer"),
            frozenset(_LOOKING | _MEMORY | {"git", "plan", "dispatch", "ask_user"}),
        ),
        Role(
            "worker",
            False,
            ("explorer",),
            frozenset(_LOOKING | _WEB | _CHANGING | {"bash", "plan", "dispatch", "report"}),
        ),
        Role("explorer", False, (), frozenset(_LOOKING | _WEB | {"bash", "report"})),
    )
}
"""Source: the role and tool tables of the behaviour page; anything not listed is denied."""


def permits(role: str, tool: str) -> bool:
    """Whether the matrix gives `role` the built-in `tool`. Unknown roles and tools are denied."""
    known = ROLES.get(role)
    return known is not None and tool in known.tools
