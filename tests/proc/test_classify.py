"""The class of a command text, and what a remembered answer stands for."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.proc.classify import SEVERITY, classify
from tinsmith.proc.syntax import is_covered, normal, parse

TABLE = Path(__file__).parents[1] / "cases" / "shell" / "classes.txt"


def rows() -> list[tuple[str, str]]:
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("# class")]
    pairs = (line.split(" | ", 1) for line in lines)
    return [(name, text.replace("⏎", "\n").replace("\\u00a0", "\u00a0")) for name, text in pairs]


def classified(text: str):
    return classify(text, cwd="/w", root="/w")


@pytest.mark.parametrize(("expected", "command"), rows())
def test_the_table(expected, command):
    assert classified(command).command_class == expected


def test_the_table_is_long_and_of_every_class():
    counts = Counter(name for name, _ in rows())
    assert set(counts) == set(SEVERITY)
    assert sum(counts.values()) >= 250


BROKEN = {"ls 'unbalanced", "ls )", "if true", "ls &&", "o=-v; [ $o x ]"}
"""What follows these is read as a part of them."""
WHOLE = [(name, text) for name, text in rows() if text not in BROKEN]


@given(st.sampled_from(WHOLE), st.sampled_from(WHOLE))
def test_a_script_is_as_bad_as_the_worst_of_its_commands(first, second):
    (one, first_text), (other, second_text) = first, second
    moves = "cd" in first_text + second_text  # then nobody knows where a write goes
    worst = max(one, other, key=SEVERITY.index)
    script = f"{first_text}\n{second_text}"
    found = classified(script).command_class
    if not is_covered(parse(normal(script)).root_node, normal(script)):  # the parser ran both lines together
        assert found != "read"
    else:
        assert found == worst or (moves and (worst, found) == ("write_workspace", "unknown"))


@pytest.mark.parametrize("line", ["rm a.txt < b.txt", "rm -rf src >/dev/null 2>&1", "touch z 2>/dev/null", "sh x <b"])
@pytest.mark.parametrize(
    "pipeline", ["cat a | sort | uniq | sort | head", "cat a b | sort | uniq -c | sort -rn | head -5"]
)
def test_a_long_pipeline_does_not_swallow_the_next_line(pipeline, line):
    """The parser takes a redirected command in the line behind for words of the pipeline's last one."""
    assert classified(f"{pipeline}\n{line}").command_class not in {"read", "write_workspace"}


PIPED = ("cat a.txt", "sort", "uniq -c", "sort -rn", "head -5", "head", "wc -l", "grep -n x", "cut -d: -f1", "nl")
JOINTS = ("\n", "\n\n", "\\\n\n", " \n ", ";", "; ", " && ", "&&\n", " || ", " | ", " |\n", " & ", " # why\n")
DOING_MORE = (
    *("touch z", "rm a.txt", "rm -rf src >/dev/null 2>&1", "touch z < b.txt", "sh x <b 2>&1", "rm a 2>/dev/null <c"),
    *("> z", "touch z &", "{ touch z; }", "(touch z)", "touch z <<< x", "x=1 touch z", "echo x > z", "cat <(rm a)"),
    *("echo $(rm a)", "if true; then rm a; fi", "for i in 1; do rm $i; done < f"),
)
pipelines = st.lists(st.sampled_from(PIPED), min_size=1, max_size=7).map(" | ".join)


@given(st.lists(pipelines, max_size=3), st.sampled_from(DOING_MORE), st.lists(pipelines, max_size=2), st.data())
def test_what_does_more_than_read_is_never_overlooked_however_it_is_joined(before, more, behind, data):
    script, *others = [*before, more, *behind]
    for each in others:
        script += data.draw(st.sampled_from(JOINTS)) + each
    assert classified(script).command_class != "read"


@given(st.text(st.characters(min_codepoint=0x20000) | st.sampled_from("{} ;x<E\n"), max_size=40))
def test_characters_far_away_do_no_harm(text):
    """The parser's scanner reads outside its tables for them."""
    assert classified("{" + text).command_class in SEVERITY


