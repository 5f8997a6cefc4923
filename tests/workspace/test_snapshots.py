"""Changes to several files at once, wherever they live: all or none."""

import pytest
from tests.tools.stage import Buffers

from tinsmith.domain.errors import ToolError
from tinsmith.workspace.edits import LineEdit, apply_edits
from tinsmith.workspace.files import StaleError
from tinsmith.workspace.snapshots import Snapshots


@pytest.fixture
def place(tmp_path):
    for name in ("disk.txt", "open.txt"):
        (tmp_path / name).write_text("old\n")
    return tmp_path


async def changes(snapshots, place):
    return [
        apply_edits(await snapshots.read(str(place / name)), [LineEdit("replace", 1, text="new")]).change
        for name in ("disk.txt", "open.txt")
    ]


async def test_each_file_changes_where_it_lives(place):
    buffers = Buffers({str(place / "open.txt"): "buffer\n"})
    snapshots = Snapshots(buffers)
    results = await snapshots.apply("label", "t1", await changes(snapshots, place))
    assert [(result.status, result.is_dirty) for result in results] == [("applied", False), ("applied", True)]
    assert (place / "disk.txt").read_text() == buffers.texts[str(place / "open.txt")] == "new\n"
    assert (place / "open.txt").read_text() == "old\n"


@pytest.mark.parametrize("stale", ["disk.txt", "open.txt"])
async def test_one_stale_text_stops_them_all(place, stale):
    buffers = Buffers({str(place / "open.txt"): "buffer\n"})
    snapshots = Snapshots(buffers)
    prepared = await changes(snapshots, place)
    if stale == "disk.txt":
        (place / "disk.txt").write_text("theirs\n")
    else:
        buffers.texts[str(place / "open.txt")] = "theirs\n"
    with pytest.raises(StaleError) as refusal:
        await snapshots.apply("label", "t1", prepared)
    assert refusal.value.current.text == "theirs\n"
    assert "new\n" not in {(place / "disk.txt").read_text(), *buffers.texts.values()}


async def test_a_file_that_was_opened_meanwhile_changes_in_the_editor(place):
    buffers = Buffers({})
    snapshots = Snapshots(buffers)
    prepared = await changes(snapshots, place)
    buffers.texts[str(place / "open.txt")] = "old\n"
    await snapshots.apply("label", "t1", prepared)
    assert buffers.texts == {str(place / "open.txt"): "new\n"}
    assert (place / "open.txt").read_text() == "old\n"


async def test_other_line_ends_are_another_text(place):
    buffers = Buffers({})
    snapshots = Snapshots(buffers)
    prepared = await changes(snapshots, place)
    buffers.texts[str(place / "open.txt")] = "old\r\n"
    with pytest.raises(StaleError):
        await snapshots.apply("label", "t1", prepared)


async def test_what_an_encoding_cannot_hold_is_refused(place):
    snapshots = Snapshots(Buffers({}))
    change = apply_edits(await snapshots.read(str(place / "disk.txt")), [LineEdit("replace", 1, text="\ud83d")]).change
    with pytest.raises(ToolError) as refusal:
        await snapshots.apply("label", "t1", [change])
    assert (refusal.value.code, (place / "disk.txt").read_text()) == ("notWritable", "old\n")
