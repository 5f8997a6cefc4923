"""The store on disk against its enemies: kills, a full map, a full disk, other processes, other versions, cancels."""

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.store.writer import checked_text

from tinsmith.domain.errors import InternalError, PersistenceError
from tinsmith.domain.message import TextPart, UserMessage
from tinsmith.store import Note, Session, Store
from tinsmith.store.place import check_place

WRITER = os.path.join(os.path.dirname(__file__), "writer.py")
C = "c_1"


@pytest.fixture
def start_writer(tmp_path):
    """Start a process that runs writer.py on the store; none outlives the test."""
    started = []

    def start(conversation_id=C, count=1000, size=4000) -> subprocess.Popen:
        arguments = [str(tmp_path / "store"), conversation_id, str(count), str(size), str(1 << 20)]
        started.append(subprocess.Popen([sys.executable, WRITER, *arguments], stdout=subprocess.PIPE))
        return started[-1]

    yield start
    for writer in started:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def whole_messages(session: Session, conversation_id: str, size: int) -> list[str]:
    """The ids of the stored messages, each compared with the text and the note that it must have."""
    messages = session.messages.all(conversation_id)
    notes = session.notes.all(conversation_id)
    assert session.set_aside == ()
    expected = [(m.message_id, checked_text(conversation_id, m.message_id, size)) for m in messages]
    assert [(message.message_id, message.text) for message in messages] == expected
    assert [(note.note_id, note.content) for note in notes] == expected
    return [message.message_id for message in messages]


async def test_what_was_acknowledged_survives_a_kill_at_any_moment(tmp_path, start_writer):
    """ST-15: no acknowledged message is lost, none is half there, and the next process goes on."""
    chance = random.Random(15)
    acknowledged = []
    for _ in range(20):
        writer = start_writer()
        acknowledged += [writer.stdout.readline().decode().strip() for _ in range(chance.randint(1, 6))]
        if chance.random() < 0.5:
            time.sleep(chance.random() / 500)  # to be killed in the middle of a write, not right after one
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().decode()
        acknowledged += rest.split("\n")[: rest.count("\n")]
        assert writer.wait() == -signal.SIGKILL
    store = Store.open(str(tmp_path / "store"))
    stored = store.read(lambda session: whole_messages(session, C, 4000))
    assert stored == [f"m{ordinal:08d}" for ordinal in range(len(stored))]
    assert set(acknowledged) <= set(stored)
    assert len(acknowledged) == len(set(acknowledged)) >= 20
    assert (await store.write(lambda session: session.messages.next_id(C))) == f"m{len(stored):08d}"
    await store.close()


async def test_two_processes_outgrow_a_small_map_together(tmp_path, start_writer):
    """ST-09: from a map of 1 MB to more than 5 MB, while a third process reads; every message is there."""
    store = Store.open(str(tmp_path / "store"), map_size=1 << 20)
    names = ("c_a", "c_b")
    writers = [start_writer(name, 40, 40_000) for name in names]
    while any(writer.poll() is None for writer in writers):
        for name in names:
            store.read(lambda session, name=name: whole_messages(session, name, 40_000))
        await store.write(lambda session: session.notes.put("c_c", Note("n", "x" * 1000, 0)))
    for writer in writers:
        acknowledged = writer.stdout.read().decode().split()
        assert (writer.returncode, len(acknowledged)) == (0, 40)
    for name in names:
        assert len(store.read(lambda session, name=name: whole_messages(session, name, 40_000))) == 40
    assert os.path.getsize(tmp_path / "store" / "data.mdb") > 5 << 20
    await store.close()


