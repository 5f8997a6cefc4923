"""The store's benchmark, small: what it counts holds on any machine."""

import os
import sys
from collections import defaultdict
from pathlib import Path

from bench.store import measure_store


def test_the_index_is_small_and_looking_takes_no_memory(tmp_path):
    server, floor = defaultdict(list), defaultdict(list)
    measure_store(Path(sys.executable), tmp_path, os.environ, 2_000, 1, (server, floor))
    assert server["index share"][0] < 2.5
    assert server["store memory"][0] < floor["store memory"][0] + 10
    assert (len(server["commit"]), len(floor["commit"]), len(server["last items"]), len(server["search"])) == (
        20,
        20,
        1,
        16,
    )
