"""A small world around a workspace: a home with secrets, a folder outside, repositories, and who listens."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

USER = 54321
"""Of nobody here; needs no entry in any table."""
DRIVER = Path(__file__).with_name("sandboxed.py")
GIT = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "protocol.file.allow=always", "-c", "gc.auto=0"]


class World:
    """`root` holds home, workspace, outside, data and cache; it belongs to `user`, None for whoever runs this."""

    def __init__(self, root: Path, user: int | None = None) -> None:
        self.root = root
        self.user = user
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.outside = root / "outside"

    def build(self) -> None:
        for name in ("home/.ssh", "workspace/src", "outside", "data", "output", "workspace/certs"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        files = {
            "home/.ssh/id_ed25519": "key-of-home",
            "home/.netrc": "key-of-netrc",
            "home/.gitconfig": "[user]\n\tname = n\n\temail = e@x\n[init]\n\tdefaultBranch = main\n",
            "home/notes": "notes",
            "data/store": "conversations",
            "outside/file": "outside",
            "workspace/.env": "KEY=key-of-env",
            "workspace/.env.example": "KEY=",
            "workspace/certs/server.pem": "key-of-pem",
            "workspace/a.txt": "b\na\nfoo TODO\n",
            "workspace/b.txt": "a\nb\n",
            "workspace/a b.txt": "spaces\n",
            "workspace/b64.txt": "aGVsbG8K\n",
            "workspace/README.md": "# read me\n",
            "workspace/package.json": '{"name": "x", "scripts": {"test": "true"}}\n',
            "workspace/src/main.py": "print('hello')\n",
            "workspace/run.sh": "echo ran\n",
            "workspace/Makefile": "test:\n\techo made > made\n",
        }
        for name, text in files.items():
            (self.root / name).write_text(text)

    def make_repositories(self) -> None:
        """The workspace as a repository with a submodule and a worktree; another inside, whose hooks are elsewhere."""
        self.git("init", "-q")
        self.git("add", "a.txt")
        self.git("commit", "-qm", "first")
        library = self.root / "library"
        library.mkdir()
        for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
            self.git(*command, cwd=library)
        self.git("submodule", "add", "-q", str(library), "module")
        self.git("worktree", "add", "-q", str(self.workspace / "tree"), "-b", "other")
        nested = self.workspace / "deep" / "nested"
        nested.mkdir(parents=True)
        self.git("init", "-q", cwd=nested)
        (nested / "githooks").mkdir()
        self.git("config", "core.hooksPath", "githooks", cwd=nested)
        shutil.rmtree(nested / ".git" / "hooks")

    def git(self, *arguments: str, cwd: Path | None = None) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        subprocess.run([*GIT, *arguments], cwd=cwd or self.workspace, env=environment, check=True, capture_output=True)

    def hand_over(self) -> None:
        """Give everything to the user, and let them reach it."""
        if self.user is not None:
            subprocess.run(["chown", "-hR", f"{self.user}:{self.user}", str(self.root)], check=True)

    def prefix(self) -> list[str]:
        ids = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        return [] if self.user is None else ["setpriv", *ids]

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", **more}

    def has(self, program: str, **environment: str) -> bool:
        """Whether the user can run the program outside a sandbox."""
        if shutil.which(program) is None:
            return False
        arguments = [*self.prefix(), program, "--version"]
        told = subprocess.run(arguments, env=self.environment(**environment), capture_output=True, check=False)
        return told.returncode == 0

    def run(self, *commands: str, timeout: float = 10, has_network: bool = False, **environment: str) -> dict:
        """Run the commands in the sandbox, one after the other."""
        request = json.dumps(
            {"world": str(self.root), "commands": commands, "timeout": timeout, "has_network": has_network}
        )
        done = subprocess.run(
            [*self.prefix(), sys.executable, str(DRIVER)],
            input=request,
            capture_output=True,
            text=True,
            env=self.environment(**environment),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def photograph(self, *names: str) -> dict[str, tuple]:
        """Everything about every file below, but when it was read."""
        picture = {}
        for name in names:
            for path in sorted((self.root / name).rglob("*")):
                facts = path.lstat()
                content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
                digest = hashlib.sha256(os.fsencode(content) if isinstance(content, Path) else content).hexdigest()
                picture[str(path)] = (facts.st_mode, facts.st_uid, facts.st_size, facts.st_mtime_ns, digest)
        return picture


@contextmanager
def world(user: int | None = None) -> Iterator[World]:
    """A fresh world in a place that everybody can reach."""
    root = Path(tempfile.mkdtemp(prefix="tinsmith-world-", dir="/var/tmp")).resolve()
    root.chmod(0o755)
    try:
        made = World(root, user)
        made.build()
        yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)


class Listener:
    """TCP, UDP and unix sockets of this machine, with a path and without; `seen` is what anybody said to them."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "socket")
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.unix.bind(self.path)
        self.unix.listen()
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.bind(self.path + "-datagrams")
        for path in (self.path, self.path + "-datagrams"):
            os.chmod(path, 0o777)
        self.abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.abstract.bind(f"\0{self.path}")
        self.abstract.listen()
        self._sockets = {
            "tcp": self.tcp,
            "udp": self.udp,
            "unix": self.unix,
            "dgram": self.datagrams,
            "abstract": self.abstract,
        }
        self.seen: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, args=(name, each), daemon=True)
            for name, each in self._sockets.items()
        ]
        for thread in self._threads:
            thread.start()

    @property
    def ports(self) -> tuple[int, int]:
        return self.tcp.getsockname()[1], self.udp.getsockname()[1]

    def _listen(self, name: str, listening: socket.socket) -> None:
        while True:
            try:
                if listening.type == socket.SOCK_DGRAM:
                    if not listening.recv(100):
                        return
                else:
                    listening.accept()[0].close()
            except OSError:
                return
            self.seen.append(name)

    def close(self) -> None:
        for each in self._sockets.values():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(1)
