"""The sandbox from inside: what a command can do there and what it cannot, as root and as a plain user.

The lists of what must be denied follow those of other agents' sandboxes, and three ways out that they leave open.
"""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import MISSING
from tests.proc.world import DRIVER, USER, Listener, World, world

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import ToolError
from tinsmith.proc import bubblewrap
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.runner import Runner
from tinsmith.proc.sandbox import Sandbox, SandboxState, links_of
from tinsmith.proc.supervise import TERM_SECONDS, Cancelled, Command, Exited, TimedOut

IS_ROOT = os.geteuid() == 0
HAS_BUBBLEWRAP = shutil.which("bwrap") is not None
if not HAS_BUBBLEWRAP:
    MISSING["tests of the sandbox"] = "no bubblewrap here (apt-get install bubblewrap)"
if not IS_ROOT:
    MISSING["tests of the sandbox as another user"] = "not root"

WHO = [None, USER] if IS_ROOT else [None]

PYTHON = "/usr/bin/env python3 -c"
SOCKET = f"{PYTHON} 'import socket,sys; s=socket.socket"

BOTH = {
    # name: (command, whether it works)
    "read the system": ("cat /etc/hostname /etc/passwd && ls /usr/bin | head -3", True),
    "write the workspace": ("echo x > new && mkdir d && mv new d/ && cat d/new && rm -r d", True),
    "write null": ("echo x > /dev/null && echo x > /dev/zero", True),
    "read random": ("head -c 4 /dev/urandom | wc -c", True),
    "write temporary files": ('f=$(mktemp) && echo x > "$f"', True),
    "write caches": ('mkdir -p "$PIP_CACHE_DIR" && echo x > "$PIP_CACHE_DIR/x" && echo x > "$XDG_CACHE_HOME/y"', True),
    "temporary files stay": ("cat $TMPDIR/kept", True),
    "gain nothing by exec": ("grep -q 'NoNewPrivs:.1' /proc/self/status", True),
    "have no capabilities": ("grep -q 'CapEff:.0000000000000000' /proc/self/status", True),
    "have no capabilities to regain": ("grep -q 'CapPrm:.0000000000000000' /proc/self/status", True),
    "connect sockets in pairs": (f"{PYTHON} 'import socket; a,b=socket.socketpair(); a.send(b\"x\")'", True),
    "write /etc": ("echo x > /etc/tinsmith-test", False),
    "write the home": ("echo x > ~/new", False),
    "append to the home": ("echo x >> ~/notes", False),
    "remove from the home": ("rm -f ~/notes; test ! -e ~/notes", False),
    "write outside": ("echo x > ../outside/new", False),
    "truncate outside": ("truncate -s 0 ../outside/file", False),
    "remove outside": ("rm -rf ../outside/file; test ! -e ../outside/file", False),
    "follow a link out": ("ln -s ../outside out && echo x > out/new", False),
    "follow a link to a file out": ("ln -sf ../outside/file out2 && echo x > out2", False),
    "link hard out": ("ln ../outside/file hard && echo x > hard", False),
    "move the workspace": ("mv ../workspace ../other", False),
    "write /usr": ("echo x > /usr/local/tinsmith-test", False),
    "read a home key": ("cat ~/.ssh/id_ed25519", False),
    "list home keys and read": ("cat ~/.ssh/*", False),
    "read netrc": ("cat ~/.netrc", False),
    "read our store": ("cat ../data/store", False),
    "set a kernel switch": ("cat /proc/sys/vm/laptop_mode > /proc/sys/vm/laptop_mode", False),
    "make a device": ("mknod dev c 1 3", False),
    "mount": ("mount -t tmpfs none src", False),
    "make a namespace": ("unshare -Ur true", False),
    "change root": ("chroot . true", False),
    "trace": (f"{PYTHON} 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(321, 0, 0, 0) >= 0 or 1)'", False),
    "use a ring of calls": (f"{PYTHON} 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(425, 8, 0) < 0)'", False),
    "call by other numbers": (
        f"{PYTHON} 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(0x40000029, 1, 1, 0) < 0)'",
        False,
    ),
    "open a unix socket": (f"{SOCKET}(socket.AF_UNIX)'", False),
    "send datagrams from a pair": (
        f'{PYTHON} \'import socket; a,b=socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b"x", "S")\'',
        False,
    ),
    "send datagrams from a raw pair": (f"{PYTHON} 'import socket; socket.socketpair(1, socket.SOCK_RAW)'", False),
    "open a virtual machine's socket": (f"{SOCKET}(40, socket.SOCK_STREAM)'", False),
    "open a packet socket": (f"{SOCKET}(17, socket.SOCK_RAW)'", False),
    "open a kernel crypto socket": (f"{SOCKET}(38, socket.SOCK_SEQPACKET)'", False),
    "reach the host's TCP": (f'{SOCKET}(); s.settimeout(2); s.connect(("127.0.0.1", TCP))\'', False),
    "reach the host's TCP by bash": ("echo x > /dev/tcp/127.0.0.1/TCP", False),
    "reach the network": (f'{SOCKET}(); s.settimeout(2); s.connect(("192.0.2.1", 80))\'', False),
    "resolve a name": ("getent hosts example.com", False),
    "reach a unix socket outside": (f'{SOCKET}(1); s.connect("UNIX")\'', False),
}
"""The same in bubblewrap and under Landlock."""

