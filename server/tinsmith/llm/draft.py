"""An answer as far as it has come, the same for every dialect. Pure."""

from collections.abc import Callable, Iterable
from io import StringIO

from tinsmith.domain.message import (
    Answer,
    CallDetected,
    ModelDelta,
    ReasoningDelta,
    Sealed,
    TextDelta,
    ToolCall,
    Usage,
)
from tinsmith.llm.calls import OpenCall


class Draft:
    """What an assembly has gathered. `mint` makes the id of each call, `origin` marks sealed parts."""

    def __init__(self, mint: Callable[[], str], origin: str) -> None:
        self._mint = mint
        self._origin = origin
        self._text = StringIO()  # not a list: a short delta as an object of its own takes ten times its bytes
        self.text_length = 0
        self._reasoning = StringIO()
        self._has_thought = False
        self._sealed: list[Sealed] = []
        self.calls: list[OpenCall] = []
        self.usage = Usage()

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was said, thought or called yet."""
        return not (self.text_length or self._has_thought or self.calls)

    def say(self, text: str, batch: list[ModelDelta]) -> None:
        """More text."""
        if text:
            self._text.write(text)
            self.text_length += len(text)
            batch.append(TextDelta(text))

    def think(self, text: str, batch: list[ModelDelta]) -> None:
        """More reasoning."""
        if text:
            self._reasoning.write(text)
            self._has_thought = True
            batch.append(ReasoningDelta(text))

    def open_call(self, index: int | None = None, provider_id: str = "") -> OpenCall:
        """A new call; what it is called comes with `name_call`."""
        call = OpenCall(self._mint(), index, provider_id)
        self.calls.append(call)
        return call

    def name_call(self, call: OpenCall, name: str | None, batch: list[ModelDelta]) -> None:
        """The call's name, shown when it first comes."""
        if name and not call.name:
            call.name = name
            batch.append(CallDetected(call.call_id, name))

    def seal(self, body: str, after_text: int | None = None, after_calls: int | None = None) -> None:
        """A sealed part at this place of the answer, or at the given one."""
        said = self.text_length if after_text is None else after_text
        called = len(self.calls) if after_calls is None else after_calls
        self._sealed.append(Sealed(self._origin, body, said, called))

    def finish(self, finish_reason: str, calls: Iterable[ToolCall]) -> Answer:
        """The whole answer."""
        return Answer(
            text=self._text.getvalue(),
            reasoning=self._reasoning.getvalue(),
            calls=tuple(calls),
            finish_reason=finish_reason,
            usage=self.usage,
            sealed=tuple(self._sealed),
        )
