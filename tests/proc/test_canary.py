"""Commands of every class, run for real: what reads changes nothing anywhere, the rest nothing outside its grant."""

import ctypes
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.conftest import MISSING
from tests.proc.test_classify import rows
from tests.proc.world import USER, Listener, World, world

from tinsmith.proc.classify import classify

HAS_BUBBLEWRAP = shutil.which("bwrap") is not None
if not HAS_BUBBLEWRAP:
    MISSING["commands of every class in the sandbox"] = "no bubblewrap here (apt-get install bubblewrap)"

if os.geteuid() != 0:
    MISSING["commands of every class with a network"] = "not root, so there is no network to give them"

NOT_TRIED = re.compile(r"\b(reboot|shutdown|halt|poweroff|init)\b")
"""Nobody should find out that these got through."""
REACHING = ("echo x > /dev/tcp/127.0.0.1/1", "echo x > /dev/udp/127.0.0.1/1")
EVERYTHING = ("home", "outside", "data", "workspace")
SHIELDED = ("home", "outside", "data", "workspace/.git/hooks", "workspace/certs")


@pytest.fixture
def made():
    with world() as built:
        built.git("init", "-q")
        built.git("add", "a.txt")
        built.git("commit", "-qm", "first")
        yield built


def aimed(commands: list[str], listener: Listener) -> list[str]:
    """The commands with their hosts and ports turned to where somebody listens."""
    ports = dict(zip(("tcp", "udp"), listener.ports, strict=True))
    return [
        re.sub(
            r"/dev/(tcp|udp)/(?:localhost|127\.0\.0\.1)/\d+",
            lambda found: f"/dev/{found[1]}/127.0.0.1/{ports[found[1]]}",
            text,
        ).replace("http://localhost", f"http://127.0.0.1:{ports['tcp']}")
        for text in commands
    ]


def test_what_is_classed_read_changes_nothing_even_without_a_sandbox(made):
    commands = [text for name, text in rows() if name == "read"]
    assert len(commands) >= 60
    listener = Listener(made.root)
    before = made.photograph(*EVERYTHING)
    changed = {}
    try:
        for text in aimed(commands, listener):
            arguments = ["timeout", "5", "bash", "-c", text]
            environment = made.environment(PAGER="false")
            silent = {"capture_output": True, "stdin": subprocess.DEVNULL}
            subprocess.run(arguments, cwd=made.workspace, env=environment, check=False, **silent)
            after = made.photograph(*EVERYTHING)
            if after != before:
                changed[text] = after.items() ^ before.items()
                before = after
    finally:
        listener.close()
    assert changed == {}
    assert listener.seen == []


def sample(most: int) -> list[str]:
    """Commands of every class, evenly drawn."""
    kept = [(name, text) for name, text in rows() if not NOT_TRIED.search(text)]
    classes = sorted({name for name, _ in kept})
    drawn = []
    for each in classes:
        own = [text for name, text in kept if name == each]
        share = max(1, len(own) * len(classes) // most) if most < len(kept) else 1
        drawn += own[::share]
    return drawn


def assert_nothing_gets_out(made: World, commands: list[str], *, has_network: bool = False) -> None:
    """But over the network, when that is granted."""
    made.hand_over()
    inner = Listener(made.workspace)
    outer = Listener(made.root)
    before = made.photograph(*SHIELDED)
    secrets = [made.workspace / ".env", made.workspace / ".git" / "config"]
    contents = [path.read_bytes() for path in secrets]
    try:
        done = made.run(*aimed(commands, outer), timeout=2, has_network=has_network)
    finally:
        inner.close()
        outer.close()
    assert done["kind"] == "bubblewrap"
    assert len(done["results"]) == len(commands)
    assert made.photograph(*SHIELDED) == before
    assert [path.read_bytes() for path in secrets] == contents
    assert (inner.seen, {*outer.seen}) == ([], {"tcp", "udp"} if has_network else set())
    assert not [text for _, text in done["results"] if "key-of" in text]


def in_a_network_of_its_own(function: Callable[[], None]) -> None:
    """Run it where there is a loopback device and nothing else, so that nobody out there hears of it."""

    def run() -> None:
        assert ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK) == 0, os.strerror(ctypes.get_errno())
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        function()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run).result()


_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET, of the calling thread: unshare(2)."""


PIECES = """-delete > >x ;rm␣a.txt &&touch␣z " ' \\ { } * ? [ ] -o -ox < & | ( ) # ~ ! $x "$f" $( ` <( = -i -- -e w e
s/a/touch␣z/e %n -v a[$(touch␣z)] << x= eval exec -c sh xargs sort sed [[ ]] case esac for done 0 - \\rm +x""".split()


def mutated(chance: random.Random) -> str:
    """A command of the table that something happened to."""
    texts = [text for _, text in rows()]
    text = chance.choice([text for name, text in rows() if name == "read"])
    for _ in range(chance.randint(1, 4)):
        place = chance.randint(0, len(text))
        piece = chance.choice([*PIECES, *PIECES, "\n", "\\\n", "\u00a0", "\r", "\x0b", "𠀀", *texts]).replace("␣", " ")
        pad, cut = chance.choice(["", " "]), chance.choice([0, 0, 1, 3])
        text = text[:place] + pad + piece + pad + text[place + cut :]
    return text


if HAS_BUBBLEWRAP:

    def test_commands_of_every_class_stay_inside(made):
        commands = sample(60)
        assert len(commands) >= 60
        assert_nothing_gets_out(made, commands)

    if os.geteuid() == 0:

        def test_with_a_network_they_reach_that_and_no_more(made):
            commands = [*REACHING, *sample(30)]
            in_a_network_of_its_own(lambda: assert_nothing_gets_out(made, commands, has_network=True))

        @pytest.mark.long
        @pytest.mark.timeout(600)
        @pytest.mark.parametrize("user", [None, USER])
        def test_all_commands_of_every_class_reach_no_more_than_a_network(made, user):
            made.user = user
            commands = [*REACHING, *sample(10_000)]
            assert len(commands) >= 300
            in_a_network_of_its_own(lambda: assert_nothing_gets_out(made, commands, has_network=True))

    @pytest.mark.long
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("user", [None, USER] if os.geteuid() == 0 else [None])
    def test_all_commands_of_every_class_stay_inside(made, user):
        made.user = user
        commands = sample(10_000)
        assert len(commands) >= 300
        assert_nothing_gets_out(made, commands)

    @pytest.mark.long
    @pytest.mark.timeout(600)
    def test_what_is_still_classed_read_when_it_was_mutilated_changes_nothing(made):
        chance = random.Random(4)
        cwd = str(made.workspace)
        commands: list[str] = []
        while len(commands) < 3000:
            text = mutated(chance)
            if "yes" not in text and classify(text, cwd=cwd, root=cwd).command_class == "read":
                commands.append(text)
        before = made.photograph(*EVERYTHING)
        guilty = []
        for start in range(0, len(commands), 50):
            made.run(*commands[start : start + 50], timeout=2)
            if made.photograph(*EVERYTHING) != before:
                guilty += commands[start : start + 50]
                before = made.photograph(*EVERYTHING)
        assert guilty == []
