"""Events: the one closed union that everything outside the engine consumes.

Visible events are numbered without gaps per conversation and become exactly one
message on the wire each; the others are for subscribers inside. Events that carry a record
or a message are durable: what they carry is committed before they are published.
"""

from typing import ClassVar, Literal

import msgspec

from tinsmith.domain.change import ChangedFile, ReviewedChange
from tinsmith.domain.message import AssistantMessage, ToolMessage, Usage, UserMessage
from tinsmith.domain.tool import Location
from tinsmith.domain.turn import CallRecord, TurnRecord, WindowEdges

ConversationState = Literal["idle", "running", "deleted"]
Severity = Literal["info", "warning", "error"]


class _Visible(msgspec.Struct, frozen=True):
    is_visible: ClassVar[bool] = True


class TurnStarted(_Visible, frozen=True, tag="turn_started"):
    """First event of its turn. Durable: the turn's record and the message that opens it."""

    record: TurnRecord
    message: UserMessage
    title: str = ""
    """The conversation's title from now on, when it had none."""


class PromptBuilt(msgspec.Struct, frozen=True, tag="prompt_built"):
    """Before each request: how the window made the model's view. Estimated tokens."""

    is_visible: ClassVar[bool] = False
    round_number: int
    messages: int
    tokens: int
    elided: int
    dropped: int


class RequestStarted(_Visible, frozen=True, tag="llm_request_started"):
    """A request is on its way; `attempt` counts from 1 within its round."""

    round_number: int
    attempt: int


class TextStreamed(_Visible, frozen=True, tag="llm_text_delta"):
    """More text of the item. `offset` counts the code points that came before.

    Not stored; may be joined with its neighbours.
    """

    item_id: str
    offset: int
    text: str


class ReasoningStreamed(_Visible, frozen=True, tag="llm_reasoning_delta"):
    """More reasoning of the item, as TextStreamed."""

    item_id: str
    offset: int
    text: str


class ToolCallDetected(_Visible, frozen=True, tag="llm_tool_call_detected"):
    """The model names a call while its answer still streams."""

    call_id: str
    name: str


class AnswerReceived(_Visible, frozen=True, tag="llm_request_completed"):
    """The answer is whole, or (by its marks) all that came of it.

    Durable: its message. Closes every delta of its item.
    """

    message: AssistantMessage
    context_used: int = 0


class RequestCancelled(msgspec.Struct, frozen=True, tag="llm_request_cancelled"):
    """A request was cut off by a cancel; an AnswerReceived marked `cancelled` closes what was shown of it."""

    is_visible: ClassVar[bool] = False
    round_number: int


class AnswerWithdrawn(_Visible, frozen=True, tag="llm_answer_withdrawn"):
    """What was streamed under the item does not count; another attempt follows under another item."""

    item_id: str


class RetryScheduled(_Visible, frozen=True, tag="llm_retry_scheduled"):
    """The request failed and is made again after `delay_ms`, unless cancelled."""

    attempt: int
    reason: str
    delay_ms: int


class ToolCallDropped(_Visible, frozen=True, tag="llm_tool_call_dropped"):
    """A call that was detected is not part of the answer after all: the stream broke or was withdrawn."""

    call_id: str
    name: str


class CallWaiting(_Visible, frozen=True, tag="tool_execution_waiting"):
    """A person is asked before the call runs."""

    call: CallRecord
    arguments: str
    locations: tuple[Location, ...] = ()


class PermissionResolved(_Visible, frozen=True, tag="permission_resolved"):
    """A question has its answer (or lost its asker): a card that is still open may close."""

    request_key: str
    outcome: Literal["allow", "deny", "cancelled"]


class CallStarted(_Visible, frozen=True, tag="tool_execution_started"):
    """The call runs. Durable when it may change something: its begun mark."""

    call: CallRecord
    arguments: str
    is_marked: bool
    locations: tuple[Location, ...] = ()


