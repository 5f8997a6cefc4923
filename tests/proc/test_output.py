"""The output of a command: bounded, marked, readable, whatever the pieces it comes in."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.redaction import MARK
from tinsmith.proc.output import SHOWN_CHARACTERS, SPILLED_FILES, OutputCollector
from tinsmith.proc.terminal import plain


def collected(chunks, folder="/dev/null/none", secrets=()):
    live = []
    collector = OutputCollector(str(folder), secrets, live.append)
    for chunk in chunks:
        collector.feed(chunk)
    return collector.finish(), "".join(live)


@given(st.text(alphabet="aé🚀\n\t ", max_size=60), st.data())
def test_pieces_do_not_matter(text, data):
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True) if b > a]
    output, live = collected(chunks)
    assert (output.text, live, output.size) == (text, text, len(raw))
    assert output.lines == text.count("\n") + (bool(text) and not text.endswith("\n"))


@given(st.lists(st.sampled_from(["10%", "\r", "\x1b[1m", "done", "\n", "\b"]), max_size=30))
def test_redraws_over_several_pieces_collapse(parts):
    output, _ = collected([part.encode() for part in parts])
    assert output.text == plain("".join(parts))


def test_a_lingering_line_is_shown_once():
    live = []
    collector = OutputCollector("/dev/null/none", (), live.append)
    collector.feed(b"one\ntw")
    collector.pause()
    collector.pause()
    collector.feed(b"o\n10%")
    collector.pause()
    collector.feed(b"\r100%\n")
    collector.finish()
    assert live == ["one\n", "tw", "o\n", "10%", "\n100%\n"]


def test_bytes_that_are_no_text_become_marks():
    output, _ = collected([b"ok \xe4\xf6 \xf0\n"])
    assert output.text == "ok \ufffd\ufffd \ufffd\n"


def test_a_long_output_keeps_head_and_tail_and_goes_whole_into_a_file(tmp_path):
    lines = [f"line {number}" for number in range(10_000)]
    whole = "".join(f"{line}\n" for line in lines)
    raw = whole.encode()
    output, _ = collected([raw[i : i + 5000] for i in range(0, len(raw), 5000)], tmp_path)
    shown = output.text.split("\n")
    gap = next(index for index, line in enumerate(shown) if line.startswith("[..."))
    assert shown[:gap] == lines[:gap]
    assert shown[gap + 1 : -1] == lines[gap + 1 - len(shown) + 1 :][: len(shown) - gap - 2]
    left_out = 10_000 - (len(shown) - 2)
    assert shown[gap] == f"[... {left_out:,} lines left out here, of 10,000 lines and {len(raw):,} bytes in all ...]"
    assert len(output.text) <= SHOWN_CHARACTERS + 200
    assert (Path(output.spilled).read_text(), output.is_spilled_whole) == (whole, True)
    assert os.stat(output.spilled).st_mode & 0o777 == 0o600


def test_one_endless_line_is_bounded(tmp_path):
    output, _ = collected([b"x" * 60_000] * 20 + [b"END"], tmp_path)
    assert output.text.startswith("xxx")
    assert output.text.endswith("xEND")
    assert len(output.text) < SHOWN_CHARACTERS + 200
    assert Path(output.spilled).read_text() == "x" * 1_200_000 + "END"


def test_an_endless_redraw_keeps_the_last_one():
    output, _ = collected([f"{number}%\r".encode() * 1000 for number in range(1, 101)] + [b"done\n"])
    assert output.text == "done\n"


def test_without_a_disk_the_output_is_still_there():
    output, _ = collected([b"a line\n" * 100_000])
    assert (output.spilled, output.lines) == ("", 100_000)
    assert output.text.endswith("a line\n")


def test_old_files_go(tmp_path):
    for number in range(SPILLED_FILES + 5):
        (tmp_path / f"o_{number:04}.txt").write_text("old")
    collected([b"x\n" * 20_000], tmp_path)
    assert len(os.listdir(tmp_path)) == SPILLED_FILES


def test_secrets_reach_neither_result_nor_file_nor_watcher(tmp_path):
    key = b"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nqqq\n-----END RSA PRIVATE KEY-----\n"
    raw = b"before\ntoken sk-" + b"a1" * 12 + b"\nvalue my-secret-1\n" + key + b"after\n"
    raw += b"filler\n" * 4000
    chunks = [raw[:70], raw[70:100], raw[100:130], raw[130:]]
    output, live = collected(chunks, tmp_path, ("my-secret-1",))
    spilled = Path(output.spilled).read_text()
    for text in (output.text, live, spilled):
        assert not [word for word in ("sk-a1", "my-secret-1", "MIIEow", "qqq") if word in text]
        assert text.startswith(f"before\ntoken {MARK}\nvalue {MARK}\n" + f"{MARK}\n" * 4 + "after\n")
