"""Git for looking only. What a repository configures does not exist for it, so no program of theirs is ever run.

Git gets a git directory of ours: links to the repository's objects, references and index, a configuration that we
wrote, and no hooks. Attributes may name filters, external diffs and text converters, but none is defined there.
"""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import ToolError
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.execute import Executed, execute
from tinsmith.proc.launch import Confinement
from tinsmith.proc.sandbox import Sandbox
from tinsmith.workspace.paths import is_within
from tinsmith.workspace.repository import Repository, Setting, read_settings, settings_of

TIMEOUT = 30.0
"""Seconds that one command may take."""
_NOT_LINKED = frozenset({"HEAD", "config", "config.worktree", "hooks", "commondir", "gitdir", "worktrees", "modules"})
_HEAD_BYTES = 4_096
_OURS = """\
[core]
\tbare = false
\tquotePath = false
\tfsmonitor = false
\thooksPath = /dev/null
\tpager = cat
[advice]
\tstatusHints = false
[color]
\tui = false
[diff]
\tautoRefreshIndex = false
\tsubmodule = short
[log]
\tshowSignature = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[protocol]
\tallow = never
"""
_KEPT = {
    "core": frozenset({"autocrlf", "checkstat", "eol", "filemode", "ignorecase", "precomposeunicode"})
    | frozenset({"repositoryformatversion", "sparsecheckout", "sparsecheckoutcone", "symlinks", "trustctime"}),
    "extensions": frozenset({"objectformat", "refstorage"}),
    "branch": frozenset({"remote", "merge"}),
    "remote": frozenset({"fetch"}),
}
"""Settings of the repository that say what its contents mean, and name no program, file or host."""
_KEPT_OF_USER = {"core": frozenset({"excludesfile", "autocrlf", "eol"})}
_INHERITED = ("HOME", "XDG_CONFIG_HOME", "TMPDIR", "TZ", "SYSTEMROOT")
_FIXED = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}


def run_git(
    repository: Repository,
    arguments: Sequence[str],
    *,
    cancel: CancelToken,
    limit: int,
    sandbox: Sandbox,
    folder: str = "",
    inherited: Mapping[str, str] = os.environ,
) -> Executed:
    """Run a git command that was checked to be one that only looks, in `folder` or the repository's root. Blocking.

    Where there is a sandbox it can write nothing but its own git directory, and reach nobody.
    Raises ToolError `noProgram`, `timedOut`, `noRepository`, Cancelled. Other failures are in the exit code.
    """
    environment = _environment(inherited, repository.root)
    program = shutil.which("git", path=environment["PATH"])
    if program is None:
        raise ToolError("noProgram", "There is no git on this machine. Go on without it or ask the user.")
    try:
        with _own_git_dir(repository, inherited) as git_dir:
            done = execute(
                [program, "--no-pager", *arguments],
                cwd=folder or repository.root,
                environment={**environment, "GIT_DIR": git_dir, "GIT_WORK_TREE": repository.root},
                timeout=TIMEOUT,
                limit=limit,
                check=cancel.check,
                confinement=_confinement(repository, git_dir, program, sandbox, folder or repository.root),
            )
    except OSError as error:
        raise ToolError(
            "noRepository", f"The repository of {repository.root} cannot be read ({error.strerror}). Ask the user."
        ) from error
    return Executed(done.code, done.output, done.errors.replace(os.fsencode(git_dir), b".git"), done.is_cut)


def _confinement(
    repository: Repository, git_dir: str, program: str, sandbox: Sandbox, folder: str
) -> Confinement | None:
    tmp = os.path.join(git_dir, "tmp")
    os.mkdir(tmp)
    looked_at = dict.fromkeys((repository.root, repository.common_dir, repository.git_dir, program))
    return sandbox.confine(Grants(git_dir, git_dir, tmp, frozen=tuple(looked_at)), folder)


def _environment(inherited: Mapping[str, str], root: str) -> dict[str, str]:
    """What git gets to see; programs are found in absolute folders only, and never in the repository."""
    folders = [
        folder
        for folder in inherited.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(folder) and not is_within(os.path.realpath(folder), os.path.realpath(root))
    ]
    kept = {name: inherited[name] for name in _INHERITED if name in inherited}
    return {**kept, **_FIXED, "PATH": os.pathsep.join(folders)}


@contextmanager
def _own_git_dir(repository: Repository, inherited: Mapping[str, str]) -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="tinsmith-git-", ignore_cleanup_errors=True) as own:
        with open(os.path.join(repository.git_dir, "HEAD"), "rb") as file:
            head = file.read(_HEAD_BYTES)
        _write(os.path.join(own, "HEAD"), head)  # git takes no link for it
        _write(os.path.join(own, "config"), os.fsencode(_configuration(repository, inherited)))
        _link((repository.git_dir, repository.common_dir), own)
        yield own


def _link(sources: Sequence[str], own: str) -> None:
    """Links to everything in the sources. Of a folder that a worktree shares in part, to what is in either."""
    for name in {name for source in sources for name in os.listdir(source)} - _NOT_LINKED:
        found = [path for source in sources if os.path.lexists(path := os.path.join(source, name))]
        target = os.path.join(own, name)
        if found[0] == found[-1] or not all(os.path.isdir(path) for path in found):
            os.symlink(found[0], target)
        else:
            os.mkdir(target)
            _link(found, target)


def _write(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)


def _configuration(repository: Repository, inherited: Mapping[str, str]) -> str:
    home = inherited.get("HOME", "")
    of_user = (
        os.path.join(inherited.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        inherited.get("GIT_CONFIG_GLOBAL") or os.path.join(home, ".gitconfig"),
    )
    users = (each for path in of_user for each in read_settings(path))
    kept = [*_kept(users, _KEPT_OF_USER), *_kept(settings_of(repository), _KEPT)]
    return "".join(_line(each) for each in kept) + _OURS


def _kept(settings: Iterable[Setting], wanted: Mapping[str, frozenset[str]]) -> Iterable[Setting]:
    return (each for each in settings if each.key in wanted.get(each.section, ()) and "\n" not in each.subsection)


def _line(setting: Setting) -> str:
    value = setting.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    subsection = setting.subsection.replace("\\", "\\\\").replace('"', '\\"')
    header = f'[{setting.section} "{subsection}"]' if subsection else f"[{setting.section}]"
    return f'{header}\n\t{setting.key} = "{value}"\n'
