"""Files on disk: guarded, atomic, and as they were in everything but the text."""

import os
import stat
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.domain.change import FileChange, TextChange
from tinsmith.domain.errors import ToolError
from tinsmith.workspace import descriptors, writing
from tinsmith.workspace.edits import LineEdit, apply_edits
from tinsmith.workspace.files import MAX_FILE_BYTES, StaleError, list_directory, read_file
from tinsmith.workspace.text import text_hash
from tinsmith.workspace.writing import write_file


def deletion(path):
    before = read_file(str(path))
    return FileChange(str(path), before, (TextChange(0, len(before.text), ""),), "", text_hash(""), is_deletion=True)


def change_of(path, *edits):
    return apply_edits(read_file(str(path)), edits).change


def creation(path, text):
    return FileChange(str(path), None, (TextChange(0, 0, text),), text, text_hash(text))


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
def test_the_mode_stays(tmp_path, mode):
    """EDIT-11."""
    script = tmp_path / "hook.sh"
    script.write_bytes(b"#!/bin/sh\necho one\n")
    script.chmod(mode)
    write_file(change_of(script, LineEdit("replace", 2, text="echo two")))
    assert (script.read_bytes(), stat.S_IMODE(script.stat().st_mode)) == (b"#!/bin/sh\necho two\n", mode)
    assert os.listdir(tmp_path) == ["hook.sh"]


