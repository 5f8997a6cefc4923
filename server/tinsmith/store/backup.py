"""A compacted copy of a store, whole or not there at all, never in place of something else."""

import os
import shutil
import tempfile

from tinsmith.domain.errors import PersistenceError
from tinsmith.store.storage import Store


def back_up(store: Store, directory: str) -> int:
    """Write the copy to the new `directory`, as its `store`: TINSMITH_DATA_DIR may name it. Returns its bytes.

    Raises PersistenceError when something has that name already, or when it cannot be written.
    """
    target = os.path.abspath(directory)
    if os.path.lexists(target):
        raise PersistenceError("backupExists", f"There is something called {target} already. Name a new directory.")
    try:
        place = tempfile.mkdtemp(prefix=".tinsmith-backup-", dir=os.path.dirname(target))
    except OSError as error:
        raise _failure(target, error) from error
    try:
        copied = os.path.join(place, "store")
        os.mkdir(copied, 0o700)
        store.copy(copied)
        os.chmod(os.path.join(copied, "data.mdb"), 0o600)
        size = _sync(os.path.join(copied, "data.mdb"))
        os.rename(place, target)
        _sync(os.path.dirname(target))
    except OSError as error:
        raise _failure(target, error) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return size


def _sync(path: str) -> int:
    """Make sure that the disk has it; its size."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _failure(target: str, error: OSError) -> PersistenceError:
    return PersistenceError(
        "backupFailed", f"The backup {target} could not be written ({error.strerror}). Name a place with enough space."
    )
