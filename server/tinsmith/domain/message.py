"""The transcript: messages, their parts, and what a model answers."""

from typing import Literal

import msgspec

MutationState = Literal["none", "attempted", "unknown"]
"""`none`: nothing can have changed. `attempted`: a change was begun or made. `unknown`: cut off after it was begun."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts as the provider reported them; `total` is its own sum."""

    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.total + other.total,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """Plain text, by a person or about the moment (`label` names the source of the latter)."""

    text: str
    label: str = ""

    def __str__(self) -> str:
        """The text itself."""
        return self.text


class ImagePart(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """An image by the hash of its bytes in the store; `size` in bytes, `width` and `height` in pixels."""

    blob: str
    mime_type: str
    size: int = 0
    width: int = 0
    height: int = 0

    def __str__(self) -> str:
        """What stands for it where only text can stand."""
        return f"[image: {self.mime_type.removeprefix('image/')}, {-(-self.size // 1000)} kB]"

    @property
    def tokens(self) -> int:
        """About what a model counts it as: pixels / 750, and no more than 1,600, to which larger ones are scaled down.

        Source: Anthropic, "Images and vision"; the tiles of OpenAI's models come to half of it. What a request really
        took corrects the estimate of the next.
        """
        return min(-(-self.width * self.height // 750), 1_600) if self.width and self.height else 1_600


Part = TextPart | ImagePart


class ToolCall(msgspec.Struct, frozen=True):
    """One call of an answer.

    `arguments` is the raw text as the model wrote it; `is_complete` is false when it was cut off.
    """

    call_id: str
    name: str
    arguments: str
    is_complete: bool = True


class Sealed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an answer that only its provider can read and wants back as it came: signed or encrypted reasoning.

    `origin` names that provider and model, `body` is the part as JSON text. It stood behind `after_text`
    characters of the answer's text and `after_calls` of its calls.
    """

    origin: str
    body: str
    after_text: int = 0
    after_calls: int = 0


class Remark(msgspec.Struct, frozen=True):
    """What a provider did that its user should know, as a sentence with a next step. `code` is a camelCase name."""

    code: str
    message: str


class UserMessage(msgspec.Struct, frozen=True, tag="user", omit_defaults=True):
    """What a person said (or a steering message, when a turn already ran; `entry_id` is its place in the queue)."""

    message_id: str
    turn_id: str
    parts: tuple[Part, ...]
    created_at: int = 0
    is_steering: bool = False
    marks: tuple[str, ...] = ()
    entry_id: str = ""

    @property
    def text(self) -> str:
        """What the person typed and showed, without the parts about the moment; an image by its kind and size."""
        shown = (part for part in self.parts if isinstance(part, ImagePart) or not part.label)
        return "\n".join(map(str, shown))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images that came with it."""
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant", omit_defaults=True):
    """One answer of the model. `item_id` is what its deltas were sent under."""

    message_id: str
    turn_id: str
    item_id: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""
    created_at: int = 0
    marks: tuple[str, ...] = ()
    sealed: tuple[Sealed, ...] = ()


class ToolMessage(msgspec.Struct, frozen=True, tag="tool", omit_defaults=True):
    """The result of one call, as the model sees it."""

    message_id: str
    turn_id: str
    call_id: str
    name: str
    content: str
    ok: bool = True
    mutation_state: MutationState = "none"
    recall_key: str = ""
    created_at: int = 0
    marks: tuple[str, ...] = ()


Message = UserMessage | AssistantMessage | ToolMessage


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """More of the answer's text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning"):
    """More of the model's reasoning."""

    text: str


class CallDetected(msgspec.Struct, frozen=True, tag="call"):
    """A call whose name is known; its arguments are still coming."""

    call_id: str
    name: str


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The whole answer, once, as the last thing of a successful stream."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    sealed: tuple[Sealed, ...] = ()
    remarks: tuple[Remark, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the model said nothing and asked for nothing."""
        return not self.text.strip() and not self.calls


ModelDelta = TextDelta | ReasoningDelta | CallDetected | Answer
