"""Searching: the same answer from ripgrep and from our own reading, and what counts as a text and a line."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tinsmith.domain.errors import ToolError
from tinsmith.workspace import search as module
from tinsmith.workspace.listing import Listings
from tinsmith.workspace.pattern import matcher
from tinsmith.workspace.regex import RegexError, compiled
from tinsmith.workspace.search import content_of_file, find_ripgrep, holding, matching_lines, search


def counts(root, pattern, *, ripgrep=None, is_regex=True, case="sensitive"):
    wanted = matcher(pattern, is_regex=is_regex, case=case)
    listing = Listings().look(str(root), str(root))
    return search(listing, listing.files, {}, wanted, lambda: None, ripgrep=ripgrep)


def held(root, pattern, *, is_regex, case, ripgrep=None):
    wanted = matcher(pattern, is_regex=is_regex, case=case)
    listing = Listings().look(str(root), str(root))
    return holding(listing, listing.files, wanted, lambda: None, ripgrep=ripgrep)


PLAIN = r"a b B é É ſ k K \. \d \D \w \W \s \S \b ^ $ \t \x41 \x{1F600} \- \/ { } ] # ~ - & ( ) | () x{,2} \z \A \pL \B"
JOINED = (
    r". [ab] [^a] [a-c] [\w-] [^\s] [[:alpha:]] []a] [a&&b] [\d.] a* b+ .? .*? (?:ab) (a|b) (?i:k) (?P<n>a) a{2} a{1,2}"
)
ATOMS = st.sampled_from([*PLAIN.split(), *JOINED.split()])
PATTERNS = st.lists(ATOMS, min_size=1, max_size=5).map("".join)
LINES = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "B",
            "é",
            "ſ",
            "K",
            "k",
            "\r",
            "\r\n",
            "\n",
            "\n",
            " ",
            "\t",
            "1",
            "_",
            "-",
            ".",
            "ab",
            "aa",
            "{",
            "\x00",
            "😀",
        ]
    ),
    max_size=12,
).map("".join)
CONTENTS = st.one_of(
    LINES.map(str.encode),
    LINES.map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    LINES.map(lambda text: b"\xff\xfe" + text.encode("utf-16-le")),
    LINES.map(lambda text: b"\xfe\xff" + text.encode("utf-16-be")),
    LINES.map(lambda text: text.encode("latin-1", "replace")),
)


@pytest.fixture
def always_ripgrep(monkeypatch):
    monkeypatch.setattr(module, "_WORTH_A_PROCESS", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("searched")


@pytest.mark.ripgrep
@given(
    files=st.lists(CONTENTS, min_size=1, max_size=6),
    patterns=st.lists(PATTERNS, min_size=3, max_size=3),
    case=st.sampled_from(["sensitive", "ignore", "smart"]),
    is_regex=st.booleans(),
)
@example(
    files=[b"foo\r\n", b"foo\r\r\n", b"foo\r", b"foo"],
    patterns=["foo$", "foo.", r"foo\s"],
    case="sensitive",
    is_regex=True,
)
@example(files=[b"a\n\nb\n", b"\n", b"", b"a"], patterns=["^$", "^", "x*"], case="sensitive", is_regex=True)
@example(files=[b"match\n" * 20_000 + b"\0"], patterns=["match", "^m", "h$"], case="sensitive", is_regex=True)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ripgrep_and_our_own_reading_agree(folder, always_ripgrep, files, patterns, case, is_regex):
    shutil.rmtree(folder)
    folder.mkdir()
    for number, content in enumerate(files):
        (folder / f"f{number}").write_bytes(content)
    for pattern in patterns:
        try:
            own = counts(folder, pattern, is_regex=is_regex, case=case)
        except ToolError:
            continue
        assert counts(folder, pattern, is_regex=is_regex, case=case, ripgrep=shutil.which("rg")) == own, pattern
        for ripgrep in (None, shutil.which("rg")):
            assert held(folder, pattern, is_regex=is_regex, case=case, ripgrep=ripgrep) == own.keys(), pattern


@given(pattern=PATTERNS, text=LINES.map(lambda text: text.replace("\r", "").replace("\0", "")))
@settings(max_examples=200, deadline=None)
def test_a_pattern_finds_the_lines_that_re2_finds(pattern, text):
    try:
        plain = compiled(pattern.encode())
    except RegexError:
        return
    content = text.encode()
    lines = content.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    found = matcher(pattern, is_regex=True, case="sensitive")
    if r"\A" in pattern or r"\z" in pattern:
        return
    numbers = [content.count(b"\n", 0, start) for start, _ in matching_lines(content, found)]
    assert numbers == [number for number, line in enumerate(lines) if plain.search(line)]


@pytest.mark.ripgrep
def test_ripgrep_looks_at_the_files_that_we_list(tmp_path, always_ripgrep):
    """Rules that ripgrep reads otherwise than git, names that no rule can hold, files that nobody may read."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("k\n")
    (tmp_path / ".gitignore").write_text("{a,b}.txt\n*.log\n[[:digit:]]\n")
    (tmp_path / ".ignore").write_text("*.txt\n")
    (tmp_path / ".rgignore").write_text("*.md\n")
    names = [
        "a.txt",
        "b.txt",
        "{a,b}.txt",
        "x.log",
        "1",
        "c.md",
        ".hidden",
        "new\nline.log",
        " .log",
        "end.log ",
        "*.log",
    ]
    names += [
        "!x.log",
        "#.log",
        "[a].log",
        "b.log",
        os.fsdecode(b"\xff.log"),
        "sub/!.log",
        "sub/keep",
        "-n.txt",
        "ü.log",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("k\n")
    (tmp_path / "link").symlink_to("a.txt")
    (tmp_path / "closed").write_text("k\n")
    (tmp_path / "closed").chmod(0)
    own = counts(tmp_path, "k")
    visible = {"a.txt", "b.txt", "c.md", ".hidden", "sub/keep", "-n.txt", "end.log "}
    assert own.keys() - {"closed"} == visible  # root may read what is closed
    assert counts(tmp_path, "k", ripgrep=find_ripgrep("/nowhere")) == own


@pytest.mark.ripgrep
def test_ripgrep_reads_no_configuration(tmp_path, always_ripgrep, monkeypatch):
    (tmp_path / "rc").write_text("--invert-match\n")
    (tmp_path / "f").write_text("a\nb\nc\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    assert counts(tmp_path, "^a", ripgrep=shutil.which("rg")) == {"f": 1}


def program(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_which_ripgrep_is_good_enough(tmp_path, monkeypatch):
    workspace = tmp_path / "workspace"
    for name, version, is_good in (("old", "12.1.1", False), ("new", "14.1.0", True), ("other", "what", False)):
        made = program(tmp_path / name / "rg", f"echo ripgrep {version}")
        monkeypatch.setenv("PATH", f"{tmp_path / name}:/bin:/usr/bin")
        assert find_ripgrep(str(workspace)) == (made if is_good else None)
    program(workspace / "rg", "echo ripgrep 14.1.0")
    monkeypatch.setenv("PATH", str(workspace))
    assert find_ripgrep(str(workspace)) is None
    monkeypatch.setenv("PATH", "")
    assert find_ripgrep(str(workspace)) is None


@pytest.mark.parametrize("text", ["exit 2", "exit 101", "kill -9 $$"])
def test_a_ripgrep_that_fails_is_not_believed(tmp_path, always_ripgrep, text):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_text("a\n")
    broken = program(tmp_path / "rg", text)
    assert counts(tmp_path / "in", "a", ripgrep=broken) == {"f": 1}
    assert counts(tmp_path / "in", "a", ripgrep=str(tmp_path / "nowhere")) == {"f": 1}


def test_what_is_no_text_is_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 200_000)
    (tmp_path / "big").write_bytes(b"x" * 200_001)
    (tmp_path / "fits").write_bytes(b"x" * 200_000)
    (tmp_path / "binary").write_bytes(b"x\n" * 90_000 + b"\0")
    (tmp_path / "link").symlink_to("fits")
    os.mkfifo(tmp_path / "pipe")
    read = {
        name: content_of_file(str(tmp_path / name)) for name in ("big", "fits", "binary", "link", "pipe", "none", "\0")
    }
    assert read == {"fits": b"x" * 200_000, "pipe": b""} | dict.fromkeys(("big", "binary", "link", "none", "\0"))


@pytest.mark.parametrize(
    ("pattern", "case", "ignores"),
    [
        ("abc", "smart", True),
        ("aBc", "smart", False),
        (r"\W\S\pL\x4A", "smart", True),
        (r"(?P<Name>a)", "smart", True),
        ("ABC", "ignore", True),
        ("abc", "sensitive", False),
    ],
)
def test_case(pattern, case, ignores):
    assert matcher(pattern, is_regex=True, case=case).ignores_case is ignores
