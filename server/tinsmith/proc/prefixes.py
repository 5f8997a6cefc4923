"""What a remembered answer stands for: the words of a command that name what it does, without options and values."""

import re

from tinsmith.proc.catalogue import names

_WORDS: dict[str, dict[str, int]] = {
    "git": dict.fromkeys(
        names(
            "add am apply blame branch cat-file checkout cherry-pick commit describe diff fetch log ls-files merge mv "
            "pull push rebase reset restore revert rev-parse shortlog show stash status switch tag"
        ),
        1,
    ),
    "npm": {"test": 1, "t": 1, "ci": 1, "install": 1, "run": 2, "run-script": 2},
    "pnpm": {"test": 1, "install": 1, "run": 2},
    "yarn": {"test": 1, "install": 1, "run": 2},
    "bun": {"test": 1, "install": 1, "run": 2},
    "cargo": dict.fromkeys(names("bench build check clippy doc fmt test"), 1),
    "go": dict.fromkeys(names("build fmt list test vet"), 1),
    "pip": dict.fromkeys(names("check freeze list show"), 1),
    "uv": {"lock": 1, "sync": 1},
    "poetry": dict.fromkeys(names("check install lock"), 1),
    "dotnet": dict.fromkeys(names("build restore test"), 1),
    "mvn": dict.fromkeys(names("clean compile package test verify"), 1),
    "gradle": dict.fromkeys(names("build check test"), 1),
    "mix": dict.fromkeys(names("compile format test"), 1),
    "docker": dict.fromkeys(names("images logs ps"), 1),
    "pre-commit": {"run": 1},
}
"""Subcommands that a rule may name, and how many words that takes. Those that run whatever follows are not here."""
_ALONE = names(
    "pytest mypy pyright basedpyright ruff black isort flake8 pylint tox nox coverage tsc eslint prettier jest vitest "
    "mocha ctest ninja shellcheck stylua luacheck rustfmt gofmt golangci-lint clang-format rubocop rspec phpunit "
    "swiftlint"
)
_MODULES = names("pytest unittest mypy ruff black isort flake8 compileall")
_TARGET = re.compile(r"[a-z][\w.-]*", re.ASCII)


def prefix_of(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words that a rule for this command would match, empty when only the whole command can stand for it."""
    name, *rest = argv
    if name in _ALONE:
        return argv[:1]
    if name == "make" and rest and all(_TARGET.fullmatch(word) for word in rest[:1]):
        return argv[:2]
    if name in {"python", "python3"}:
        return argv[:3] if len(rest) > 1 and rest[0] == "-m" and rest[1] in _MODULES else ()
    count = _WORDS.get(name, {}).get(rest[0], 0) if rest else 0
    words = argv[: 1 + count]
    is_named = bool(count) and len(words) == 1 + count and not any(word.startswith("-") for word in words)
    return words if is_named else ()