BUBBLEWRAP = {
    "write the host's /tmp": ("test -e /tmp/.tinsmith-outside", False),
    "see other processes": ("kill -0 HOST 2>/dev/null || test -e /proc/HOST/cmdline", False),
    "serve and reach itself": (
        f"{PYTHON} 'import socket as s; l=s.create_server((\"127.0.0.1\",0)); s.create_connection(l.getsockname())'",
        True,
    ),
    "share memory": (
        f"{PYTHON} 'import multiprocessing.shared_memory as m; m.SharedMemory(create=True,size=9).unlink()'",
        True,
    ),
    "read .env": ("cat .env", False),
    "read a certificate": ("cat certs/server.pem", False),
    "move .env away": ("mv .env env", False),
    "remove .env": ("rm -f .env; test ! -e .env", False),
    "copy .env": ("cp .env x", False),
    "see a template": ("cat .env.example", True),
    "stage and commit": (
        "echo new > c.txt && git add c.txt && git commit -qm second && git log --oneline | wc -l",
        True,
    ),
    "make a branch": ("git checkout -qb topic && git checkout -q main", True),
    "write a hook": ("echo x > .git/hooks/pre-commit", False),
    "write the configuration": ("echo x >> .git/config", False),
    "configure a program": ("git config core.fsmonitor ./evil", False),
    "replace the configuration": ("echo x > c && mv c .git/config", False),
    "move hooks away": ("mv .git/hooks .git/hooks2", False),
    "remove git": ("rm -rf .git; test ! -e .git", False),
    "write a submodule's hook": ("echo x > .git/modules/module/hooks/pre-commit", False),
    "move a submodule's git": ("mv .git/modules/module .git/modules/other", False),
    "move all modules": ("mv .git/modules .git/modules2", False),
    "repoint a submodule": ("echo 'gitdir: ../evil' > module/.git", False),
    "move a submodule": ("mv module module2", False),
    "repoint a worktree": ("echo 'gitdir: ../evil' > tree/.git", False),
    "repoint the common directory": ("echo ../../../evil > .git/worktrees/tree/commondir", False),
    "write a nested hook": ("echo x > deep/nested/githooks/pre-commit", False),
    "write nested configuration": ("echo x >> deep/nested/.git/config", False),
    "write sys": ("echo x > /sys/kernel/uevent_helper", False),
    "see /run": ('test -n "$(ls /run)"', False),
    "signal the init": ("kill -9 1; ps -p 1 > /dev/null", True),
    "stay in the session": (f"{PYTHON} 'import os; os.setsid(); os.fork()'", True),
    "type into a terminal": (f"{PYTHON} 'import fcntl; fcntl.ioctl(0, 0x5412, b\"x\")'", False),
}
LANDLOCK = {
    "write the host's /tmp": ("echo x > /tmp/.tinsmith-landlock", False),
    "open an internet socket": (f"{SOCKET}()'", False),
    "send UDP": (f'{SOCKET}(2, 2); s.sendto(b"x", ("127.0.0.1", UDP))\'', False),
    "signal others": ("kill -0 HOST", False),
    "read others' environment": ("cat /proc/HOST/environ", False),
    "stage and commit": ("echo new > c.txt && git add c.txt && git commit -qm second", True),
}

