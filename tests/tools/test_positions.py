"""One line has one number in read, code_grep, code_outline, code_symbols and edit, and in an editor's positions."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tools.stage import Bench, Buffers, field

from tinsmith.adapters.lsp.documents import Document
from tinsmith.adapters.lsp.wire import ContentChange, Position
from tinsmith.domain.change import FileChange

ODD = st.text(alphabet="a é🚀e\u0301\x0c\x0b\x1c\x85\u2028\u2029\t\r", max_size=6).map(lambda text: f"# {text}")
LINES = st.lists(ODD, max_size=8)
ENCODINGS = ("utf-8", "utf-16", "utf-32")
FORMS = {"plain": ("utf-8", b""), "bom": ("utf-8", b"\xef\xbb\xbf"), "utf-16": ("utf-16-le", b"\xff\xfe")}


class Editor(Buffers):
    """Open documents that are kept three times, each in another encoding of positions, and changed by these alone."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__(texts)
        self.documents = [Document("file:///a.py", 1, text, each) for text in texts.values() for each in ENCODINGS]
        self.starts: list[Position] = []

    def open_paths(self) -> tuple[str, ...]:
        return tuple(self.texts)

    async def apply(self, label, turn_id, changes):
        for change in changes:
            for document in self.documents:
                self._tell(document, change)
        return await super().apply(label, turn_id, changes)

    def _tell(self, document: Document, change: FileChange) -> None:
        ranges = [document.offset_range(each.start, each.end) for each in change.changes]
        self.starts.append(ranges[0].start)
        told = [ContentChange(each.text, span) for each, span in zip(change.changes, ranges, strict=True)]
        document.change(2, told[::-1])


async def numbers(bench: Bench) -> set[int]:
    """What each tool calls the line that defines `needle`."""
    read = (await bench.call("read", path="a.py")).content
    grep = (await bench.call("code_grep", pattern="def needle")).content
    outline = (await bench.call("code_outline", path="a.py")).content
    symbols = (await bench.call("code_symbols", query="needle")).content
    found = [
        re.search(r"^ *(\d+)\tdef needle", read, re.MULTILINE),
        re.search(r"^a\.py:(\d+):def needle", grep, re.MULTILINE),
        re.search(r"^function needle :(\d+)$", outline, re.MULTILINE),
        re.search(r"^function needle a\.py:(\d+)$", symbols, re.MULTILINE),
    ]
    return {int(match[1]) for match in found if match} | {0 for match in found if match is None}


@pytest.mark.parametrize("form", FORMS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(above=LINES, below=LINES, eol=st.sampled_from(["\n", "\r\n"]))
async def test_on_disk(tmp_path, form, above, below, eol):
    codec, bom = FORMS[form]
    path = tmp_path / "a.py"
    lines = [*above, "def needle(): pass", *below]
    path.write_bytes(bom + "".join(line + eol for line in lines).encode(codec))
    bench = Bench(tmp_path)
    (number,) = await numbers(bench)
    assert number == len(above) + 1
    await bench.edit("a.py", await bench.read("a.py"), ("replace", number, None, "x = 1"))
    lines[number - 1] = "x = 1"
    assert path.read_bytes() == bom + "".join(line + eol for line in lines).encode(codec)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(above=LINES, below=LINES, eol=st.sampled_from(["\n", "\r\n"]))
async def test_in_an_editor_of_any_encoding(tmp_path, above, below, eol):
    path = tmp_path / "a.py"
    path.write_text("# on disk\n")
    lines = [*above, "def needle(): pass", *below]
    editor = Editor({str(path): "".join(line + eol for line in lines)})
    bench = Bench(tmp_path, editor)
    (number,) = await numbers(bench)
    assert number == len(above) + 1
    shown = await bench.call("read", path="a.py")
    assert field(shown, "source") == "buffer"
    await bench.edit("a.py", field(shown, "hash"), ("replace", number, None, "x = 1"))
    lines[number - 1] = "x = 1"
    assert {document.text for document in editor.documents} == {"".join(line + eol for line in lines)}
    assert editor.starts == [Position(number - 1, 0)] * len(ENCODINGS)
