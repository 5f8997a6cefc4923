"""What README.md names is there, and what is there is named; and no page has a link that leads nowhere."""

import argparse
import json
import re

import pytest
from tests.docs.pages import PAGES, ROOT, anchors, code, page, rows, section

from tinsmith import cli
from tinsmith.adapters.headless import EXIT_CODES, USAGE_ERROR
from tinsmith.config.layers import default_tree, fixed_paths, value_at
from tinsmith.domain.policy import Access, CommandSubject, ToolSubject, decide
from tinsmith.llm.dialects import guess_dialect
from tinsmith.llm.discovery import LOCAL_SERVERS

README = page("README.md")
_TOOL = ToolSubject("", {})


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", page(name)):
        path, _, anchor = target.partition("#")
        assert not path or (ROOT / path).exists(), target
        assert not anchor or anchor in anchors(page(path or name)), target


def test_the_pages_and_the_licence_are_there():
    assert "\n## Unreleased\n" in page("CHANGELOG.md")
    licence = page("LICENSE")
    assert "Apache License\n                           Version 2.0" in licence
    assert "Copyright The Tinsmith authors" in licence


def test_every_make_target_that_is_named_exists():
    named = {target for piece in code(README) for target in re.findall(r"^make ([\w-]+)", piece)}
    made = set(re.findall(r"^([\w-]+):", page("Makefile"), re.MULTILINE))
    assert {"demo", "test", "check", "bench"} <= named <= made


def commands() -> dict[str, argparse.ArgumentParser]:
    """The command line's parsers by subcommand."""
    (choices,) = [each for each in cli._parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(choices.choices)


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Its options, without the one that argparse adds."""
    return {each for action in parser._actions for each in action.option_strings} - {"-h", "--help"}


def test_the_command_lines_subcommands():
    named = {word for piece in code(README) for word in re.findall(r"(?:^|\| )tinsmith ([a-z]\w*)", piece)}
    assert named == set(commands())


def test_the_command_lines_options():
    lines = [piece for piece in code(README) if piece.startswith(("tinsmith ", "--"))]
    named = {option for line in lines for option in re.findall(r"(?<!\S)--[a-z][\w-]*", line)}
    there = options(cli._parser()).union(*(options(parser) for parser in commands().values()))
    assert named == there
    of_run = [row[0] for row in rows(section(README, "## Without an editor")) if row[0].startswith("`--")]
    assert {re.findall(r"--[\w-]+", cell)[0] for cell in of_run} == options(commands()["run"])
    of_doctor = re.findall(r"`tinsmith doctor` takes ([^.]+) like `run`", README.replace("\n", " "))
    assert {*re.findall(r"--[\w-]+", of_doctor[0]), "--rebuild-index"} == options(commands()["doctor"])


def test_the_exit_codes():
    told = {int(row[0]): row[1] for row in rows(section(README, "## Without an editor")) if row[0].isdigit()}
    assert set(told) == {*EXIT_CODES.values(), USAGE_ERROR}
    for outcome in ("completed", "error", "budget_exhausted", "cancelled"):
        assert told[EXIT_CODES[outcome]].startswith(outcome.replace("_", " "))


def test_the_commands_of_neovim():
    named = {name for piece in code(README) for name in re.findall(r"^:Tinsmith (\w+)", piece)}
    table = re.search(
        r"local subcommands = \{(.*?)^\}", page("clients/neovim/lua/tinsmith/command.lua"), re.DOTALL | re.MULTILINE
    )
    assert named == set(re.findall(r"^  (\w+) = \{", table[1], re.MULTILINE))


def test_the_settings_and_their_defaults():
    told = {row[0].strip("`"): row[1].strip("`") for row in rows(section(README, "## Settings"))[1:]}
    assert told.keys() - {"models.<role>", "llm_config.headers.<name>"} == fixed_paths()
    for path in fixed_paths():
        value = value_at(default_tree(), path)
        assert told[path] in ("absent" if value is None else value, json.dumps(value)), path


@pytest.mark.parametrize(
    ("row", "access"),
    [
        ("read files", Access("look", "", _TOOL)),
        ("edit and create", Access("change", "", _TOOL)),
        ("run a command that only reads", Access("run", "", CommandSubject("x", "/"), command_class="read")),
        ("run a command with network", Access("run", "", CommandSubject("x", "/"), grant="network")),
        ("run a command with network", Access("run", "", CommandSubject("x", "/"), grant="unsandboxed")),
        ("run commands", Access("run", "", CommandSubject("x", "/"))),
        ("anything outside", Access("look", "", _TOOL, is_outside=True)),
        ("anything outside", Access("change", "", _TOOL, is_secret=True)),
    ],
)
def test_the_permission_table(row, access):
    table = rows(section(README, "## Who is asked"))
    modes = [re.findall(r"`(\w+)`", cell)[0] for cell in table[0][1:]]
    assert modes == list(cli.MODES)
    (words,) = [cells[1:] for cells in table if cells[0].startswith(row)]
    said = {"run": "runs", "ask": "asks", "refuse": "refused"}
    assert words == [said[decide(mode, access)] for mode in cli.MODES]


def test_the_providers():
    told = {row[0]: [cell.strip("`") for cell in row[1:]] for row in rows(section(README, "## Configure a model"))[1:]}
    for server in LOCAL_SERVERS:
        assert told[server.name] == [server.base_url, guess_dialect(server.base_url)]
    for address, dialect in (told[name] for name in ("OpenAI", "Anthropic", "OpenRouter")):
        assert guess_dialect(address) == dialect
