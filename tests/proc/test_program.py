"""Programs without a shell: what they write, their end, and that nobody waits for one that is not wanted any more."""

import time

import pytest

from tinsmith.proc.program import Written, run_program


def run(*arguments, check=lambda: None, **options):
    return run_program(arguments, cwd="/", check=check, **options)


def test_what_a_program_writes_and_how_it_ends(tmp_path):
    text = "echo $PWD $(env | grep -c HOME); cat; echo error >&2; exit 3"
    assert run("/bin/sh", "-c", text) == Written(3, b"/ 0\n")
    assert run("/bin/sh", "-c", "kill -9 $$") == Written(-9, b"")


def test_a_program_that_is_not_there_or_writes_too_much():
    assert run("/nowhere/at/all") is None
    assert run("/bin/sh", "-c", "yes", max_bytes=100_000) is None
    assert run("/bin/sh", "-c", "echo 12345", max_bytes=5) is None


def test_a_program_is_killed_when_it_is_not_wanted_any_more():
    def check():
        if time.monotonic() > begun + 0.1:
            raise InterruptedError

    begun = time.monotonic()
    with pytest.raises(InterruptedError):
        run("/bin/sh", "-c", "exec sleep 50", check=check)
    assert time.monotonic() < begun + 5
