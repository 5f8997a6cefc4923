"""A copy of the store, from the command line."""

import asyncio
import os
import sys

from tinsmith.config.directories import find_directories
from tinsmith.domain.errors import AgentError
from tinsmith.store import Store
from tinsmith.store.backup import back_up


def back_up_store(directory: str) -> int:
    """Write a backup to the new `directory`; 0 done, 1 not."""
    place = find_directories(os.environ).store
    if not os.path.isdir(place):
        sys.stderr.write(f"tinsmith backup: there is no store in {place} yet.\n")
        return 1
    try:
        store = Store.open(place)
        try:
            size = back_up(store, directory)
        finally:
            asyncio.run(store.close())
    except AgentError as error:
        sys.stderr.write(f"tinsmith backup: {error.message}\n")
        return 1
    sys.stdout.write(f"{size / 1e6:.1f} MB in {directory}; TINSMITH_DATA_DIR={directory} uses it.\n")
    return 0