NETWORK = {
    "reach the host's TCP": (BOTH["reach the host's TCP"][0], True),
    "reach the host's TCP by bash": (BOTH["reach the host's TCP by bash"][0], True),
    "open an internet socket": (LANDLOCK["open an internet socket"][0], True),
    "send UDP": (LANDLOCK["send UDP"][0], True),
    "serve and reach itself": (BUBBLEWRAP["serve and reach itself"][0], True),
    "ask for addresses": (f"{PYTHON} 'import socket; assert len(socket.if_nameindex()) == INTERFACES'", True),
    "resolve a local name": ("getent ahosts localhost", True),
    "talk to programs by netlink": (f"{SOCKET}(16, 3, 2)'", False),
    "ask the kernel's families": (f"{SOCKET}(16, 3, 16)'", False),
    "listen to devices": (f"{SOCKET}(16, 3, 15)'", False),
    "open a raw socket": (f"{SOCKET}(2, 3, 1)'", False),
    "change a route": ("ip route add blackhole 203.0.113.0/24", False),
}
"""With the machine's network, in both."""
REMOTE = {"reach the network", "resolve a name"}
"""What depends on where the machine stands, once it has a network."""


def told(probes, listener: Listener) -> list[str]:
    tcp, udp = listener.ports
    words = {"TCP": tcp, "UDP": udp, "UNIX": listener.path, "HOST": os.getpid()}
    words["INTERFACES"] = len(socket.if_nameindex())
    pattern = re.compile("|".join(words))
    return [pattern.sub(lambda found: str(words[found[0]]), command) for command, _ in probes.values()]


@pytest.fixture
def place():
    """A world with repositories, for a user."""
    opened = []

    def make(user: int | None) -> World:
        context = world(user)
        made = context.__enter__()
        opened.append(context)
        made.make_repositories()
        made.hand_over()
        return made

    yield make
    for context in opened:
        context.__exit__(None, None, None)


def users(*kinds: str):
    """Every kind of sandbox that can be had here, for every user."""
    kept = [kind for kind in kinds if kind != "bubblewrap" or HAS_BUBBLEWRAP]
    return pytest.mark.parametrize(("kind", "user"), [(kind, user) for kind in kept for user in WHO])


def switch(kind: str) -> str:
    return "" if kind == "bubblewrap" else kind


@users("bubblewrap", "landlock")
def test_what_works_inside_and_what_does_not(place, kind, user):
    made = place(user)
    probes = BOTH | (BUBBLEWRAP if kind == "bubblewrap" else LANDLOCK)
    listener = Listener(made.outside)
    kept = ("home", "outside", "data", "workspace/.git/hooks", "workspace/deep")
    before = made.photograph(*kept)
    try:
        done = made.run("echo x > $TMPDIR/kept", *told(probes, listener), TINSMITH_SANDBOX=switch(kind))
    finally:
        listener.close()
    assert done["kind"] == kind, done["reason"]
    results = dict(zip(probes, done["results"][1:], strict=True))
    assert {name: results[name] for name, (_, works) in probes.items() if (results[name][0] == 0) != works} == {}
    assert listener.seen == []
    assert not [text for _, text in done["results"] if "key-of" in text]
    assert made.photograph(*kept) == before


