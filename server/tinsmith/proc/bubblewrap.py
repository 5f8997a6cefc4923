"""The arguments with which bubblewrap makes a command's world. Pure.

Everything is there to read, but secrets; the workspace, the caches and a private /tmp can be written. What is bound
on itself becomes a mount point, which cannot be renamed: protecting `.git/hooks` alone would be undone by moving
`.git` away. /proc is only to be read, since root's own kernel switches, such as who gets a core dump, would obey root
there even without capabilities.
"""

import os
from dataclasses import dataclass

_KEPT_OF_RUN = ("/run/current-system", "/run/opengl-driver", "/run/wrappers", "/run/booted-system")
"""Programs of NixOS; the rest of /run holds sockets and pipes that lead out."""
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--new-session", "--die-with-parent", "--cap-drop", "ALL"),
)
_PRIVATE = ("/run", "/tmp")  # noqa: S108  names, nothing is made there


@dataclass(frozen=True, slots=True)
class Grants:
    """What a command may do. All paths are absolute and resolved, and exist.

    `workspace` and `caches` can be written, `tmp` is its /tmp. `pinned` folders of the workspace cannot be renamed,
    `frozen` files and folders not be changed, `hidden` ones not be read. With `has_network` it shares this
    machine's network.
    """

    workspace: str
    caches: str
    tmp: str
    pinned: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    has_network: bool = False


def arguments(
    program: str, grants: Grants, cwd: str, nothing: tuple[str, str], resolver: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Up to the filter and the command.

    `nothing` is a file and a folder that nobody may read, `resolver` the files of /run that say who resolves names.
    """
    writable = (grants.workspace, grants.caches)
    hidden = [
        path
        for path in grants.hidden
        if not any(_is_within(kept, path) for kept in writable)
        and (_is_within(path, grants.workspace) or not any(_is_within(path, place) for place in _PRIVATE))
    ]
    mounts: list[tuple[str, ...]] = [
        ("--ro-bind", "/", "/"),
        ("--dev", "/dev"),
        ("--proc", "/proc"),
        ("--remount-ro", "/proc"),
        ("--tmpfs", "/run"),
        ("--bind", grants.tmp, "/tmp"),  # noqa: S108  the same
        *(("--ro-bind-try", path, path) for path in (*_KEPT_OF_RUN, *resolver)),
        *(("--bind", path, path) for path in (*writable, *grants.pinned)),
        *(("--ro-bind", path, path) for path in grants.frozen),
        *(("--ro-bind", nothing[os.path.isdir(path)], path) for path in hidden),
    ]
    mounts.sort(key=lambda mount: mount[-1].rstrip("/").count("/"))  # stable: of one depth, the later wins
    network = () if grants.has_network else ("--unshare-net",)
    return (program, *_NAMESPACES, *network, *(word for mount in mounts for word in mount), "--chdir", cwd)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
