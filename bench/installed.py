"""The product as a user has it: installed, not editable, with bytecode, in an environment that holds nothing else."""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import venv
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

PRODUCT = "tinsmith"
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def installed() -> Generator[Path]:
    """For the length of a block: a virtual environment with the working tree's product and copies of what it needs."""
    with tempfile.TemporaryDirectory(prefix="tinsmith-bench-") as place:
        environment = Path(place) / "venv"
        venv.create(environment, symlinks=True)
        python = environment / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
        for needed in _needed(PRODUCT, set()):
            _copy(needed, packages)
        shutil.copytree(ROOT / "server" / PRODUCT, packages / PRODUCT, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run((python, "-m", "compileall", "-q", packages), env=clean_environment(), check=True)
        _write_command(environment, python)
        yield environment


def clean_environment() -> dict[str, str]:
    """Ours without what would change how Python or the product starts."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TINSMITH_", "LLM_"))}


def _needed(name: str, seen: set[str]) -> list[Distribution]:
    """Every distribution that is required by `name`, at any depth, as far as it is installed here."""
    found: list[Distribution] = []
    for requirement in distribution(name).requires or ():
        match = re.match(r"[\w.-]+", requirement)
        if match is None or match[0] in seen or "extra ==" in requirement:
            continue
        seen.add(match[0])
        try:
            found += [distribution(match[0]), *_needed(match[0], seen)]
        except PackageNotFoundError:
            continue  # needed on other platforms
    return found


def _copy(needed: Distribution, packages: Path) -> None:
    for file in needed.files or ():
        target = packages / file
        if ".." not in file.parts and file.suffix != ".pyc":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target)


def _write_command(environment: Path, python: Path) -> None:
    """The script that pip made, for the other interpreter."""
    _, *lines = (Path(sysconfig.get_path("scripts")) / PRODUCT).read_text().splitlines(keepends=True)
    command = environment / "bin" / PRODUCT
    command.write_text("".join((f"#!{python}\n", *lines)))
    command.chmod(0o755)
