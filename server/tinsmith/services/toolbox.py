"""Which tools a turn has: what the role's matrix and the tools' own lists leave. Pure."""

from collections.abc import Iterable

from tinsmith.domain.tool import ToolSpec
from tinsmith.engine.gate import is_offered


def offered(specs: Iterable[ToolSpec], role: str) -> tuple[ToolSpec, ...]:
    """The tools of `role`, in their fixed order."""
    return tuple(spec for spec in specs if is_offered(spec, role))
