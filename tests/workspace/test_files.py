"""Files on disk: guarded, atomic, and as they were in everything but the text."""

import os
import stat
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.domain.change import FileChange, TextChange
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.edits import LineEdit, apply_edits
from tinsmith.workspace.files import MAX_FILE_BYTES, StaleError, read_file, write_file
from tinsmith.workspace.text import text_hash


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


def test_a_symlink_stays_one(tmp_path):
    (tmp_path / "real.txt").write_text("a\n")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_file(change_of(tmp_path / "real.txt", LineEdit("replace", 1, text="b")))
    change = apply_edits(read_file(str(tmp_path / "real.txt")), [LineEdit("replace", 1, text="c")]).change
    write_file(
        FileChange(str(tmp_path / "link.txt"), change.before, change.changes, change.after_text, change.after_hash)
    )
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "c\n"


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