@users("bubblewrap", "landlock")
def test_with_the_network_everything_else_is_as_without(place, kind, user):
    made = place(user)
    probes = {**BOTH, **(BUBBLEWRAP if kind == "bubblewrap" else LANDLOCK), **NETWORK}
    probes = {name: probe for name, probe in probes.items() if name not in REMOTE}
    listener = Listener(made.outside)
    kept = ("home", "outside", "data", "workspace/.git/hooks", "workspace/deep")
    before = made.photograph(*kept)
    commands = ["echo x > $TMPDIR/kept", *told(probes, listener)]
    try:
        done = made.run(*commands, has_network=True, TINSMITH_SANDBOX=switch(kind))
    finally:
        listener.close()
    assert done["kind"] == kind, done["reason"]
    results = dict(zip(probes, done["results"][1:], strict=True))
    assert {name: results[name] for name, (_, works) in probes.items() if (results[name][0] == 0) != works} == {}
    assert {*listener.seen} == {"tcp", "udp"}
    assert not [text for _, text in done["results"] if "key-of" in text]
    assert made.photograph(*kept) == before


@users("bubblewrap")
def test_what_is_protected_cannot_be_moved_away(place, kind, user):
    """Protecting `.git/hooks` alone is undone by `mv .git x`; so is protecting anything below a folder that moves."""
    made = place(user)
    folders = ("deep", "deep/nested", "deep/nested/.git", "module", ".git/modules", "tree", ".git")
    before = machinery_of(made)
    done = made.run(*(f"mv {each} gone && mkdir -p {each}/.git/hooks" for each in folders))
    assert [code for code, _ in done["results"] if code == 0] == []
    assert {path: digest for path, digest in machinery_of(made).items() if path in before} == before


def machinery_of(made: World) -> dict[str, str]:
    """The files that git runs, or finds what it runs by."""
    machinery = re.compile(r".*/\.git|.*/\.git/(.*/)?(config|commondir|hooks/.*)|.*/githooks/.*")
    found = {path: facts[-1] for path, facts in made.photograph("workspace").items() if Path(path).is_file()}
    return {path: digest for path, digest in found.items() if machinery.fullmatch(path)}


@pytest.mark.parametrize("has_network", [False, True])
@users("bubblewrap", "landlock")
def test_a_unix_socket_is_out_of_reach(place, kind, user, has_network):
    """A container daemon, a key agent, an editor would answer.

    No network namespace holds back those with a path, and with the machine's network there is none for the others.
    """
    made = place(user)
    listeners = [Listener(folder) for folder in (made.workspace, made.home)]
    code = "import socket,sys; s=socket.socket(1,{0}); s.connect('{1}'); s.send(b'x')"
    pair = "import socket; a,b=socket.socketpair(1,2); a.sendto(b'x','{}')"
    commands = []
    for listener in listeners:
        commands.append(f'/usr/bin/env python3 -c "{code.format(1, listener.path)}"')
        commands.append(f'/usr/bin/env python3 -c "{code.format(2, listener.path + "-datagrams")}"')
        commands.append(f'/usr/bin/env python3 -c "{pair.format(listener.path + "-datagrams")}"')
        commands.append(f'/usr/bin/env python3 -c "{code.format(1, chr(92) + "0" + listener.path)}"')
    try:
        done = made.run(*commands, has_network=has_network, TINSMITH_SANDBOX=switch(kind))
    finally:
        for listener in listeners:
            listener.close()
    assert [code for code, _ in done["results"]] == [1] * 8, done["results"]
    assert [listener.seen for listener in listeners] == [[], []]


@users("bubblewrap")
def test_protection_leaves_nothing_behind(place, kind, user):
    """Masking what does not exist would make an empty file in the user's tree."""
    made = place(user)
    shutil.rmtree(made.workspace / ".git" / "hooks")
    before = made.photograph("workspace", "home", "outside", "data")
    made.run("true", "ls -la .vscode .env.local .git/hooks", "cat .env", "test -d .git/hooks")
    assert made.photograph("workspace", "home", "outside", "data") == before


@users("bubblewrap")
def test_what_git_would_run_is_set_aside_when_it_appears(place, kind, user):
    made = place(user)
    git = made.workspace / ".git"
    nested = made.workspace / "deep" / "nested" / ".git"
    done = made.run(
        "mkdir ../workspace/deep/nested/.git/hooks && echo evil > deep/nested/.git/hooks/pre-commit",
        "mkdir evil && echo ../evil > .git/commondir",
    )
    assert [code for code, _ in done["results"]] == [0, 0]
    assert not (nested / "hooks").exists()
    assert not (git / "commondir").exists()
    assert len(list(nested.glob("hooks.refused-*"))) == len(list(git.glob("commondir.refused-*"))) == 1


