"""diagnostics, and what an edit brings: through the tools, against an editor that finds the word `bad`."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.stage import Bench, Buffers

from tinsmith.domain.diagnostic import Diagnostic, DocumentDiagnostics
from tinsmith.domain.redaction import MARK
from tinsmith.tools.findings import newly_found
from tinsmith.tools.ports import RESULT_CHARACTERS
from tinsmith.workspace.diff import hunks_between
from tinsmith.workspace.text import lines_of


class Linting(Buffers):
    """Open documents whose language server finds each `bad`, as slowly as a test wants."""

    def __init__(self, texts):
        super().__init__(texts)
        self.versions = dict.fromkeys(texts, 1)
        self.elsewhere = {}
        self.has_diagnostics = True
        self.is_silent = False
        self.is_late = False
        self.asked = []

    def find(self, path):
        found = super().find(path)
        return found and type(found)(**{**_fields(found), "version": self.versions[path]})

    def open_paths(self):
        return tuple(self.texts)

    async def apply(self, label, turn_id, changes):
        applied = await super().apply(label, turn_id, changes)
        for change in changes:
            self.versions[change.path] += 1
        return applied

    async def diagnose(self, paths, min_versions, wait):
        self.asked.append((paths, dict(min_versions), wait))
        if wait and self.is_silent:
            await asyncio.get_running_loop().create_future()
        found = []
        for path in paths or [*self.texts, *self.elsewhere]:
            if path in self.texts:
                version = self.versions[path] - (self.is_late and bool(min_versions))
                found.append(DocumentDiagnostics(path, version, bad_in(self.texts[path])))
            elif path in self.elsewhere:
                found.append(DocumentDiagnostics(path, None, self.elsewhere[path]))
        return tuple(found)


def _fields(snapshot):
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}


def bad_in(text):
    return tuple(
        Diagnostic(number, line.index("bad") + 1, "error", f"{line.strip()}\nis bad", "lint", "B1")
        for number, line in enumerate(lines_of(text), 1)
        if "bad" in line
    )


@pytest.fixture
def editor(tmp_path):
    return Linting({str(tmp_path / "a.py"): "bad one\nfine\nlast\n"})


@pytest.fixture
def bench(tmp_path, editor):
    return Bench(tmp_path, editor, diagnostics=editor)


@pytest.fixture
def alone(tmp_path):
    return Bench(tmp_path)


async def test_what_the_editor_finds(bench, editor, tmp_path):
    editor.elsewhere[str(tmp_path / "sub" / "b.py")] = (Diagnostic(3, 1, "warning", "unused"),)
    editor.elsewhere["/elsewhere/c.py"] = (Diagnostic(1, 1, "error", "not ours"),)
    editor.elsewhere[str(tmp_path / ".env")] = (Diagnostic(1, 1, "error", "TOKEN=1"),)
    result = await bench.call("diagnostics")
    assert result.content == (
        "problems: 2 (1 error, 1 warning) in 2 files\n"
        "a.py:1:1 error: bad one is bad [lint B1]\nsub/b.py:3:1 warning: unused\n"
    )
    assert editor.asked == [((), {str(tmp_path / "a.py"): 1}, 1.5)]


async def test_one_file_and_one_folder(bench, editor, tmp_path):
    (tmp_path / "sub").mkdir()
    editor.elsewhere[str(tmp_path / "sub" / "b.py")] = (Diagnostic(3, 1, "information", "hm"),)
    assert (await bench.call("diagnostics", path="sub")).content == (
        "problems: 1 (1 note) in 1 file\nsub/b.py:3:1 information: hm\n"
    )
    assert (await bench.call("diagnostics", path="a.py")).content.startswith("problems: 1 (1 error) in 1 file\n")
    assert (await bench.call("diagnostics", path="other.py")).content == (
        "problems: none known\nnote: other.py is not open in the editor, so nobody may have looked at it\n"
    )


async def test_what_is_late_is_said_to_be(bench, editor):
    editor.is_late = True
    content = (await bench.call("diagnostics", path="a.py")).content
    assert content.endswith("note: not yet looked at since the last change: a.py\n")


async def test_without_an_editor(alone):
    error = await alone.refusal("diagnostics")
    assert (error.code, "Run the project's checks" in error.message) == ("noEditor", True)


async def test_very_many_problems_are_bounded(bench, editor, tmp_path):
    editor.elsewhere[str(tmp_path / "b.py")] = tuple(
        Diagnostic(number, 1, "warning", "x" * 1000) for number in range(1, 500)
    )
    content = (await bench.call("diagnostics")).content
    assert len(content) <= RESULT_CHARACTERS
    assert "more; name a file or folder" in content


async def test_what_the_gate_is_told(bench):
    access = await bench.preview("diagnostics", path="../x")
    assert (access.action, access.is_outside) == ("look", True)
    assert (await bench.preview("diagnostics")).title == "Problems in the workspace"


async def test_an_edit_tells_what_it_broke_and_nothing_older(bench, editor, tmp_path):
    digest = await bench.read("a.py")
    result = await bench.edit("a.py", digest, ("insert", 0, None, "top"), ("replace", 3, None, "now bad"))
    head, _, news = result.content.partition("The change was applied. ")
    assert head.startswith("hash: ")
    assert news == "New problems in the editor since (1 error):\na.py:4:5 error: now bad is bad [lint B1]\n"
    path = str(tmp_path / "a.py")
    assert editor.asked == [((path,), {}, 0.0), ((path,), {path: 2}, 1.5)]


async def test_an_edit_that_breaks_nothing_says_nothing(bench, editor):
    digest = await bench.read("a.py")
    result = await bench.edit("a.py", digest, ("replace", 2, None, "finer"))
    assert "problems" not in result.content


async def test_a_write_tells_too(bench, editor):
    digest = await bench.read("a.py")
    result = await bench.call("write", path="a.py", content="bad one\nbad sk-" + "x" * 30 + "\n", hash=digest)
    assert f"a.py:2:1 error: bad {MARK} is bad" in result.content


async def test_findings_of_an_older_text_are_not_told(bench, editor):
    editor.is_late = True
    digest = await bench.read("a.py")
    assert "problems" not in (await bench.edit("a.py", digest, ("replace", 2, None, "bad"))).content


async def test_an_editor_that_finds_nothing_is_never_asked(bench, editor):
    editor.has_diagnostics = False
    digest = await bench.read("a.py")
    await bench.edit("a.py", digest, ("replace", 2, None, "bad"))
    assert editor.asked == []


async def test_a_file_that_is_not_open_is_not_waited_for(bench, editor, tmp_path):
    (tmp_path / "b.py").write_text("x\n")
    digest = await bench.read("b.py")
    await bench.edit("b.py", digest, ("replace", 1, None, "bad"))
    assert editor.asked == []


async def test_a_cancel_while_findings_are_awaited_keeps_the_edit_and_its_result(bench, editor, tmp_path):
    editor.is_silent = True
    digest = await bench.read("a.py")
    editing = asyncio.ensure_future(bench.edit("a.py", digest, ("replace", 2, None, "bad")))
    async with asyncio.timeout(2):
        while len(editor.asked) < 2:
            await asyncio.sleep(0.005)
        bench.cancel.cancel()
        result = await editing
    assert (result.ok, result.mutation_state) == (True, "attempted")
    assert editor.texts[str(tmp_path / "a.py")] == "bad one\nbad\nlast\n"


lines = st.lists(st.sampled_from(["bad a", "bad b", "good", ""]), max_size=6)


@given(lines, lines)
def test_what_is_new_is_what_there_is_more_of(before, after):
    """Whatever moved: of each message, as many are new as came to be more."""
    old, new = bad_in("".join(f"{line}\n" for line in before)), bad_in("".join(f"{line}\n" for line in after))
    found = newly_found(old, new, hunks_between(before, after))
    for message in {item.message for item in (*old, *new)}:
        more = sum(item.message == message for item in new) - sum(item.message == message for item in old)
        assert sum(item.message == message for item in found) == max(0, more)
    assert set(found) <= set(new)


@given(lines)
def test_an_unchanged_text_has_nothing_new(text):
    items = bad_in("".join(f"{line}\n" for line in text))
    assert newly_found(items, items, ()) == ()