class OutputStreamed(_Visible, frozen=True, tag="tool_output_delta"):
    """More live output of a call, as TextStreamed."""

    call_id: str
    offset: int
    text: str


class CallFinished(_Visible, frozen=True, tag="tool_execution_finished"):
    """The call has its result, `call.status` says which kind. Durable: the result and the call's end."""

    call: CallRecord
    arguments: str
    message: ToolMessage
    locations: tuple[Location, ...] = ()


class CallCancelled(_Visible, frozen=True, tag="tool_execution_cancelled"):
    """The call was cut off or never run. Durable, as CallFinished."""

    call: CallRecord
    arguments: str
    message: ToolMessage


class FilesChanged(_Visible, frozen=True, tag="files_changed"):
    """Every file the turn has changed so far."""

    files: tuple[ChangedFile, ...]


class ChangesReviewed(_Visible, frozen=True, tag="changes_reviewed"):
    """These changes, of whichever turns, are as told now: the agent went on, or a person kept or undid some of it."""

    changes: tuple[ReviewedChange, ...]


class UsageUpdated(_Visible, frozen=True, tag="usage_updated"):
    """Token counts after an answer: of it, of the turn, of the conversation; and the context, in tokens."""

    last: Usage
    turn: Usage
    conversation: Usage
    context_used: int
    context_size: int


class SteeringTaken(_Visible, frozen=True, tag="steering_taken"):
    """A steering message joined the transcript at a safe point. Durable: its message."""

    message: UserMessage


class TurnCancelRequested(_Visible, frozen=True, tag="turn_cancel_requested"):
    """Somebody asked the turn to stop; its end follows within two seconds."""


class TurnPersisted(msgspec.Struct, frozen=True, tag="turn_persisted"):
    """Everything of the turn is stored; its end is announced next."""

    is_visible: ClassVar[bool] = False
    turn_id: str


class TurnCompleted(_Visible, frozen=True, tag="turn_completed"):
    """Last event of a turn that ended by itself, by a cancel or by its budget. Durable: record and window edges."""

    record: TurnRecord
    edges: WindowEdges | None = None


class TurnFailed(_Visible, frozen=True, tag="turn_failed"):
    """Last event of a turn that ended with an error or was interrupted. Durable, as TurnCompleted."""

    record: TurnRecord
    edges: WindowEdges | None = None


class SettingsChanged(_Visible, frozen=True, tag="settings_changed"):
    """The configuration is another; the next turn uses it."""

    version: int


class ConversationChanged(_Visible, frozen=True, tag="conversation_changed"):
    """The conversation's state, title or holder is another.

    `held_by` is the process of another window that holds it now, None when none does any more. `is_anew` says that
    what was there of the transcript has changed: it is to be drawn anew.
    """

    state: ConversationState
    title: str | None = None
    held_by: int | msgspec.UnsetType | None = msgspec.UNSET
    is_anew: bool = False


class Notice(_Visible, frozen=True, tag="notice"):
    """A sentence for the person that belongs to no item."""

    severity: Severity
    code: str
    message: str


Body = (
    TurnStarted
    | PromptBuilt
    | RequestStarted
    | TextStreamed
    | ReasoningStreamed
    | ToolCallDetected
    | AnswerReceived
    | RequestCancelled
    | AnswerWithdrawn
    | RetryScheduled
    | ToolCallDropped
    | CallWaiting
    | PermissionResolved
    | CallStarted
    | OutputStreamed
    | CallFinished
    | CallCancelled
    | FilesChanged
    | ChangesReviewed
    | UsageUpdated
    | SteeringTaken
    | TurnCancelRequested
    | TurnPersisted
    | TurnCompleted
    | TurnFailed
    | SettingsChanged
    | ConversationChanged
    | Notice
)
Delta = TextStreamed | ReasoningStreamed | OutputStreamed


class Event(msgspec.Struct, frozen=True):
    """An event with its place: `seq` is 0 for invisible ones, `ts` in milliseconds."""

    conversation_id: str
    turn_id: str
    seq: int
    ts: int
    body: Body
