"""Run the benchmark: `python bench/run.py [--short]`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)  # the package `bench`, from wherever this is run
    from bench.program import main

    sys.exit(main(sys.argv[1:]))