async def test_the_map_grows_under_concurrent_reads(tmp_path):
    store = Store.open(str(tmp_path), map_size=1 << 16)
    is_done = threading.Event()
    sums = []

    def keep_reading() -> None:
        while not is_done.is_set():
            sums.append(len(store.read(lambda session: whole_messages(session, C, 20_000))))

    readers = [threading.Thread(target=keep_reading) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for ordinal in range(40):
            identifier = f"m{ordinal:08d}"
            text = checked_text(C, identifier, 20_000)
            note, message = Note(identifier, text, 0), UserMessage(identifier, "t", (TextPart(text),))
            await store.write(lambda s, n=note, m=message: (s.notes.put(C, n), s.messages.put(C, m)))
    finally:
        is_done.set()
        for reader in readers:
            reader.join()
    assert sums
    assert len(store.read(lambda session: whole_messages(session, C, 20_000))) == 40
    await store.close()


async def test_the_limit_of_the_map_is_a_message_and_harms_nothing(tmp_path):
    store = Store.open(str(tmp_path), map_size=1 << 20, map_limit=1 << 21)
    await store.write(lambda session: session.notes.put(C, Note("small", "x", 0)))
    with pytest.raises(PersistenceError, match="limit of 2097152 bytes") as caught:
        await store.write(lambda session: session.notes.put(C, Note("large", "x" * (1 << 22), 0)))
    assert caught.value.code == "storeFull"
    await store.write(lambda session: session.notes.put(C, Note("small2", "x", 0)))
    assert [note.note_id for note in store.read(lambda session: session.notes.all(C))] == ["small", "small2"]
    await store.close()


async def test_a_full_disk_is_a_message_and_harms_nothing(tmp_path):
    """A limit on the size of files stands for the end of the disk."""
    store = Store.open(str(tmp_path))
    await store.write(lambda session: session.notes.put(C, Note("before", "x", 0)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
    try:
        with pytest.raises(PersistenceError, match="free some space") as caught:
            await store.write(lambda session: session.notes.put(C, Note("large", "x" * (1 << 20), 0)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "storeFull"
    await store.write(lambda session: session.notes.put(C, Note("after", "x", 0)))
    assert [note.note_id for note in store.read(lambda session: session.notes.all(C))] == ["after", "before"]
    await store.close()


async def test_a_write_outlives_the_cancel_of_its_awaiter(tmp_path):
    store = Store.open(str(tmp_path))
    may_go_on, has_begun = threading.Event(), threading.Event()

    def slow(session: Session) -> None:
        session.notes.put(C, Note("slow", "", 0))
        has_begun.set()
        assert may_go_on.wait(20)

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(store.write(slow))
        queued = tasks.create_task(store.write(lambda session: session.notes.put(C, Note("queued", "", 0))))
        while not has_begun.is_set():
            await asyncio.sleep(0.001)
        assert store.read(lambda session: session.notes.all(C)) == ()  # a read does not wait for a writer
        running.cancel()
        queued.cancel()
        await asyncio.wait([running, queued])
        assert running.cancelled()
        assert queued.cancelled()
        may_go_on.set()
    assert [n.note_id for n in await store.write(lambda session: session.notes.all(C))] == ["queued", "slow"]
    await store.close()


async def test_closing_finishes_what_was_handed_over(tmp_path):
    store = Store.open(str(tmp_path))
    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(store.write(lambda session, n=number: session.notes.put(C, Note(f"{n:02}", "", 0))))
        await asyncio.sleep(0)
        await store.close()
    again = Store.open(str(tmp_path))
    assert len(again.read(lambda session: session.notes.all(C))) == 20
    await again.close()


async def test_a_read_keeps_no_old_pages_alive(tmp_path):
    store = Store.open(str(tmp_path))
    for number in range(60):
        await store.write(lambda session, n=number: session.notes.put(C, Note("n", str(n) * 20_000, 0)))
        kept = store.read(lambda session: session.notes.all(C))
    assert kept[0].content == "59" * 20_000
    assert os.path.getsize(tmp_path / "data.mdb") < 1 << 20
    await store.close()


async def test_a_read_inside_a_read_is_refused_instead_of_waiting_for_itself(tmp_path):
    store = Store.open(str(tmp_path))
    with pytest.raises(InternalError) as caught:
        store.read(lambda _: store.read(lambda session: session.notes.all(C)))
    assert caught.value.code == "nestedRead"
    assert store.read(lambda session: session.notes.all(C)) == ()
    await store.close()


async def test_a_process_opens_a_store_once(tmp_path):
    store = Store.open(str(tmp_path))
    with pytest.raises(PersistenceError, match="already open"):
        Store.open(str(tmp_path))
    await store.close()
    await Store.open(str(tmp_path)).close()


def test_what_is_no_store_is_a_message(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "data.mdb").write_bytes(b"not a database" * 1000)
    for name in ("file", "file/below", "store"):
        with pytest.raises(PersistenceError, match="TINSMITH_DATA_DIR") as caught:
            Store.open(str(tmp_path / name))
        assert caught.value.code == ("storeDamaged" if name == "store" else "storeFailed")


OPEN = """
import sys
from tinsmith.domain.errors import PersistenceError
from tinsmith.store import Store
try:
    store = Store.open(sys.argv[1])
    print(len(store.read(lambda session: session.messages.all("c_1"))), store.read(lambda session: session.set_aside))
except PersistenceError as error:
    print(error.code)
"""


@pytest.mark.parametrize("kept", [0, 100, 4096, 8192, 0.01, 0.3, 0.5, 0.9, 0.999])
async def test_a_file_whose_end_is_missing_is_told_and_kills_nobody(tmp_path, kept):
    """What is left of it is read or refused in words; a process that looks beyond the end would die of it."""
    store = Store.open(str(tmp_path))
    for ordinal in range(60):
        message = UserMessage(f"m{ordinal:08d}", "t", (TextPart(f"{ordinal} " * 3000),))
        await store.write(lambda session, message=message: session.messages.put(C, message))
    await store.close()
    size = os.path.getsize(tmp_path / "data.mdb")
    os.truncate(tmp_path / "data.mdb", kept if isinstance(kept, int) else int(kept * size))
    answer = subprocess.run([sys.executable, "-c", OPEN, str(tmp_path)], capture_output=True, text=True, check=True)
    assert answer.stdout in {"storeDamaged\n", "0 ()\n"} or answer.stdout.split(" ")[0].isdigit()
    assert (answer.stdout == "0 ()\n") == (kept == 0)  # an empty file is a new store


async def test_free_pages_that_were_never_written_do_no_harm(tmp_path):
    for number in range(40):
        store = Store.open(str(tmp_path))
        big = Note("big", "x" * 4000 * (number % 7 + 1), 0)
        await store.write(lambda s, note=big: (s.notes.put(C, note), s.notes.delete(C, "big")))
        await store.write(lambda s, number=number: s.notes.put(C, Note(f"{number:02}", "y" * 100 * number, 0)))
        await store.close()
    store = Store.open(str(tmp_path))
    kept = store.read(lambda s: [(note.note_id, len(note.content)) for note in s.notes.all(C)])
    assert kept == [(f"{number:02}", 100 * number) for number in range(40)]
    await store.close()


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 0:40 / /home rw,relatime shared:2 - nfs4 server:/home rw
31 30 0:41 / /home/ada/my\\040disk rw - ext4 /dev/sdb1 rw
32 21 0:42 / /mnt/far rw master:1 - fuse.sshfs far:/ rw
"""


def test_a_store_is_not_put_on_a_network(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    told = {
        "/home/ada/.local/share/tinsmith": "nfs4",
        "/home": "nfs4",
        "/mnt/far/store": "fuse.sshfs",
        "/home/ada/my disk/store": "",
        "/homely": "",
        "/": "",
    }
    for path, kind in told.items():
        if not kind:
            check_place(path, {}, str(mounts))
            continue
        with pytest.raises(PersistenceError, match=kind) as caught:
            check_place(path, {"TINSMITH_NETWORK_STORE": "yes"}, str(mounts))
        assert caught.value.code == "storeOnNetwork"
        check_place(path, {"TINSMITH_NETWORK_STORE": "allow"}, str(mounts))
    check_place("/home", {}, str(tmp_path / "none"))


async def test_only_the_user_may_read_the_store(tmp_path):
    await Store.open(str(tmp_path / "a" / "store")).close()
    modes = [os.stat(tmp_path / "a" / "store" / name).st_mode & 0o777 for name in ("", "data.mdb", "lock.mdb")]
    assert modes == [0o700, 0o600, 0o600]


def test_lmdb_is_imported_when_a_store_is_opened(tmp_path):
    program = (
        "import sys, tinsmith.store as store; before = 'lmdb' in sys.modules; "
        f"store.Store.open({str(tmp_path)!r}); print(before, 'lmdb' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False True\n"
