"""Changes that are kept, followed and undone over one store: nothing depends on what a process remembers."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.stage import Bench, Buffers

from tinsmith.domain.errors import PersistenceError, ToolError
from tinsmith.domain.event import ChangesReviewed
from tinsmith.domain.ports import NoDocuments
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.services.changes import ANNOUNCED_HUNKS, Changes
from tinsmith.services.conversations import Conversations
from tinsmith.services.holding import own_lease
from tinsmith.services.journal import Journal
from tinsmith.services.resolving import Selection
from tinsmith.store import InMemoryStore
from tinsmith.store.transaction import Span
from tinsmith.workspace.text import text_hash

TURN = "t1"
CALL = "k1"


class FullStore(InMemoryStore):
    """A store that takes nothing while `is_full`."""

    is_full = False

    async def write(self, closure):
        if self.is_full:
            raise PersistenceError("storeFull", "The disk is full. Free some space.")
        return await super().write(closure)


class House:
    """The tools of a conversation with a turn that made one call after another, and who follows its changes."""

    def __init__(self, root, documents=None):
        self.root = root
        self.store = FullStore()
        self.documents = documents or NoDocuments()
        self.journal = Journal(self.store, "epoch")
        self.events = []
        self.journal.subscribe(self.events.append)
        self.conversations = Conversations(self.store, self.journal, own_lease("epoch"))
        self.restart()

    async def open(self):
        self.identifier = (await self.conversations.new(str(self.root))).conversation_id
        turn = TurnRecord(TURN, self.identifier, "go", "direct", "m", 1)
        await self.store.write(lambda session: session.turns.put(turn))
        await self.end_call()
        return self

    async def end_call(self, status="completed"):
        call = CallRecord(CALL, TURN, "write", status=status, begun_at=1, ended_at=2)
        await self.store.write(lambda session: session.calls.put(self.identifier, call))

    def restart(self):
        """All that is remembered is forgotten, but for the store."""
        self.changes = Changes(self.store, self.journal, self.conversations, self.documents)
        self.bench = Bench(self.root, self.documents, changes=self.changes)

    async def write(self, name, text):
        """Give a file this text, as the agent does."""
        path = self.root / name
        found = self.documents.find(str(path))
        there = {"hash": found.hash} if found else {}
        if not found and path.exists():
            there = {"hash": text_hash(path.read_bytes().decode("utf-8-sig"))}
        return await self.bench.call("write", self.identifier, path=name, content=text, **there)

    async def seen(self):
        """The changes as they are told, the same by one who remembers nothing."""
        changes = await self.changes.of_turns(self.identifier)
        again = Changes(self.store, self.journal, self.conversations, self.documents)
        assert await again.of_turns(self.identifier) == changes
        return changes

    async def resolve(self, action, **selection):
        return await self.changes.resolve(self.identifier, Selection(**selection), action)

    @property
    def stored(self):
        return self.store.read(lambda session: session.changes.all(self.identifier))


@pytest.fixture
async def house(tmp_path):
    return await House(tmp_path).open()


def states(changes):
    return [[hunk.state for hunk in change.hunks] for change in changes]


async def test_what_cannot_be_kept_is_not_changed(house):
    path = house.root / "a.txt"
    path.write_text("one\n")
    house.store.is_full = True
    with pytest.raises(PersistenceError, match="disk is full"):
        await house.write("a.txt", "two\n")
    house.store.is_full = False
    assert path.read_text() == "one\n"
    assert (house.stored, house.events) == ((), [])


async def test_an_undo_that_cannot_be_kept_is_not_made(house):
    await house.write("a.txt", "one\n")
    (change,) = await house.seen()
    house.store.is_full = True
    resolved = await house.resolve("undo", change_ids=(change.change_id,))
    assert [refusal.code for refusal in resolved.refused] == ["storeFull"]
    house.store.is_full = False
    assert (house.root / "a.txt").read_text() == "one\n"
    assert states(await house.seen()) == [["open"]]


async def test_the_image_is_stored_before_the_text_changes(tmp_path):
    class Watching(Buffers):
        async def apply(self, label, turn_id, changes):
            kept.append((house.stored[-1].before, self.texts[path]))
            return await super().apply(label, turn_id, changes)

    path, kept = str(tmp_path / "a.txt"), []
    house = await House(tmp_path, Watching({path: "one\r\n"})).open()
    await house.write("a.txt", "two\n")
    await house.resolve("undo", turn_id=TURN)
    images = [house.store.read(lambda s, blob=image.blob: s.blobs.get(blob)) for image, _ in kept]
    assert images == [b"one\r\n", b"two\r\n"] == [text.encode() for _, text in kept]
    assert house.documents.texts[path] == "one\r\n"


async def test_a_change_that_was_refused_leaves_no_record_and_no_blob(tmp_path):
    class Refusing(Buffers):
        async def apply(self, label, turn_id, changes):
            self.texts[path] = "typed\n"
            return await super().apply(label, turn_id, changes)

    path = str(tmp_path / "a.txt")
    house = await House(tmp_path, Refusing({path: "one\n"})).open()
    with pytest.raises(ToolError, match="is not the text"):
        await house.write("a.txt", "two\n")
    assert house.stored == ()
    assert house.store.read(lambda session: list(session._transaction.scan("blob", Span()))) == []


async def test_an_undo_follows_what_is_typed_while_it_is_made(tmp_path):
    class Typing(Buffers):
        is_slow = False

        async def apply(self, label, turn_id, changes):
            if self.is_slow:
                self.is_slow = False
                self.texts[path] = "typed\n" + self.texts[path]
            return await super().apply(label, turn_id, changes)

    path = str(tmp_path / "a.txt")
    house = await House(tmp_path, Typing({path: "one\ntwo\n"})).open()
    await house.write("a.txt", "one\nTWO\n")
    house.documents.is_slow = True
    resolved = await house.resolve("undo", turn_id=TURN)
    assert (resolved.refused, states(resolved.changes)) == ((), [["undone"]])
    assert house.documents.texts[path] == "typed\none\ntwo\n"
    assert [record.kind for record in house.stored] == ["edit", "undo"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("one\n", []), ("two\n", [["open"]]), ("two\nmine\n", [["open"]]), ("mine\none\n", [["gone"]])],
)
async def test_a_call_that_was_cut_off_is_judged_by_the_text(house, text, expected):
    """A cancel or a crash between the record and the change, or right behind it."""
    path = house.root / "a.txt"
    path.write_text("one\n")
    await house.end_call("cancelled")
    await house.write("a.txt", "two\n")
    path.write_text(text)
    assert states(await house.seen()) == expected


async def test_a_damaged_image_costs_its_own_edit_alone(house):
    (house.root / "a.txt").write_text("one\ntwo\nthree\n")
    await house.write("a.txt", "ONE\ntwo\nthree\n")
    await house.write("a.txt", "ONE\nTWO\nthree\n")
    await house.write("a.txt", "ONE\nTWO\nTHREE\n")
    await house.write("b.txt", "b\n")
    blob = house.stored[1].after.blob
    await house.store.write(lambda session: session.blobs.delete(blob))
    house.restart()
    assert states(await house.seen()) == [["open"], ["open"]]
    await house.resolve("undo", turn_id=TURN)
    assert (house.root / "a.txt").read_text() == "one\nTWO\nTHREE\n"
    first = house.stored[0].before.blob
    await house.store.write(lambda session: session.blobs.delete(first))
    house.restart()
    assert [(change.path, change.before_text) for change in await house.seen()] == [(str(house.root / "b.txt"), None)]
    assert not (house.root / "b.txt").exists()


async def test_an_event_is_bounded_and_says_so(house):
    lines = [f"{number}\n" for number in range(2 * (ANNOUNCED_HUNKS + 1))]
    (house.root / "a.txt").write_text("".join(lines))
    await house.write("a.txt", "".join("new\n" if number % 2 else line for number, line in enumerate(lines)))
    (told,) = [event.body for event in house.events if isinstance(event.body, ChangesReviewed)]
    (change,) = told.changes
    assert (len(change.hunks), change.is_cut, change.before_text) == (ANNOUNCED_HUNKS, True, None)
    (whole,) = await house.seen()
    assert (len(whole.hunks), whole.is_cut) == (ANNOUNCED_HUNKS + 1, False)
    assert msgspec.structs.replace(whole, hunks=whole.hunks[:ANNOUNCED_HUNKS], is_cut=True, before_text=None) == change


steps = st.tuples(
    st.sampled_from(["agent", "agent", "user", "user", "keep", "undo", "restart"]),
    st.integers(0, 7),
    st.integers(0, 2),
    st.integers(0, 2),
)


class Model:
    """What must be true of each hunk, told by lines that are all different: no review, no ranges of another text."""

    def __init__(self):
        self.known = {}
        self.told = {}

    def look(self, changes, text):
        """Take in the hunks as they are told, after checking what they say against what was done since."""
        lines = text.splitlines(keepends=True)
        hunks = {hunk.hunk_id: hunk for change in changes for hunk in change.hunks}
        for hunk_id, theirs in self.known.items():
            if hunk_id in hunks and hunks[hunk_id].state == "open":
                assert theirs == lines[slice(*hunks[hunk_id].after)]
        self.told = {hunk_id: hunk.state for hunk_id, hunk in hunks.items()}
        self.known = {hunk_id: lines[slice(*hunk.after)] for hunk_id, hunk in hunks.items() if hunk.state == "open"}
        for hunk_id, theirs in self.known.items():
            assert not any(line.startswith("user") for line in theirs), hunk_id

    def user_changed(self, text):
        """Which open hunks must be so still, and which cannot be."""
        lines = text.splitlines(keepends=True)
        for hunk_id, theirs in self.known.items():
            if theirs:
                at = lines.index(theirs[0]) if theirs[0] in lines else len(lines)
                yield hunk_id, lines[at : at + len(theirs)] == theirs


@settings(deadline=None)
@given(st.integers(0, 6), st.lists(steps, max_size=9))
async def test_any_history_of_edits_typing_and_decisions(tmp_path_factory, size, history):
    path, start = tmp_path_factory.getbasetemp() / "a.txt", "".join(f"line{number}\n" for number in range(size))
    opened = Buffers({str(path): start})
    house, model = await House(path.parent, opened).open(), Model()

    def lines_now():
        return opened.texts[str(path)].splitlines(keepends=True)

    def users():
        return [line for line in lines_now() if line.startswith("user")]

    has_typed = has_kept = False
    for number, (kind, at, removed, added) in enumerate(history):
        lines = lines_now()
        at = min(at, len(lines))  # noqa: PLW2901  within this text
        spliced = "".join([*lines[:at], *(f"{kind}{number}_{n}\n" for n in range(added)), *lines[at + removed :]])
        mine = users()
        some = tuple(sorted(model.known))[at % 2 :: 2]
        expected: dict[str, bool] = {}
        match kind:
            case "agent":
                if spliced != "".join(lines):
                    await house.write("a.txt", spliced)
                model.known = {}
            case "user":
                opened.texts[str(path)] = spliced
                has_typed = has_typed or spliced != "".join(lines)
                expected = dict(model.user_changed(spliced))
            case "restart":
                house.restart()
            case _ if some:
                resolved = await house.resolve(kind, hunk_ids=some)
                assert resolved.refused == ()
                has_kept = has_kept or kind == "keep"
                now = {hunk.hunk_id: hunk.state for change in resolved.changes for hunk in change.hunks}
                assert now == model.told | dict.fromkeys(some, "kept" if kind == "keep" else "undone")
                assert await house.resolve(kind, hunk_ids=some) == resolved
                assert mine == [line for line in users() if line in mine]
        changes = await house.seen()
        now = {hunk.hunk_id: hunk.state for change in changes for hunk in change.hunks}
        assert all((now[hunk_id] == "open") is is_open for hunk_id, is_open in expected.items())
        model.look(changes, "".join(lines_now()))
    mine = users()
    resolved = await house.resolve("undo", turn_id=TURN)
    assert "open" not in {hunk.state for change in resolved.changes for hunk in change.hunks}
    assert mine == [line for line in users() if line in mine]
    if not has_typed and not has_kept:
        assert "".join(lines_now()) == start
    assert len(resolved.refused) == sum(state == "gone" for state in model.told.values())
