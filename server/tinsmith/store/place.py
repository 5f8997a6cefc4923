"""Where a store may be: LMDB shares memory between processes, and no file system over a network keeps that in step."""

import os
from collections.abc import Mapping

from tinsmith.domain.errors import PersistenceError

MOUNTS = "/proc/self/mountinfo"
NETWORKED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "davfs", "ncpfs"}
    | {f"fuse.{name}" for name in ("sshfs", "rclone", "glusterfs", "s3fs", "gcsfuse", "davfs", "ceph", "gvfsd-fuse")}
)
"""Types of file systems, as Linux names them."""
FORCE = "TINSMITH_NETWORK_STORE"
"""The variable whose value `allow` uses them all the same."""


def check_place(path: str, environment: Mapping[str, str], mounts: str = MOUNTS) -> None:
    """Raises PersistenceError when `path` is on a file system over a network. Only Linux tells."""
    kind = _kind_of(os.path.realpath(path), mounts)
    if kind in NETWORKED and environment.get(FORCE) != "allow":
        raise PersistenceError(
            "storeOnNetwork",
            f"{path} is on a file system over a network ({kind}), where a store would be damaged sooner or later. "
            f"Name a local directory with TINSMITH_DATA_DIR; {FORCE}=allow uses it, from one machine at a time.",
        )


def _kind_of(path: str, mounts: str) -> str:
    """The type of the file system that holds the path, by the innermost mount above it; empty when nobody tells."""
    try:
        with open(mounts, "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = _unescaped(fields.split(" ")[4])
        if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, rest.partition(" ")[0]
    return kind


def _unescaped(field: str) -> str:
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(escape, character)
    return field
