"""What ARCHITECTURE.md names is there: tests, contracts, layers, files, libraries."""

import re
import tomllib

import pytest
from tests.docs.pages import ROOT, code, definitions, page, rows, section

ARCHITECTURE = page("ARCHITECTURE.md")
PROJECT = tomllib.loads(page("pyproject.toml"))
INVARIANTS = re.split(r"^\*\*(?=\d+\. )", section(ARCHITECTURE, "## Invariants"), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda text: text.partition(".")[0])
def test_each_invariant_is_held_by_something_that_exists(invariant):
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`", invariant)
    assert named, "an invariant names the test that holds it"
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or name in definitions(ROOT / path), f"{path}::{name}"


def test_the_invariants_are_numbered():
    assert [int(text.partition(".")[0]) for text in INVARIANTS] == list(range(1, len(INVARIANTS) + 1))


def test_the_layers_are_those_of_the_contract():
    contracts = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
    rooms = section(ARCHITECTURE, "## Rooms")
    told = re.search(r"```\n(.*?)```", rooms, re.DOTALL)[1].splitlines()
    assert told == contracts["rooms"]["layers"]
    others = {row[0].strip("`") for row in rows(rooms.partition("More contracts")[2])[1:]}
    assert others == contracts.keys() - {"rooms"}


def test_every_file_that_is_named_exists():
    places = (
        ROOT,
        ROOT / "server" / "tinsmith",
        ROOT / "server" / "tinsmith" / "adapters",
        ROOT / "clients/neovim/lua/tinsmith",
    )
    named = {piece for piece in code(ARCHITECTURE) if re.fullmatch(r"[\w./-]+(\.(py|lua|md|toml)|/)", piece)}
    assert len(named) > 30
    short = {path.name for path in (ROOT / "server").rglob("*.py")}
    lost = [name for name in named if name not in short and not any((place / name).exists() for place in places)]
    assert lost == []


def test_every_dependency_has_its_reason():
    wanted = {re.match(r"[\w-]+", each)[0] for each in PROJECT["project"]["dependencies"]}
    told = {row[0]: row[1] for row in rows(section(ARCHITECTURE, "## Dependencies"))[1:]}
    assert told.keys() == wanted
    tools = {
        re.match(r"[\w-]+", each)[0] for group in PROJECT["project"]["optional-dependencies"].values() for each in group
    } - {"tinsmith"}  # an extra of ours in another
    prose = section(ARCHITECTURE, "## Dependencies")
    assert [tool for tool in tools if tool.removeprefix("pytest-") not in prose] == []
