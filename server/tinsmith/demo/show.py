"""The demo: the scripted model on a copy of the sample project, in a real Neovim when there is one."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tinsmith.demo import model
from tinsmith.demo.editor import OLDEST, Editor, version_of
from tinsmith.demo.server import ServerThread
from tinsmith.demo.tour import TYPED, WISH, Tour
from tinsmith.domain.errors import AgentError
from tinsmith.proc.environment import child_environment
from tinsmith.proc.foreground import run_in_foreground

HEADLESS_WISH = "Fix the kettle, then run the tests."
INTERRUPTED = 130
_FAREWELL = "The sample was a throw-away copy. For your own project begin with: tinsmith doctor\n"
_SAMPLE = Path(__file__).with_name("sample")
_TOUR = Path(__file__).with_name("tour.lua")
_PLUGIN = Path(__file__).parents[3] / "clients" / "neovim"
_OPTIONS = {"cmd": [sys.executable, "-m", "tinsmith", "serve"], "window": {"split": "right", "size": 0.5}}


@dataclass(frozen=True, slots=True)
class _Stage:
    """Everything that the demo touches, in a directory that goes with it."""

    folder: str
    workspace: str
    environment: Mapping[str, str]

    @property
    def file(self) -> Path:
        return Path(self.workspace, model.FILE)


@dataclass(frozen=True, slots=True)
class _Neovim:
    program: str
    version: str


def run_demo(*, is_headless: bool) -> int:
    """Play the demo to its end; 0 when all it shows is so, 1 when not, 130 when it was interrupted.

    Whatever ends it, nothing that it started or wrote is left.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with ServerThread(model.demo_model()) as server, _stage(server.base_url) as stage:
            return _play(stage, is_headless=is_headless)
    except AgentError as error:
        sys.stderr.write(f"tinsmith demo: {error.message}\n")
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; nothing more is for it
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _stage(base_url: str) -> Generator[_Stage]:
    """A copy of the sample, directories of its own for Tinsmith and Neovim, and none of the person's settings."""
    with tempfile.TemporaryDirectory(prefix="tinsmith-demo-", ignore_cleanup_errors=True) as made:
        folder = os.path.realpath(made)
        workspace = os.path.join(folder, "kettle")
        shutil.copytree(_SAMPLE, workspace, ignore=shutil.ignore_patterns("__pycache__"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TINSMITH_", "NVIM", "VIM"))}
        own = {f"TINSMITH_{kind}_DIR": os.path.join(folder, kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        editor = {f"XDG_{kind}_HOME": os.path.join(folder, "xdg") for kind in ("DATA", "CONFIG", "CACHE", "STATE")}
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        model_of_demo = {"TINSMITH_MODEL": model.NAME, "TINSMITH_BASE_URL": base_url}
        yield _Stage(folder, workspace, {**child_environment(kept), **own, **editor, **model_of_demo, "PATH": path})


def _play(stage: _Stage, *, is_headless: bool) -> int:
    if is_headless:
        return _play_headless(stage, "Without an editor, as you asked.")
    if not _PLUGIN.is_dir():
        return _play_headless(
            stage, "Tinsmith's plug-in for Neovim is not part of this installation (it is in the source)."
        )
    neovim = _find_neovim(stage.environment)
    if neovim is None:
        wanted = ".".join(map(str, OLDEST))
        return _play_headless(
            stage,
            f"No Neovim {wanted} or newer was found; with one you see the edit land in an open file, and undo it.",
        )
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _play_for_person(stage, neovim)
    return _play_for_reader(stage, neovim)


def _find_neovim(environment: Mapping[str, str]) -> _Neovim | None:
    """The person's own Neovim when it is new enough, else one that was installed beside Tinsmith."""
    for program in (shutil.which("nvim"), os.path.join(sys.prefix, "bin", "nvim")):
        if program and os.access(program, os.X_OK):
            version = version_of(program, environment)
            if version >= OLDEST:
                return _Neovim(program, ".".join(map(str, version)))
    return None


def _arguments(neovim: _Neovim) -> list[str]:
    """How Neovim is started: nothing of the person's own configuration, and the plug-in."""
    return [
        neovim.program,
        "--clean",
        "-n",
        "--cmd",
        f"let &runtimepath = escape({_literal(str(_PLUGIN))}, ',') .. ',' .. &runtimepath",
        "--cmd",
        f"let g:tinsmith = {_literal(_OPTIONS)}",
    ]


def _literal(value: object) -> str:
    """A value in Vim's script."""
    quoted = json.dumps(value).replace("'", "''")
    return f"json_decode('{quoted}')"


def _play_for_person(stage: _Stage, neovim: _Neovim) -> int:
    prepared = f"let g:tinsmith_demo = {_literal({'line': TYPED, 'wish': WISH})}"
    arguments = [*_arguments(neovim), "--cmd", prepared, "-S", str(_TOUR), model.FILE]
    code = run_in_foreground(arguments, cwd=stage.workspace, environment=stage.environment)
    _write(_FAREWELL)
    return code


def _play_for_reader(stage: _Stage, neovim: _Neovim) -> int:
    _write(
        f"Tinsmith demo, in a real Neovim {neovim.version}. The keys are typed for you; on a terminal they are yours.\n"
        "The model is scripted and not an AI. Everything else is real: server, tools, editor, files, tests.\n"
    )
    arguments = [*_arguments(neovim), model.FILE]
    with Editor(arguments, folder=stage.folder, cwd=stage.workspace, environment=stage.environment) as editor:
        seen = Tour(editor, stage.file, _write).run()
    _write("\nSeen, and each point checked:\n" + "".join(f"  ✓ {claim}.\n" for claim in seen))
    return 0


def _play_headless(stage: _Stage, why: str) -> int:
    _write(
        f"Tinsmith demo. {why}\nThe model is scripted and not an AI; the tools, the files and the tests are real.\n\n"
    )
    before = stage.file.read_text()
    arguments = [sys.executable, "-m", "tinsmith", "run", "--permission-mode", "full", HEADLESS_WISH]
    _write(f"You: {HEADLESS_WISH}\n\n")
    code = run_in_foreground(arguments, cwd=stage.workspace, environment=stage.environment)
    if code == 0 and stage.file.read_text() == before:
        sys.stderr.write(f"tinsmith demo: the turn ended well, but {model.FILE} has not changed.\n")
        return 1
    if code == 0:
        _write(f"\n{model.FILE} is mended on disk. {_FAREWELL}")
    return code


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