def test_a_read_only_file_is_left_alone(tmp_path):
    """EDIT-14: the mode decides, whoever we are."""
    file = tmp_path / "a.txt"
    file.write_text("a\n")
    file.chmod(0o444)
    with pytest.raises(ToolError) as refusal:
        write_file(change_of(file, LineEdit("replace", 1, text="b")))
    assert (refusal.value.code, file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("readOnly", "a\n", 0o444)
    assert os.listdir(tmp_path) == ["a.txt"]


def refusal_of(function, *arguments):
    with pytest.raises(ToolError) as refusal:
        function(*arguments)
    return refusal.value


@pytest.fixture(params=["one call", "steps"])
def _either_way(request, monkeypatch):
    """With the system calls that Linux has for it, and without."""
    if request.param == "steps":
        monkeypatch.setattr(descriptors, "_system_call", lambda: None)
        monkeypatch.setattr(descriptors, "_library_call", lambda _name: None)


@pytest.mark.usefixtures("_either_way")
def test_a_symlink_that_came_after_the_look_is_not_followed(tmp_path):
    """The race: a file or a folder above it becomes a link out of the workspace between the check and the use."""
    root, out = tmp_path / "root", tmp_path / "out"
    for folder in (root / "sub", out):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("a\n")
    change = change_of(root / "sub" / "a.txt", LineEdit("replace", 1, text="b"))
    new = creation(root / "sub" / "new" / "n.txt", "n\n")
    (root / "sub").rename(root / "moved")
    (root / "sub").symlink_to(out)
    assert refusal_of(read_file, str(root / "sub" / "a.txt")).code == "notReadable"
    assert refusal_of(list_directory, str(root / "sub")).code == "notReadable"
    assert refusal_of(write_file, change).code == "notWritable"
    assert refusal_of(write_file, new).code == "notWritable"
    (root / "moved" / "a.txt").unlink()
    (root / "moved" / "a.txt").symlink_to(out / "a.txt")
    moved = FileChange(
        str(root / "moved" / "a.txt"), change.before, change.changes, change.after_text, change.after_hash
    )
    assert refusal_of(read_file, moved.path).code == "notReadable"
    assert refusal_of(write_file, moved).code == "notReadable"
    (root / "moved" / "n.txt").symlink_to(out / "n.txt")
    assert refusal_of(write_file, creation(root / "moved" / "n.txt", "n\n")).code == "notReadable"
    assert (os.listdir(out), (out / "a.txt").read_text()) == (["a.txt"], "a\n")


@pytest.mark.usefixtures("_either_way")
def test_no_swap_of_links_while_files_are_written_gets_out(tmp_path):
    """The same race as it happens: links come and go while edits run."""
    root, out = tmp_path / "root", tmp_path / "out"
    for folder in (root / "sub", out):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("0\n")
    (root / "link").symlink_to(out)
    is_over = threading.Event()

    def swap():
        while not is_over.is_set():
            for old, new in (("sub", "real"), ("link", "sub"), ("sub", "link"), ("real", "sub")):
                (root / old).rename(root / new)

    swapping = threading.Thread(target=swap)
    swapping.start()
    written = refused = 0
    try:
        deadline = time.monotonic() + 5
        while (written < 20 or refused < 20) and time.monotonic() < deadline:
            try:
                change = change_of(root / "sub" / "a.txt", LineEdit("replace", 1, text=str(written + 1)))
                write_file(change)
                written += 1
            except ToolError:
                refused += 1
    finally:
        is_over.set()
        swapping.join()
    assert (written > 0, refused > 0) == (True, True)
    assert ((out / "a.txt").read_text(), os.listdir(out)) == ("0\n", ["a.txt"])


@pytest.mark.usefixtures("_either_way")
def test_folders_are_made_and_files_written_either_way(tmp_path):
    write_file(creation(tmp_path / "a" / "b" / "c.txt", "one\n"))
    write_file(change_of(tmp_path / "a" / "b" / "c.txt", LineEdit("insert", 1, text="two")))
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "one\ntwo\n"
    assert list_directory(str(tmp_path / "a")) == (["b/"], 1)
    assert os.listdir(tmp_path / "a" / "b") == ["c.txt"]
    assert refusal_of(write_file, creation(tmp_path / "a" / "b" / "c.txt", "x")).code == "stale"
    assert refusal_of(write_file, creation(tmp_path / "a" / "b" / "c.txt" / "d", "x")).code == "notWritable"


class MeddledWith:
    """Does something to a file right before it is put in its place."""

    def __init__(self, monkeypatch, meddle):
        for name in ("exchange", "rename_to_free"):
            real = getattr(descriptors, name)
            monkeypatch.setattr(writing, name, self.wrapped(real, meddle))
        self.is_done = False

    def wrapped(self, real, meddle):
        def call(*arguments):
            if not self.is_done:
                self.is_done = True
                meddle()
            return real(*arguments)

        return call


@pytest.mark.usefixtures("_either_way")
def test_a_file_that_changes_between_the_check_and_the_rename_stays(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    file.write_text("mine\n")
    change = change_of(file, LineEdit("replace", 1, text="ours"))
    MeddledWith(monkeypatch, lambda: file.write_text("theirs\n"))
    with pytest.raises(StaleError) as refusal:
        write_file(change)
    assert (refusal.value.current.text, file.read_text(), os.listdir(tmp_path)) == ("theirs\n", "theirs\n", ["a.txt"])


@pytest.mark.usefixtures("_either_way")
def test_a_file_that_appears_between_the_check_and_the_rename_stays(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    MeddledWith(monkeypatch, lambda: file.write_text("theirs\n"))
    with pytest.raises(StaleError):
        write_file(creation(file, "ours\n"))
    assert (file.read_text(), os.listdir(tmp_path)) == ("theirs\n", ["a.txt"])


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_directory_where_a_file_was_stays_one(tmp_path, monkeypatch, when):
    file = tmp_path / "a.txt"
    file.write_text("mine\n")
    change = change_of(file, LineEdit("replace", 1, text="ours"))

    def replace():
        file.unlink()
        file.mkdir()
        (file / "inside").write_text("x")

    if when == "before":
        replace()
    else:
        MeddledWith(monkeypatch, replace)
    assert refusal_of(write_file, change).code == "isDirectory"
    assert (os.listdir(tmp_path), os.listdir(file)) == (["a.txt"], ["inside"])


def test_a_file_that_vanishes_in_between_is_not_brought_back(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    file.write_text("mine\n")
    change = change_of(file, LineEdit("replace", 1, text="ours"))
    MeddledWith(monkeypatch, file.unlink)
    assert refusal_of(write_file, change).code == "notWritable"
    assert os.listdir(tmp_path) == []


def test_a_deletion_takes_exactly_the_text_it_was_made_for(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("ours\n")
    change = deletion(file)
    file.write_text("ours\nand theirs\n")
    with pytest.raises(StaleError):
        write_file(change)
    assert file.read_text() == "ours\nand theirs\n"
    file.write_text("ours\n")
    file.chmod(0o444)
    assert refusal_of(write_file, change).code == "readOnly"
    file.chmod(0o644)
    write_file(change)
    assert os.listdir(tmp_path) == []
    with pytest.raises(StaleError):
        write_file(change)


@pytest.mark.usefixtures("_either_way")
def test_a_file_that_changes_right_before_its_deletion_stays(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    file.write_text("ours\n")
    change = deletion(file)
    MeddledWith(monkeypatch, lambda: file.write_text("theirs\n"))
    with pytest.raises(StaleError):
        write_file(change)
    assert (file.read_text(), os.listdir(tmp_path)) == ("theirs\n", ["a.txt"])


def test_a_hard_link_keeps_the_old_text(tmp_path):
    (tmp_path / "a.txt").write_text("old\n")
    (tmp_path / "b.txt").hardlink_to(tmp_path / "a.txt")
    write_file(change_of(tmp_path / "a.txt", LineEdit("replace", 1, text="new")))
    assert ((tmp_path / "a.txt").read_text(), (tmp_path / "b.txt").read_text()) == ("new\n", "old\n")


def test_owner_and_mode_stay_where_we_may_keep_them(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("a\n")
    if os.geteuid() == 0:
        os.chown(file, 12_345, 23_456)
    file.chmod(0o2750)
    before = file.stat()
    write_file(change_of(file, LineEdit("replace", 1, text="b")))
    after = file.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


FULL = """
import resource, signal, sys
from tinsmith.domain.errors import ToolError
from tinsmith.workspace import descriptors, writing
from tinsmith.workspace.edits import LineEdit, apply_edits
from tinsmith.workspace.files import read_file
from tinsmith.workspace.writing import write_file
if sys.argv[2] == "limited":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
change = apply_edits(read_file(sys.argv[1]), [LineEdit("insert", 1, text="x" * 200_000)]).change
try:
    write_file(change)
except ToolError as error:
    print(error.code, error.message)
"""


@pytest.fixture
def full_disk(tmp_path):
    """A folder that cannot take 200 kB more, and how that was done."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder, "mounted" if is_mounted else "limited"
    if is_mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_file_as_it_was(full_disk):
    folder, way = full_disk
    (folder / "a.txt").write_text("a\n")
    command = [sys.executable, "-c", FULL, str(folder / "a.txt"), way]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    reason = "No space left on device" if way == "mounted" else "File too large"
    assert done.stdout.startswith("notWritable ")
    assert f"({reason}); it is as it was" in done.stdout
    assert ((folder / "a.txt").read_text(), os.listdir(folder)) == ("a\n", ["a.txt"])


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"]
)
def test_what_the_system_makes_up_is_no_file(path):
    assert refusal_of(read_file, os.path.realpath(path)).code == "notRegular"
    assert refusal_of(write_file, creation(path, "x")).code == "notRegular"


def test_new_files_get_their_folders(tmp_path):
    write_file(creation(tmp_path / "a" / "b" / "c.txt", "new\n"))
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "new\n"


def test_a_new_file_never_lands_on_one_that_is_there(tmp_path):
    (tmp_path / "a.txt").write_text("mine\n")
    with pytest.raises(StaleError) as refusal:
        write_file(creation(tmp_path / "a.txt", "new\n"))
    assert refusal.value.current.text == (tmp_path / "a.txt").read_text() == "mine\n"


content = st.text(alphabet="ab\r\n", max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(content, content, st.booleans())
def test_a_stale_change_never_writes(tmp_path, before, meanwhile, has_bom):
    file = tmp_path / "a.txt"
    file.write_bytes(before.encode())
    change = change_of(file, LineEdit("insert", 0, text="X"))
    other = b"\xef\xbb\xbf" * has_bom + meanwhile.encode()
    file.write_bytes(other)
    if other == before.encode():
        write_file(change)
        assert file.read_bytes() == change.after_text.encode()
        return
    with pytest.raises(StaleError):
        write_file(change)
    assert file.read_bytes() == other


def test_a_file_that_is_gone_is_not_brought_back(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("a\n")
    change = change_of(file, LineEdit("replace", 1, text="b"))
    file.unlink()
    with pytest.raises(StaleError) as refusal:
        write_file(change)
    assert (refusal.value.current, os.listdir(tmp_path)) == (None, [])


def test_of_many_writers_of_one_text_one_wins(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("start\n" * 1000)
    changes = [change_of(file, LineEdit("replace", 1, 1000, f"{number}\n" * 1000)) for number in range(8)]
    wins = []
    ready = threading.Barrier(len(changes))

    def write(change):
        ready.wait()
        try:
            write_file(change)
        except StaleError:
            return
        wins.append(change)

    threads = [threading.Thread(target=write, args=(change,)) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [change.after_text for change in wins] == [file.read_text()]


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "missing", "below a file", "large"])
def test_only_regular_files_of_bearable_size_are_read(tmp_path, kind):
    path = tmp_path / "x"
    code = {"folder": "isDirectory", "missing": "notFound", "below a file": "notFound", "large": "tooLarge"}
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = "/dev/null"
    elif kind == "below a file":
        path.write_text("a")
        path = path / "y"
    elif kind == "large":
        with open(path, "wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ToolError) as refusal:
        read_file(str(path))
    assert refusal.value.code == code.get(kind, "notRegular")


def test_utf16_goes_back_as_it_came(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xff\xfe" + "é\r\n🚀\r\n".encode("utf-16-le"))
    write_file(change_of(file, LineEdit("insert", 2, text="end")))
    assert file.read_bytes() == b"\xff\xfe" + "é\r\n🚀\r\nend\r\n".encode("utf-16-le")
