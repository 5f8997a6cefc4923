"""read, edit and write over the boundary: JSON in, files and answers out (EDIT-…, SYNC-15)."""

import asyncio
import os
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tools.stage import Bench, Buffers, field

from tinsmith.domain.change import ChangedFile
from tinsmith.domain.errors import PolicyError, ToolError
from tinsmith.domain.policy import EditSubject, FileDelta
from tinsmith.domain.redaction import MARK
from tinsmith.domain.tool import Location
from tinsmith.tools.ports import RESULT_CHARACTERS
from tinsmith.workspace.text import text_hash

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\0\x30\x08\x02\0\0\0"


@pytest.fixture
def bench(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Bench(root)


def put(bench, name, content):
    path = bench.root / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


async def test_what_read_says(bench):
    put(bench, "a.txt", "one\ntwo\nthree\n")
    result = await bench.call("read", path="a.txt", start_line=2)
    digest = text_hash("one\ntwo\nthree\n")
    assert result.content == (
        f"path: a.txt\nlines: 3\nhash: {digest}\nsource: disk\nshowing: 2-3\n    2\ttwo\n    3\tthree\n"
    )
    assert result.locations == (Location(str(bench.root / "a.txt"), 2, 3),)


async def test_what_edit_says(bench):
    path = put(bench, "a.txt", "".join(f"{n}\n" for n in range(1, 11)))
    digest = await bench.read("a.txt")
    result = await bench.edit("a.txt", digest, ("replace", 5, None, "five\nand a half"), ("delete", 9))
    after = path.read_text()
    assert after == "1\n2\n3\n4\nfive\nand a half\n6\n7\n8\n10\n"
    assert result.content == (
        f"hash: {text_hash(after)}\nlines: 10 (+0)\nchanged: 5-9\n"
        "    2\t2\n    3\t3\n    4\t4\n    5\tfive\n    6\tand a half\n    7\t6\n    8\t7\n    9\t8\n   10\t10\n"
    )
    assert result.mutation_state == "attempted"
    assert result.files == (ChangedFile(str(path), "edit", 2, 2, digest, text_hash(after)),)
    assert result.locations == (Location(str(path), 5, 9),)


async def test_what_the_gate_is_told(bench):
    path = put(bench, "a.txt", "one\ntwo\n")
    digest = await bench.read("a.txt")
    edits = [{"op": "replace", "start": 2, "text": "TWO"}]
    access = await bench.preview("edit", path="a.txt", hash=digest, edits=edits)
    delta = FileDelta(str(path), 1, 1, "edit", digest, text_hash("one\nTWO\n"))
    assert access.subject == EditSubject((delta,), "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n")
    assert (access.action, access.target, access.is_outside, access.is_secret) == ("change", "a.txt", False, False)
    assert path.read_text() == "one\ntwo\n"
    created = await bench.preview("write", path="new/.env", content="x\n")
    assert (created.target, created.is_secret, created.title) == ("new/.env", True, "Create new/.env (+1 -0)")
    outside = await bench.preview("read", path="../elsewhere")
    assert (outside.action, outside.is_outside) == ("look", True)


async def test_crlf_stays_and_is_not_shown(bench):
    """EDIT-01."""
    path = put(bench, "in.txt", b"alpha\r\nbeta\r\ngamma\r\ndelta\r\n")
    digest = await bench.read("in.txt")
    first = await bench.edit("in.txt", digest, ("replace", 2, 2, "BETA"))
    assert path.read_bytes() == b"alpha\r\nBETA\r\ngamma\r\ndelta\r\n"
    second = await bench.edit("in.txt", field(first, "hash"), ("insert", 3, None, "new1\nnew2"))
    assert path.read_bytes() == b"alpha\r\nBETA\r\ngamma\r\nnew1\r\nnew2\r\ndelta\r\n"
    assert "\r" not in first.content + second.content


async def test_the_bom_stays_and_is_not_shown(bench):
    """EDIT-03; the hash knows neither BOM nor carriage returns."""
    path = put(bench, "in.cs", b"\xef\xbb\xbfusing A;\r\n// s\xc3\xa9curis\xc3\xa9\r\n")
    shown = await bench.call("read", path="in.cs")
    assert field(shown, "hash") == text_hash("using A;\n// sécurisé\n")
    assert "    1\tusing A;\n" in shown.content
    await bench.edit("in.cs", field(shown, "hash"), ("replace", 1, 1, "\ufeffusing B;"))
    assert path.read_bytes() == b"\xef\xbb\xbfusing B;\r\n// s\xc3\xa9curis\xc3\xa9\r\n"


async def test_write_keeps_bom_and_line_ends(bench):
    """EDIT-21."""
    path = put(bench, "in.cs", b"\xef\xbb\xbfusing A;\r\n")
    path.chmod(0o640)
    digest = await bench.read("in.cs")
    await bench.call("write", path="in.cs", content="using B;\nusing C;\n", hash=digest)
    assert path.read_bytes() == b"\xef\xbb\xbfusing B;\r\nusing C;\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


async def test_other_encodings_are_shown_and_refused(bench):
    """EDIT-04; the design refuses."""
    path = put(bench, "in.c", b"int x = 1;\n/* caf\xe9 */\n")
    shown = await bench.call("read", path="in.c")
    assert "note: not UTF-8" in shown.content
    edits = [{"op": "replace", "start": 1, "text": "int x = 2;"}]
    for refusal in (
        await bench.refusal("edit", path="in.c", hash=field(shown, "hash"), edits=edits),
        await bench.refusal("write", path="in.c", hash=field(shown, "hash"), content="x"),
    ):
        assert refusal.code == "notText"
    assert path.read_bytes() == b"int x = 1;\n/* caf\xe9 */\n"


async def test_lines_have_the_same_numbers_in_read_and_edit(bench):
    """EDIT-09."""
    content = "one\n\ftwo\nthr\u2028ee\nfo\x85ur\nfi\vve \x1c x\nTARGET\nseven\n"
    path = put(bench, "in.py", content)
    shown = await bench.call("read", path="in.py")
    assert field(shown, "lines") == "7"
    assert "\n    6\tTARGET\n" in shown.content
    await bench.edit("in.py", field(shown, "hash"), ("delete", 6))
    assert path.read_bytes() == content.replace("TARGET\n", "").encode()


async def test_a_stale_hash_changes_nothing_and_says_how_to_go_on(bench):
    """EDIT-15."""
    path = put(bench, "in.txt", "".join(f"{n}\n" for n in range(1, 21)))
    old = await bench.read("in.txt")
    theirs = "new top\n" + path.read_text().replace("15\n", "fifteen\n")
    path.write_text(theirs)
    edits = [
        {"op": "replace", "start": 3, "end": 4, "text": "three"},
        {"op": "delete", "start": 15},
        {"op": "insert", "start": 20, "text": "end"},
    ]
    refusal = await bench.refusal("edit", path="in.txt", hash=old, edits=edits)
    new = text_hash(theirs)
    assert (refusal.code, refusal.data) == ("stale", {"hash": new, "path": str(path)})
    assert refusal.message == (
        f"in.txt is not the text with the hash {old} any more, so nothing was changed.\nhash: {new}\n"
        "What changed since:\n--- a/in.txt\n+++ b/in.txt\n@@ -1,2 +1,3 @@\n+new top\n 1\n 2\n"
        "@@ -13,5 +14,5 @@\n 13\n 14\n-15\n+fifteen\n 16\n 17\n"
        "Your edits in the new text:\n  replace 3-4 -> replace 4-5\n  delete 15-15 -> does not fit, its lines changed\n"
        "  insert after 20 -> insert after 21\nSend the call again with the new hash and these line numbers."
    )
    assert path.read_text() == theirs
    result = await bench.edit("in.txt", new, ("replace", 4, 5, "three"), ("delete", 16), ("insert", 21, None, "end"))
    assert result.ok
    assert path.read_text() == theirs.replace("3\n4\n", "three\n", 1).replace("fifteen\n", "") + "end\n"


async def test_a_stale_write_changes_nothing(bench):
    path = put(bench, "in.txt", "a\n")
    old = await bench.read("in.txt")
    path.write_text("a\nb\n")
    refusal = await bench.refusal("write", path="in.txt", hash=old, content="mine\n")
    assert (refusal.code, path.read_text()) == ("stale", "a\nb\n")
    assert "+b\n" in refusal.message
    await bench.call("write", path="in.txt", hash=refusal.data["hash"], content="mine\n")
    assert path.read_text() == "mine\n"


async def test_a_hash_nobody_was_shown_leads_to_a_read(bench):
    put(bench, "in.txt", "a\n")
    refusal = await bench.refusal("edit", path="in.txt", hash="0" * 16, edits=[{"op": "delete", "start": 1}])
    assert refusal.code == "stale"
    assert "Read the file" in refusal.message


async def test_an_added_final_newline_is_a_new_text(bench):
    """SYNC-15."""
    path = put(bench, "disk.txt", "a\nb")
    old = await bench.read("disk.txt")
    path.write_text("a\nb\n")
    refusal = await bench.refusal("edit", path="disk.txt", hash=old, edits=[{"op": "replace", "start": 2, "text": "B"}])
    assert "only the final newline" in refusal.message
    await bench.edit("disk.txt", refusal.data["hash"], ("replace", 2, None, "B"))
    assert path.read_text() == "a\nB\n"


async def test_only_shown_lines_may_go(bench):
    path = put(bench, "in.txt", "".join(f"{n}\n" for n in range(1, 31)))
    digest = await bench.read("in.txt", start_line=5, end_line=10)
    for edit in ({"op": "delete", "start": 4, "end": 6}, {"op": "replace", "start": 11, "text": "x"}):
        refusal = await bench.refusal("edit", path="in.txt", hash=digest, edits=[edit])
        assert refusal.code == "notShown"
    assert "lines 11-11" in refusal.message
    inserted = await bench.edit("in.txt", digest, ("insert", 20, None, "anywhere"))
    digest = field(inserted, "hash")
    follows = await bench.edit("in.txt", digest, ("delete", 5, 10), ("replace", 21, 22, "seen in the snippet"))
    assert path.read_text().count("\n") == 24
    own = await bench.edit("in.txt", field(follows, "hash"), ("replace", 15, None, "written by myself"))
    assert own.ok
    with pytest.raises(ToolError, match="not shown"):
        await bench.call("edit", "child", path="in.txt", hash=field(own, "hash"), edits=[{"op": "delete", "start": 15}])


async def test_what_was_written_counts_as_shown(bench):
    result = await bench.call("write", path="new.txt", content="a\nb\nc\n")
    assert result.content == "hash: " + text_hash("a\nb\nc\n") + "\nlines: 3 (+3)\nchanged: 1-3\n"
    assert [(file.op, file.added, file.removed, file.before_hash) for file in result.files] == [("create", 3, 0, "")]
    await bench.edit("new.txt", field(result, "hash"), ("delete", 2))
    assert (bench.root / "new.txt").read_text() == "a\nc\n"


async def test_writing_over_a_file_needs_its_hash(bench):
    path = put(bench, "a.txt", "a\n")
    assert (await bench.refusal("write", path="a.txt", content="x")).code == "exists"
    assert (await bench.refusal("write", path="b.txt", content="x", hash="0" * 16)).code == "notFound"
    assert (
        await bench.refusal("edit", path="b.txt", hash="0" * 16, edits=[{"op": "delete", "start": 1}])
    ).code == "notFound"
    assert (path.read_text(), os.listdir(bench.root)) == ("a\n", ["a.txt"])


async def test_an_empty_file_can_be_written_and_filled(bench):
    result = await bench.call("write", path="empty", content="")
    shown = await bench.call("read", path="empty")
    assert "showing: none, the file is empty\n" in shown.content
    await bench.edit("empty", field(result, "hash"), ("insert", 0, None, "x"))
    assert (bench.root / "empty").read_text() == "x\n"


async def test_one_huge_line_is_cut_and_can_be_edited(bench):
    """EDIT-18."""
    text = "x=1;" * 750_000
    path = put(bench, "min.js", text)
    shown = await bench.call("read", path="min.js")
    assert len(shown.content) <= RESULT_CHARACTERS
    assert "of its 3,000,000 characters shown" in shown.content
    assert field(shown, "hash") == text_hash(text)
    await bench.edit("min.js", field(shown, "hash"), ("replace", 1, None, "y"))
    assert path.read_text() == "y"


async def test_long_files_come_in_pages(bench):
    put(bench, "long.txt", "".join(f"line {n:05} {'.' * 40}\n" for n in range(1, 2001)))
    start, seen = 1, 0
    while start <= 2000:
        page = await bench.call("read", path="long.txt", start_line=start)
        assert len(page.content) <= RESULT_CHARACTERS
        first, last = map(int, field(page, "showing").split("-"))
        assert first == start
        start, seen = last + 1, seen + page.content.count("\tline ")
        assert (f"go on with start_line={start}]" in page.content) is (start <= 2000)
    assert seen == 2000


@pytest.mark.parametrize("lines", [(0, None), (5, None), (3, 2), (-1, 2)])
async def test_ranges_that_are_none(bench, lines):
    put(bench, "a.txt", "1\n2\n3\n4\n")
    start, end = lines
    refusal = await bench.refusal("read", path="a.txt", start_line=start, end_line=end)
    assert refusal.code == "badRange"


async def test_binaries_are_refused_with_their_size(bench):
    """EDIT-19."""
    doc = b"%DOC-1.0\n" + b"header line\n" * 125 + bytes(range(256)) * 4
    put(bench, "doc.bin", doc)
    put(bench, "dot.png", PNG)
    changes = [{"op": "delete", "start": 1}]
    for refusal, size in (
        (await bench.refusal("read", path="doc.bin"), len(doc)),
        (await bench.refusal("edit", path="doc.bin", hash="0" * 16, edits=changes), len(doc)),
        (await bench.refusal("write", path="doc.bin", hash="0" * 16, content="x"), len(doc)),
        (await bench.refusal("edit", path="dot.png", hash="0" * 16, edits=changes), len(PNG)),
        (await bench.refusal("write", path="dot.png", hash="0" * 16, content="x"), len(PNG)),
    ):
        assert refusal.code == "binary"
        assert f"{size:,} bytes" in refusal.message


@pytest.mark.parametrize(("end", "says"), [(None, "640x48 pixels"), (20, "broken off")])
async def test_an_image_is_told_in_words(bench, end, says):
    path = put(bench, "dot.png", PNG[:end])
    result = await bench.call("read", path="dot.png")
    assert result.ok
    assert result.content.startswith(f"path: dot.png\nbinary: PNG image, {says}, {len(PNG[:end])} bytes\n")
    assert result.locations == (Location(str(path)),)


async def test_odd_characters_in_other_lines_stay(bench):
    """EDIT-23."""
    content = "e\u0301 é\n👨\u200d👩\u200d👧 🇩🇪\nold\n\ttab \n  trail   \n"
    path = put(bench, "in.txt", content)
    digest = await bench.read("in.txt")
    await bench.edit("in.txt", digest, ("replace", 3, 3, "new"))
    assert path.read_bytes() == content.replace("old", "new").encode()


async def test_read_only_files_are_refused(bench):
    """EDIT-14, for a plain user and for root alike."""
    path = put(bench, "a.txt", "a\n")
    path.chmod(0o444)
    digest = await bench.read("a.txt")
    refusal = await bench.refusal("edit", path="a.txt", hash=digest, edits=[{"op": "replace", "start": 1, "text": "b"}])
    assert (refusal.code, path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("readOnly", "a\n", 0o444)


async def test_the_executable_bit_stays(bench):
    """EDIT-11."""
    path = put(bench, "hook.sh", "#!/bin/sh\necho one\n")
    path.chmod(0o755)
    digest = await bench.read("hook.sh")
    await bench.edit("hook.sh", digest, ("replace", 2, None, "echo two"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


async def test_an_open_buffer_is_the_truth(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("disk\n")
    buffers = Buffers({str(path): "disk\nuser line\n"})
    bench = Bench(tmp_path, buffers)
    shown = await bench.call("read", path="a.txt")
    assert field(shown, "source") == "buffer"
    assert "    2\tuser line\n" in shown.content
    result = await bench.edit("a.txt", field(shown, "hash"), ("replace", 1, None, "changed"))
    assert (buffers.texts[str(path)], path.read_text()) == ("changed\nuser line\n", "disk\n")
    assert "note: changed in the editor, not saved yet" in result.content


async def test_a_buffer_is_found_by_the_name_it_was_opened_with(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("disk\n")
    (tmp_path / "link").symlink_to("real")
    buffers = Buffers({str(tmp_path / "link" / "a.txt"): "buffer\n"})
    bench = Bench(tmp_path, buffers)
    digest = await bench.read("link/a.txt")
    await bench.edit("link/a.txt", digest, ("replace", 1, None, "x"))
    assert buffers.texts == {str(tmp_path / "link" / "a.txt"): "x\n"}
    assert (tmp_path / "real" / "a.txt").read_text() == "disk\n"


async def test_a_directory_is_listed(bench):
    put(bench, "b.txt", "")
    (bench.root / "a").mkdir()
    result = await bench.call("read", path=".")
    assert result.content == "path: ./\nentries: 2\na/\nb.txt\n"


async def test_secrets_are_marked_and_their_lines_stay_closed(bench):
    path = put(bench, "conf.py", f"a = 1\nkey = 'ghp_{'a1' * 18}'\nb = 2\n")
    shown = await bench.call("read", path="conf.py")
    assert f"    2\tkey = '{MARK}'\n" in shown.content
    digest = field(shown, "hash")
    for edit, code in (
        ({"op": "delete", "start": 2}, "notShown"),
        ({"op": "replace", "start": 1, "end": 3, "text": "x"}, "notShown"),
        ({"op": "replace", "start": 1, "text": f"key = '{MARK}'"}, "redactionMark"),
    ):
        assert (await bench.refusal("edit", path="conf.py", hash=digest, edits=[edit])).code == code
    assert (await bench.refusal("write", path="x", content=MARK)).code == "redactionMark"
    result = await bench.edit("conf.py", digest, ("replace", 1, None, "a = 2"))
    assert "ghp_" not in result.content
    assert path.read_text().splitlines()[1] == f"key = 'ghp_{'a1' * 18}'"
    with pytest.raises(ToolError, match="not shown"):
        await bench.edit("conf.py", field(result, "hash"), ("delete", 2))


async def test_our_own_directories_are_never_changed(tmp_path):
    (tmp_path / "data").mkdir()
    bench = Bench(tmp_path, protected=(str(tmp_path / "data"),))
    for name, arguments in (
        ("write", {"path": "data/new", "content": "x"}),
        ("edit", {"path": "src/../data/x", "hash": "0", "edits": [{"op": "delete", "start": 1}]}),
    ):
        with pytest.raises(PolicyError, match="belongs to Tinsmith"):
            await bench.preview(name, **arguments)
    assert os.listdir(tmp_path / "data") == []


async def test_two_edits_of_one_text_never_mix(bench):
    path = put(bench, "a.txt", "start\n" * 500)
    digest = await bench.read("a.txt")
    edits = [[{"op": "replace", "start": 1, "end": 500, "text": f"{n}\n" * 500}] for n in range(6)]
    await bench.preview("edit", path="a.txt", hash=digest, edits=edits[0])

    async def run(edit):
        try:
            arguments = bench.decoded("edit", {"path": "a.txt", "hash": digest, "edits": edit})
            return await bench.specs["edit"].run(arguments, bench.scope())
        except ToolError as error:
            return error

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(run(edit)) for edit in edits]
    endings = [task.result() for task in running]
    winners = [n for n, ending in enumerate(endings) if not isinstance(ending, ToolError)]
    assert len(winners) == 1
    assert path.read_text() == f"{winners[0]}\n" * 500
    assert {ending.code for ending in endings if isinstance(ending, ToolError)} == {"stale"}


lines = st.lists(st.text(alphabet="ab é\f\u2028", max_size=4), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(lines, st.sampled_from(["\n", "\r\n"]), st.data())
async def test_an_edit_and_its_inverse_leave_every_byte(bench, lines, eol, data):
    before = "".join(line + eol for line in lines).encode()
    path = put(bench, "p.txt", before)
    start = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    digest = await bench.read("p.txt")
    result = await bench.edit("p.txt", digest, ("replace", start, end, "new 1\nnew 2\n"))
    old = "".join(line + "\n" for line in lines[start - 1 : end])
    await bench.edit("p.txt", field(result, "hash"), ("replace", start, start + 1, old))
    assert path.read_bytes() == before


async def test_an_edit_through_a_symlink_changes_its_target_and_keeps_it(bench):
    put(bench, "real.txt", "one\n")
    (bench.root / "link.txt").symlink_to("real.txt")
    digest = await bench.read("link.txt")
    await bench.edit("link.txt", digest, ("replace", 1, None, "two"))
    assert (bench.root / "link.txt").is_symlink()
    assert (bench.root / "real.txt").read_text() == "two\n"


@pytest.mark.parametrize("kind", ["pipe", "device", "memory"])
async def test_what_is_no_file_is_neither_read_nor_changed(bench, kind):
    path = {"pipe": str(bench.root / "pipe"), "device": "/dev/null", "memory": "/proc/self/environ"}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    async with asyncio.timeout(5):
        read = await bench.refusal("read", path=path)
        edit = await bench.refusal("edit", path=path, hash="x", edits=[{"op": "insert", "start": 0, "text": "x"}])
        write = await bench.refusal("write", path=path, content="x")
    assert {read.code, edit.code, write.code} == {"notRegular"}


async def test_a_name_that_differs_only_in_case_is_told_and_not_created(bench):
    put(bench, "README.md", "one\n")
    read = await bench.refusal("read", path="Readme.md")
    edit = await bench.refusal("edit", path="readme.md", hash="x", edits=[{"op": "insert", "start": 0, "text": "x"}])
    write = await bench.refusal("write", path="ReadMe.md", content="x")
    assert (read.code, edit.code, write.code) == ("notFound", "notFound", "twin")
    assert all("README.md" in error.message for error in (read, edit, write))
    assert [path.name for path in bench.root.iterdir()] == ["README.md"]


async def test_lines_of_ten_thousand_columns(bench):
    wide = ["x" * 9_999 + str(number) for number in range(5)]
    path = put(bench, "wide.txt", "".join(f"{line}\n" for line in wide))
    shown = await bench.call("read", path="wide.txt")
    assert len(shown.content) <= RESULT_CHARACTERS
    assert "go on with start_line=2" in shown.content
    result = await bench.edit("wide.txt", field(shown, "hash"), ("replace", 1, None, "y" * 10_000))
    assert len(result.content) <= RESULT_CHARACTERS
    assert path.read_text() == "".join(f"{line}\n" for line in ["y" * 10_000, *wide[1:]])


async def test_a_token_at_the_cut_of_a_page_is_not_shown_in_part(bench):
    put(bench, "wide.txt", "x" * (RESULT_CHARACTERS - 1_520) + " sk-" + "a" * 40 + " " + "y" * 9_000 + "\nend\n")
    shown = (await bench.call("read", path="wide.txt")).content
    assert "sk-a" not in shown
    assert MARK[:3] in shown


async def test_a_private_key_over_two_pages_is_hidden_on_both(bench):
    key = ["-----BEGIN PRIVATE KEY-----", *["MIIEvQ" * 10] * 600, "-----END PRIVATE KEY-----"]
    put(bench, "key.txt", "".join(f"{line}\n" for line in ["top", *key, "end"]))
    digest = field(await bench.call("read", path="key.txt", start_line=300), "hash")
    shown = await bench.call("read", path="key.txt", start_line=300, end_line=310)
    assert "MIIEvQ" not in shown.content
    refused = await bench.refusal("edit", path="key.txt", hash=digest, edits=[{"op": "delete", "start": 305}])
    assert refused.code == "notShown"
