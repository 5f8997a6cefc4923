"""Texts that are too long to show, kept whole in the folder of long outputs, which `read` may page."""

import contextlib
import os

from tinsmith.domain.ids import new_id
from tinsmith.proc.output import SPILLED_FILES


def spill(folder: str, text: str) -> str:
    """The path of a new file with the text; empty when it could not be written. The oldest files go. Blocking."""
    path = os.path.join(folder, new_id("o") + ".txt")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name in sorted(os.listdir(folder))[: -SPILLED_FILES + 1]:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return ""
    return path