@users("bubblewrap")
def test_kernel_switches_obey_nobody(place, kind, user):
    """Root without capabilities is still root to /proc/sys, and a core dump could be handed to any program."""
    made = place(user)
    done = made.run(
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "echo 0 > /proc/self/oom_score_adj",
        "find /proc/sys -type f -writable -exec sh -c 'echo >> $1' x {} \\; 2>/dev/null; true",
    )
    assert [code for code, _ in done["results"]] == [1, 1, 1, 0], done["results"]


@users("bubblewrap")
def test_ordinary_work_goes_on(place, kind, user):
    """Builds and tests that write caches, temporary files and the workspace."""
    made = place(user)
    (made.workspace / "test_it.py").write_text(
        "import tempfile, unittest\nclass T(unittest.TestCase):\n def test(self): tempfile.TemporaryFile()\n"
    )
    (made.workspace / "main.c").write_text("int main(void) { return 0; }\n")
    made.hand_over()
    commands = {
        "make test && cat made": "make",
        "/usr/bin/env python3 -m unittest -q test_it": "python3",
        "gcc -o main main.c && ./main": "gcc",
        "/usr/bin/env python3 -m venv --without-pip env && env/bin/python -c 1": "python3",
        "cargo init -q --name x crate && cd crate && cargo build -q --offline": "cargo",
        "npm run -s test": "npm",
    }
    homes = {"CARGO_HOME": str(Path.home() / ".cargo"), "RUSTUP_HOME": str(Path.home() / ".rustup")}
    known = [command for command, program in commands.items() if made.has(program, **homes)]
    assert len(known) > 2
    done = made.run(*known, timeout=60, **homes)
    assert {command: result for command, result in zip(known, done["results"], strict=True) if result[0]} == {}


