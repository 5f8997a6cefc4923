"""Calls of an answer: put together from fragments, and written so that every server takes them back. Pure."""

from io import StringIO

from tinsmith.domain.message import ToolCall
from tinsmith.llm.decode import is_object


class OpenCall:
    """A call whose fragments are still coming. `call_id` is ours; `index` and `provider_id` only route fragments."""

    __slots__ = ("_arguments", "call_id", "index", "name", "provider_id")

    def __init__(self, call_id: str, index: int | None = None, provider_id: str = "", name: str = "") -> None:
        self.call_id = call_id
        self.index = index
        self.provider_id = provider_id
        self.name = name
        self._arguments = StringIO()

    @property
    def arguments(self) -> str:
        """What has come of the arguments so far."""
        return self._arguments.getvalue()

    def add(self, piece: str) -> None:
        """More of the arguments."""
        self._arguments.write(piece)

    def replace(self, arguments: str) -> None:
        """The arguments as a whole."""
        self._arguments = StringIO()
        self._arguments.write(arguments)

    def close(self, *, was_cut: bool) -> ToolCall:
        """The call as it is: complete when it has a name and whole arguments and the answer was not cut off in it."""
        arguments = self.arguments
        if not arguments.strip():
            arguments = "{}"
        is_complete = bool(self.name) and not was_cut and is_object(arguments)
        return ToolCall(self.call_id, self.name, arguments, is_complete)


def replayable(arguments: str) -> str:
    """Arguments as servers accept them back: what is no JSON object, and was never run, becomes an empty one."""
    return arguments if is_object(arguments) else "{}"
