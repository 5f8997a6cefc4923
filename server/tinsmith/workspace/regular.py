"""Small files that others wrote for their own use: read whole up to a bound, never a device or a pipe. Blocking."""

import os
import stat


def read_regular(path: str, most_bytes: int) -> bytes | None:
    """The first bytes of a regular file, through links too; None when there is none or it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a device may do something when it is opened
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(most_bytes) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):
        return None
