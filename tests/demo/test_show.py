"""`tinsmith demo` without an editor, and what it leaves behind."""

import shutil
import subprocess
import sys
from pathlib import Path

from tinsmith.demo import show

from .conftest import Start


def test_headless_in_an_empty_home(start: tuple[Start, Path], tmp_path: Path) -> None:
    demo, folder = start
    process = demo("--headless")
    told, problems = process.communicate(timeout=30)
    assert (process.returncode, problems) == (0, "")
    lines = told.splitlines()
    assert lines[0] == "Tinsmith demo. Without an editor, as you asked."
    answered = next(line for line in lines if line.startswith("I am "))
    assert answered.startswith("I am a scripted demo model, not an AI")
    assert [line for line in lines if line.startswith(("✓", "✗"))] == [
        "✓ Read kettle.py",
        "✓ Read test_kettle.py",
        "✓ Edit kettle.py (+1 -1)",
        "✓ Run python3 -m unittest -q",
    ]
    assert "All 4 tests pass. The kettle whistles." in lines
    assert (list(folder.iterdir()), list((tmp_path / "home").iterdir())) == ([], [])


def test_the_sample_has_the_bug_that_the_demo_mends(tmp_path: Path) -> None:
    sample = shutil.copytree(Path(show.__file__).with_name("sample"), tmp_path / "sample")
    tests = [sys.executable, "-m", "unittest", "-q"]
    ran = subprocess.run(tests, check=False, cwd=sample, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "Ran 4 tests" in ran.stderr
    assert "FAILED (failures=1)" in ran.stderr
    assert "the water boils and the kettle is silent" in ran.stderr