@given(st.text(max_size=60) | st.lists(st.sampled_from([text for _, text in rows()]), max_size=3).map(" ".join))
def test_any_text_has_a_class(text):
    assert classified(text).command_class in SEVERITY


@pytest.mark.parametrize("deep", ["(" * 5000 + "ls" + ")" * 5000, "bash -c " * 300 + "ls", "x" * 60_000, "$(" * 3000])
def test_what_is_too_deep_or_long_is_unknown(deep):
    assert classified(deep).command_class == "unknown"


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("git commit -m 'a b'", "git commit"),
        ("git commit", "git commit"),
        ("git -C sub commit", ""),
        ("npm test", "npm test"),
        ("npm run build -- --watch", "npm run build"),
        ("npm run", ""),
        ("make test CC=gcc", "make test"),
        ("make", ""),
        ("make -j4", ""),
        ("pytest -q tests/x.py", "pytest"),
        ("python -m pytest -q", "python -m pytest"),
        ("python -m http.server", ""),
        ("python x.py", ""),
        ("cargo test", "cargo test"),
        ("cargo run -- x", ""),
        ("rm -rf build", ""),
        ("./run.sh", ""),
        ("git commit && git push", ""),
        ("git commit > log", ""),
        ("git commit 2>&1", "git commit"),
        ("git commit -m $(date)", ""),
        ("git commit -m *", ""),
        ("X=1 make test", ""),
        ("timeout 5 make test", ""),
        ("git commit | cat", ""),
        ("git commit; ls )", ""),
        ("cat <<EOF\nEOF", ""),
    ],
)
def test_what_a_rule_would_name(command, prefix):
    assert " ".join(classified(command).rule_prefix) == prefix


@pytest.mark.parametrize(
    ("command", "argvs"),
    [
        ("cd a && timeout 5 git push", [("cd", "a"), ("git", "push")]),
        ("sudo -u x git push", [("sudo", "-u", "x", "git", "push"), ("git", "push")]),
        ("bash -c 'ls; git push'", [("ls",), ("git", "push")]),
        (
            "find . -exec git push {} \\;",
            [("find", ".", "-exec", "git", "push", "{}", ";"), ("git", "push", "{}", ";")],
        ),
        ("echo $(git push)", [("git", "push"), ("echo", "$(git push)")]),
        ("f() { git push; }", [("git", "push")]),
        ('"git"  pu\\sh', [("git", "push")]),
    ],
)
def test_the_simple_commands_that_rules_see(command, argvs):
    assert [part.argv for part in classified(command).parts] == argvs


@pytest.mark.parametrize(
    "command",
    [
        "PATH=.; make test",
        "x=1; make test",
        "make() { ls; }; make test",
        "make test > out",
        "(make test) > out",
        "{ make test; } < in",
        "make test $(ls)",
        "make test; ls )",
        "alias make=x; make test <<E\nE",
    ],
)
def test_no_rule_for_its_first_words_allows_a_command_in_a_script_that_changes_its_meaning(command):
    assert not [part for part in classified(command).parts if part.is_plain]


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat ../x /etc/passwd ~/y", ["../x", "/etc/passwd", "~/y"]),
        ("grep -rn /api src", ["src"]),
        ("grep -f /etc/shadow x", ["/etc/shadow", "x"]),
        ("grep --file=/etc/shadow x", ["x", "/etc/shadow"]),
        ("head -c5 < /etc/passwd", ["/etc/passwd"]),
        ("echo /etc/passwd", []),
        ("for f in /etc/*; do cat $f; done", ["/etc/*", "$f"]),
        ("p=/etc; ls $p", ["/etc", "$p"]),
        ("cd; ls", ["~"]),
        ("find /etc . -name '/x'", ["/etc", "."]),
        ("sed -n 1p /etc/passwd", ["/etc/passwd"]),
        ("ls > out", []),
    ],
)
def test_the_paths_that_are_read(command, paths):
    assert list(classified(command).paths) == paths