@users("bubblewrap", "landlock")
def test_the_environment_names_no_secret_and_no_way_out(place, kind, user):
    made = place(user)
    done = made.run(
        "env",
        TINSMITH_SANDBOX=switch(kind),
        OPENAI_API_KEY="sk-test-1",
        GH="ghp_" + "a" * 36,
        SSH_AUTH_SOCK="/tmp/agent",
        XDG_RUNTIME_DIR="/run/user/0",
    )
    names = {line.partition("=")[0] for line in done["results"][0][1].splitlines()}
    assert names & {"OPENAI_API_KEY", "GH", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"} == set()
    assert {"PATH", "HOME", "TMPDIR", "PIP_CACHE_DIR", "XDG_CACHE_HOME"} <= names


@users("bubblewrap")
def test_nothing_outlives_the_program_that_started_it(place, kind, user):
    """Killed without a chance to clean up, it takes its commands with it, whatever they did to get away."""
    made = place(user)
    command = "setsid sleep 1000 & (setsid sleep 1000 &) ; (trap '' HUP TERM; sleep 1000) & touch begun; sleep 1000"
    request = f'{{"world": "{made.root}", "timeout": 100, "commands": ["{command}"], "has_network": false}}'
    driver = subprocess.Popen(
        [*made.prefix(), sys.executable, str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=made.environment(SENTINEL=str(made.root)),
        text=True,
    )
    assert driver.stdin is not None
    driver.stdin.write(request)
    driver.stdin.close()
    until((made.workspace / "begun").exists)
    assert len(marked(f"SENTINEL={made.root}")) > 5
    driver.kill()
    driver.wait()
    until(lambda: not marked(f"SENTINEL={made.root}"))


def until(is_so) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def marked(text: str) -> list[str]:
    """The living processes that have this text in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "environ").read_bytes() and " Z " not in (folder / "stat").read_text():
                found.append(folder.name)
        except OSError:
            continue
    return found


class Shell:
    """Runs sandboxed commands in this process."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.sandbox = Sandbox(str(made.root / "cache"), os.environ)
        self.runner = Runner(str(made.root / "output"))
        self.cancel = CancelToken()

    def confine(self, workspace: str):
        self.sandbox.state()
        with self.sandbox.temporary_folder("c") as tmp:
            return self.sandbox.confine(Grants(workspace, self.sandbox.caches, tmp), str(self.made.workspace))

    async def run(self, text: str, timeout: float = 20):
        workspace = str(self.made.workspace)
        confinement = await asyncio.to_thread(self.confine, workspace)
        command = Command(text, workspace, dict(os.environ), timeout, confinement)
        started = time.perf_counter()
        finished = await self.runner.run(command, cancel=self.cancel, show=lambda text: None)
        self.seconds = time.perf_counter() - started
        return finished


@pytest.fixture
def shell():
    with world() as made:
        yield Shell(made)


if HAS_BUBBLEWRAP:

    @pytest.mark.parametrize(
        ("command", "outcome", "text", "leftovers"),
        [
            ("echo out; echo err >&2; exit 3", Exited(3), "out\nerr\n", 0),
            ("cat; echo end", Exited(0), "end\n", 0),
            ("echo before; kill -9 $$", Exited(137, 9), "before\n", 0),
            ("kill -TERM $$", Exited(143, 15), "", 0),
            ("sleep 60 & echo done", Exited(0), "done\n", 1),
            ("setsid sleep 60 & (setsid sleep 60 &) ; echo done", Exited(0), "done\n", 2),
            ("echo a > >(sleep 0.1; cat); echo b", Exited(0), "b\na\n", 0),
            ("false | cat", Exited(0), "", 0),
            ("exit 300", Exited(44), "", 0),
            ("yes | head -c 300000 | tail -c 3", Exited(0), "y\n", 0),
        ],
    )
    async def test_a_sandboxed_command_ends_like_any_other(shell, command, outcome, text, leftovers):
        finished = await shell.run(command)
        assert (finished.outcome, finished.output.text.lstrip("\n"), finished.leftovers) == (outcome, text, leftovers)
        assert shell.seconds < 3

    async def test_a_deadline_lets_a_command_say_goodbye(shell):
        finished = await shell.run("trap 'echo bye; exit 1' TERM; echo hi; sleep 100 & wait", 0.5)
        assert (finished.outcome, finished.output.text) == (TimedOut(0.5), "hi\nbye\n")

    async def test_a_cancel_reaches_everything(shell):
        text = (
            "trap '' TERM; setsid sleep 1000 & (setsid bash -c 'trap \"\" TERM; sleep 1000' &) ; touch on; sleep 1000"
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(shell.run(text))
            while not (shell.made.workspace / "on").exists():
                await asyncio.sleep(0.005)
            cancelled = time.monotonic()
            shell.cancel.cancel()
        assert isinstance(running.result().outcome, Cancelled)
        assert time.monotonic() - cancelled < 2
        until(lambda: not [name for name in marked("TINSMITH_CALL_") if is_below(name, shell.made.workspace)])

    async def test_a_sandbox_that_cannot_be_made_runs_nothing(shell):
        confinement = await asyncio.to_thread(shell.confine, str(shell.made.root / "gone"))
        command = Command("touch /tmp/ran", "/", dict(os.environ), 5, confinement)
        with pytest.raises(ToolError, match=r"gone.*nothing was run") as refusal:
            await shell.runner.run(command, cancel=shell.cancel, show=lambda text: None)
        assert refusal.value.code == "noSandbox"

    async def test_a_cancel_while_the_sandbox_is_made_needs_no_force(shell):
        """Neither is the TERM lost between two programs, nor does the command begin after it."""
        for delay in range(20):
            shell.cancel = CancelToken()
            asyncio.get_running_loop().call_later(delay / 1000, shell.cancel.cancel)
            finished = await shell.run(f"echo begun > begun{delay}; sleep 1000")
            assert isinstance(finished.outcome, Cancelled)
            assert shell.seconds < TERM_SECONDS


if HAS_BUBBLEWRAP and IS_ROOT:

    def test_with_the_network_the_resolver_is_found_behind_its_links():
        """/etc/resolv.conf is often a link into /run, which the sandbox does not share."""
        run = Path(tempfile.mkdtemp(prefix="tinsmith-", dir="/run"))
        try:
            with world() as made:
                (run / "stub.conf").write_text("nameserver 127.0.0.53\n")
                (run / "link.conf").symlink_to("stub.conf")
                (made.root / "resolv.conf").symlink_to(f"/var{run}/link.conf")
                resolver = links_of(str(made.root / "resolv.conf"))
                assert resolver == (f"{run}/link.conf", f"{run}/stub.conf")
                cache = made.root / "cache"
                for name in ("tmp", "nothing"):
                    (cache / name).mkdir(parents=True)
                grants = Grants(str(made.workspace), str(cache), str(cache / "tmp"), has_network=True)
                nothing = (str(made.outside / "file"), str(cache / "nothing"))
                seen = f"cat {made.root}/resolv.conf; ls {run}"
                arguments = bubblewrap.arguments(shutil.which("bwrap"), grants, "/", nothing, resolver)
                done = subprocess.run([*arguments, "sh", "-c", seen], capture_output=True, text=True, check=True)
                assert done.stdout == "nameserver 127.0.0.53\nlink.conf\nstub.conf\n"
        finally:
            shutil.rmtree(run)


def is_below(process: str, folder: Path) -> bool:
    try:
        return Path(f"/proc/{process}/cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def state(folder: Path, **environment: str) -> SandboxState:
    return Sandbox(str(folder), environment).state()


def test_it_can_be_switched_off_and_says_so(tmp_path):
    assert str(state(tmp_path, TINSMITH_SANDBOX="off")) == "none (switched off by TINSMITH_SANDBOX=off)"


def test_without_bubblewrap_the_second_best_is_openly_weaker(tmp_path):
    found = state(tmp_path, PATH="/nowhere")
    assert found.kind == "landlock"
    assert "neither .git nor secret files" in found.reason
    assert "not installed" in found.reason


def test_a_bubblewrap_that_runs_as_root_is_not_used(tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o4755)
    assert "setuid" in state(tmp_path / "cache", PATH=str(tmp_path)).reason


def test_a_bubblewrap_that_fails_is_not_used(tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bwrap: no namespaces here >&2\nexit 1\n")
    program.chmod(0o755)
    why = "no namespaces here" if IS_ROOT else "not root's own"
    assert why in state(tmp_path / "cache", PATH=f"{tmp_path}:/bin").reason


def test_a_bubblewrap_that_is_not_roots_own_is_not_used(tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    if IS_ROOT:
        os.chown(program, USER, USER)
    assert "not root's own" in state(tmp_path / "cache", PATH=str(tmp_path)).reason


def test_old_temporary_folders_go(tmp_path):
    sandbox = Sandbox(str(tmp_path), {})
    for number in range(20):
        with sandbox.temporary_folder(f"c{number}") as folder:
            Path(folder, "file").write_text("x")
    assert len(list((tmp_path / "tmp").iterdir())) == 8
    with sandbox.temporary_folder("c19") as folder:
        assert Path(folder, "file").exists()


def test_a_temporary_folder_stays_while_a_command_of_another_process_may_be_in_it(tmp_path):
    sandboxes = [Sandbox(str(tmp_path), {}) for _ in range(2)]
    with ExitStack() as kept:
        used = [Path(kept.enter_context(sandboxes[0].temporary_folder(f"used{number}"))) for number in range(12)]
        for folder in used:
            os.utime(folder, (0, 0))
        for number in range(12):
            with sandboxes[1].temporary_folder(f"c{number}"):
                pass
        assert all(folder.is_dir() for folder in used)
    with sandboxes[1].temporary_folder("last"):
        assert len(list((tmp_path / "tmp").iterdir())) == 8


def test_many_take_and_tidy_temporary_folders_at_once(tmp_path):
    def work(worker: int) -> None:
        sandbox = Sandbox(str(tmp_path), {})
        for number in range(60):
            with sandbox.temporary_folder(f"c{worker}_{number}") as folder:
                file = Path(folder, "file")
                file.write_text("x")
                assert file.read_text() == "x"

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [None] * 8
