"""What one turn has done so far: the only mutable state of the loop."""

import msgspec

from tinsmith.domain.change import ChangedFile
from tinsmith.domain.ids import message_id, message_ordinal
from tinsmith.domain.message import Message, Usage
from tinsmith.domain.policy import Grant
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.turn import Outcome, TurnEnd, WindowEdges


class Progress:
    """Grows with the turn; `messages` is the stored transcript, `edges` how far the window has moved."""

    def __init__(self, request: TurnRequest) -> None:
        self.messages: list[Message] = list(request.history)
        self.edges: WindowEdges = request.edges
        self.rounds = 0
        self.calls = 0
        self.usage = Usage()
        self.files: dict[str, ChangedFile] = {}
        self.is_terminal = False
        self.remarked: set[str] = set()
        self.declined_again: set[tuple[str, str, Grant | None]] = set()
        """What a person did not let run again: tool, target, and what it lacked."""
        self._next = message_ordinal(request.history[-1].message_id) + 1 if request.history else 0

    def next_message_id(self) -> str:
        """The id of the next message of the transcript."""
        self._next += 1
        return message_id(self._next - 1)

    def add_files(self, files: tuple[ChangedFile, ...]) -> None:
        """Sum what a call changed into what the turn changed: first before, last after.

        What begins with the same text tells of all that came before.
        """
        for file in files:
            earlier = self.files.get(file.path)
            if earlier is None or earlier.before_hash == file.before_hash:
                self.files[file.path] = file
            else:
                self.files[file.path] = _summed(earlier, file)

    def end(self, outcome: Outcome) -> TurnEnd:
        """The turn's end with everything counted so far."""
        return TurnEnd(
            outcome,
            rounds=self.rounds,
            usage=self.usage,
            files=tuple(self.files.values()),
            edges=self.edges,
        )


def _summed(earlier: ChangedFile, later: ChangedFile) -> ChangedFile:
    return msgspec.structs.replace(
        later,
        op="create" if earlier.op == "create" else later.op,
        added=earlier.added + later.added,
        removed=earlier.removed + later.removed,
        before_hash=earlier.before_hash,
    )
