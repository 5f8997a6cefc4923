"""A conversation from JSON Lines that somebody else wrote: every line is checked before anything is stored.

A line that does not fit is refused by its number; what is stored in the end is a history that every dialect takes.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_id, new_id
from tinsmith.domain.message import AssistantMessage, Message, TextPart, ToolMessage, UserMessage
from tinsmith.domain.role import ROLES
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.services.conversations import title_of
from tinsmith.services.forking import SCRATCHPAD
from tinsmith.services.transfer import VERSION, CallLine, Header, Line, MessageLine, NoteLine, TurnLine
from tinsmith.store import Note, Session
from tinsmith.store.codec import clean_text

_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Received(msgspec.Struct, frozen=True):
    """A checked file. Turns go by the names that it gives them."""

    header: Header
    turns: tuple[TurnRecord, ...]
    messages: tuple[Message, ...]
    calls: tuple[CallRecord, ...]
    notes: tuple[Note, ...]

    def head(self, conversation_id: str, workspace: str, now: int) -> Conversation:
        """The record of the conversation that it becomes."""
        role = ROLES.get(self.header.role)
        return Conversation(
            conversation_id,
            workspace,
            self.header.created_at or now,
            now,
            title_of(self.header.title),
            self.header.role if role is not None and role.is_user_facing else "",
            self.header.model,
        )

    def fill(self, session: Session, conversation_id: str) -> None:
        """Store it under fresh ids, but for those of calls and answers, which name them within the conversation."""
        names = {turn.turn_id: new_id("t") for turn in self.turns}
        for turn in self.turns:
            session.turns.put(replace(turn, turn_id=names[turn.turn_id], conversation_id=conversation_id))
        for ordinal, message in enumerate(self.messages):
            numbered = replace(message, message_id=message_id(ordinal), turn_id=names[message.turn_id])
            session.messages.put(conversation_id, numbered)
        for call in self.calls:
            session.calls.put(conversation_id, replace(call, turn_id=names[call.turn_id]))
        for note in self.notes:
            session.notes.put(conversation_id, note)


def receive(text: str, redact: Callable[[str], str]) -> Received:
    """Check a whole file; `redact` takes secrets out. Raises SchemaError `invalidImport` with the line's number."""
    checker = _Checker()
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            checker.take(_decoder.decode(line.encode(errors="surrogatepass")))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _refused(number, f"it is no record of a conversation ({error})") from error
        except _UnfitError as error:
            raise _refused(number, str(error)) from error
    try:
        checker.end()
    except _UnfitError as error:
        raise _refused(len(lines), str(error)) from error
    return _cleaned(checker.received(), lambda found: redact(clean_text(found)))


def _refused(number: int, why: str) -> SchemaError:
    return SchemaError(
        "invalidImport",
        f"Line {number} cannot be imported: {why}. Nothing was stored; export the conversation again.",
        data={"line": number},
    )


class _UnfitError(Exception):
    """Why a line does not fit behind those before it."""


class _Checker:
    """The lines so far."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._turns: dict[str, TurnRecord] = {}
        self._turn_id = ""
        self._messages: list[Message] = []
        self._calls: dict[str, CallRecord] = {}
        self._notes: dict[str, Note] = {}
        self._made: set[str] = set()
        self._pending: list[str] = []

    def take(self, line: Line) -> None:
        """Take the next line. Raises _UnfitError."""
        if self._header is None and not isinstance(line, Header):
            raise _UnfitError("a conversation's header must come first")
        match line:
            case Header():
                self._take_header(line)
            case TurnLine(turn):
                self._take_turn(turn)
            case MessageLine(message):
                self._take_message(message)
            case CallLine(call):
                self._take_call(call)
            case NoteLine(note):
                if not note.note_id.startswith(SCRATCHPAD) or note.note_id in self._notes:
                    raise _UnfitError("it is no note of the scratchpad, or comes twice")
                self._notes[note.note_id] = note

    def end(self) -> None:
        """There are no more lines. Raises _UnfitError."""
        if self._header is None:
            raise _UnfitError("there is nothing")
        self._check_answered()
        self._check_turn_is_said()

    def received(self) -> Received:
        """What was taken."""
        assert self._header is not None
        return Received(
            self._header,
            tuple(self._turns.values()),
            tuple(self._messages),
            tuple(self._calls.values()),
            tuple(self._notes.values()),
        )

    def _take_header(self, header: Header) -> None:
        if self._header is not None:
            raise _UnfitError("a header can only come first")
        if header.version != VERSION:
            raise _UnfitError(f"it has version {header.version}, and this Tinsmith reads version {VERSION}")
        self._header = header

    def _take_turn(self, turn: TurnRecord) -> None:
        self._check_answered()
        self._check_turn_is_said()
        if not turn.turn_id or turn.turn_id in self._turns:
            raise _UnfitError("the turn has no name of its own")
        if turn.state != "ended" or turn.outcome is None:
            raise _UnfitError("the turn has not ended")
        self._turns[turn.turn_id] = turn
        self._turn_id = turn.turn_id

    def _take_message(self, message: Message) -> None:
        if not self._turn_id or message.turn_id != self._turn_id:
            raise _UnfitError("the message belongs to another turn than the one before it")
        is_first = not self._messages or self._messages[-1].turn_id != self._turn_id
        if is_first and not isinstance(message, UserMessage):
            raise _UnfitError("a turn must begin with what a person said")
        if isinstance(message, ToolMessage):
            if message.call_id not in self._pending:
                raise _UnfitError("it is the result of a call that waits for none")
            self._pending.remove(message.call_id)
        else:
            self._check_answered()
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if not call.call_id or call.call_id in self._made:
                    raise _UnfitError("a call has no id of its own")
                self._made.add(call.call_id)
                self._pending.append(call.call_id)
        self._messages.append(message)

    def _take_call(self, call: CallRecord) -> None:
        if call.call_id not in self._made or call.call_id in self._calls or call.turn_id != self._turn_id:
            raise _UnfitError("it tells of a call that was not made in this turn, or tells of it twice")
        self._calls[call.call_id] = call

    def _check_answered(self) -> None:
        if self._pending:
            raise _UnfitError("calls before it have no result")

    def _check_turn_is_said(self) -> None:
        if self._turn_id and (not self._messages or self._messages[-1].turn_id != self._turn_id):
            raise _UnfitError("the turn before it has no message")


def _cleaned(received: Received, clean: Callable[[str], str]) -> Received:
    header = replace(received.header, title=clean(received.header.title))
    return Received(
        header,
        tuple(replace(turn, text=clean(turn.text)) for turn in received.turns),
        tuple(_cleaned_messages(received.messages, clean)),
        tuple(replace(call, title=clean(call.title)) for call in received.calls),
        tuple(replace(note, content=clean(note.content)) for note in received.notes),
    )


def _cleaned_messages(messages: Iterable[Message], clean: Callable[[str], str]) -> Iterable[Message]:
    for message in messages:
        match message:
            case UserMessage():
                parts = (
                    replace(part, text=clean(part.text)) if isinstance(part, TextPart) else part
                    for part in message.parts
                )
                yield replace(message, parts=tuple(parts))
            case AssistantMessage():
                calls = tuple(replace(call, arguments=clean(call.arguments)) for call in message.calls)
                text, reasoning = clean(message.text), clean(message.reasoning)
                yield replace(message, text=text, reasoning=reasoning, calls=calls)
            case ToolMessage():
                yield replace(message, content=clean(message.content))
