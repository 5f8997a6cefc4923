"""The first run: look for a way to a model, propose one, write it when that is wanted, and try it."""

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from tinsmith.config.layers import Tree, value_at, with_value
from tinsmith.config.selection import KEY_VARIABLES
from tinsmith.config.user_file import plan_change, write_change
from tinsmith.domain.change import FileChange
from tinsmith.domain.errors import AgentError, SchemaError
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.domain.redaction import MARK
from tinsmith.llm.dialects import DIALECTS, guess_dialect
from tinsmith.llm.discovery import LOCAL_SERVERS
from tinsmith.runtime import open_runtime
from tinsmith.services.first_run import Findings, Way, find_ways, is_configured, leaves_of
from tinsmith.services.keys import Keys, secret_variables, without_secrets


def set_up(*, overrides: dict[str, Any], is_confirmed: bool) -> int:
    """Propose, ask unless `is_confirmed`, write, try; 0 when a model answers in the end, else 1."""
    key_env = overrides.get("llm_config.api_key_env")
    say = _Teller(key_env or "")
    try:
        if key_env is not None:
            _check_variable(key_env)
            overrides = {"llm_config.api_key_keyring": None, **overrides}
        if not overrides and asyncio.run(_is_done(say)):
            return _try_out(say, {})
        proposal = asyncio.run(_propose(say, overrides))
        if proposal is None:
            return 1
        change, leaves, command = proposal
        if not (is_confirmed or _ask(say, command)):
            return 1
        write_change(change)
        say.good(f"written to {change.path}")
        return _try_out(say, leaves)
    except AgentError as error:
        say.bad(error.message)
    except KeyboardInterrupt:
        say.line("\nStopped.")
    return 1


class _Teller:
    """Standard output, without the values of keys."""

    def __init__(self, key_env: str) -> None:
        self._variables = secret_variables(key_env)
        self.keys: Keys | None = None

    def line(self, text: str = "", end: str = "\n") -> None:
        """Print a line."""
        sys.stdout.write(self.clean(text) + end)
        sys.stdout.flush()

    def good(self, text: str) -> None:
        """Print what works."""
        self.line(f"✓ {text}")

    def bad(self, text: str) -> None:
        """Print what does not."""
        self.line(f"✗ {text}")

    def clean(self, text: str) -> str:
        """The text with a mark in place of each key and of what stands before the host of an address."""
        found = self.keys.found() if self.keys else ()
        return without_secrets(re.sub(r"//[^/@\s]*@", f"//{MARK}@", text), self._variables, found)


def _check_variable(name: str) -> None:
    """Raises SchemaError unless it names a variable that is set. What was given may be a key, so it is not repeated."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not os.environ.get(name):
        message = "There is no variable of the name that --api-key-env gives. Give the name, not the key, and set it."
        raise SchemaError("invalidSetting", message)


async def _is_done(say: _Teller) -> bool:
    async with open_runtime(documents=NoDocuments(), prompter=NoPrompter()) as runtime:
        if not is_configured(runtime.settings.effective):
            return False
        say.good(f"a model is configured already ({runtime.directories.user_file}, or set at run time)")
        say.line("Nothing is to be written. For another one: tinsmith setup --base-url URL [--model ID]")
        return True


async def _propose(say: _Teller, overrides: dict[str, Any]) -> tuple[FileChange, Mapping[str, str | None], str] | None:
    """Tell what was found. What is to be written, and the command that confirms it; None when there is nothing."""
    async with open_runtime(overrides=overrides, documents=NoDocuments(), prompter=NoPrompter()) as runtime:
        say.keys = runtime.keys
        found = await find_ways(runtime.models, runtime.settings.effective, os.environ)
        for problem in found.problems:
            say.bad(problem)
        way = found.proposal
        if way is None:
            _tell_nothing(say, found)
            return None
        leaves = leaves_of(way, runtime.settings.effective)
        headers = runtime.settings.effective.settings.llm_config.headers
        user_file = runtime.directories.user_file
        change = await runtime.off_loop(lambda: plan_change(user_file, leaves))
    _check_harmless(say, way)
    title = DIALECTS[way.dialect].title
    place = f"the keyring's entry {way.key_entry}" if way.key_entry else way.key_env
    key = f"the key in {place}" if place else "no key"
    say.line(f"Proposed: {way.model} at {way.base_url}, spoken to in {title}, with {key}")
    say.line(f"  because: {way.reason}")
    if headers:
        say.line(f"  and the headers {', '.join(headers)}, which are set already")
    _tell_others(say, found)
    say.line(f"To be written to {change.path}" + (", where everything else stays:" if change.before else ":"))
    tree: Tree = {}
    for path, value in leaves.items():
        tree = with_value(tree, path, value)
    say.line("  " + json.dumps(tree, indent=2, ensure_ascii=False).replace("\n", "\n  "))
    return change, leaves, _command(way, "--yes")


def _tell_nothing(say: _Teller, found: Findings) -> None:
    if not found.problems:
        places = ", ".join(f"{server.name} at {server.base_url}" for server in LOCAL_SERVERS)
        say.bad(f"found nothing: no key in {', '.join(KEY_VARIABLES)}, and no answer from {places}")
    _tell_others(say, found)
    say.line("Set the variable of a provider's key, or start a local server, and run tinsmith setup again.")
    key = "[--api-key-env NAME | --api-key-keyring ENTRY]"
    say.line(f"Or say where the model is: tinsmith setup --base-url URL [--model ID] {key}")
    say.line("Nothing was written.")


def _tell_others(say: _Teller, found: Findings) -> None:
    if found.others:
        say.line("Found as well:")
    for way in found.others:
        say.line(f"  {way.name}: {_command(way)}")


def _command(way: Way, *first: str) -> str:
    """The command that leads to exactly this way."""
    options = {"--base-url": way.base_url, "--model": way.model, "--api-key-env": way.key_env}
    options["--api-key-keyring"] = way.key_entry
    if way.dialect != guess_dialect(way.base_url):
        options["--dialect"] = way.dialect
    words = [word for option, value in options.items() if value for word in (option, value)]
    return shlex.join(["tinsmith", "setup", *first, *words])


def _check_harmless(say: _Teller, way: Way) -> None:
    """Raises SchemaError when a secret would be written."""
    if any(say.clean(text) != text for text in (way.base_url, way.model, way.key_env, way.key_entry)):
        message = "The address, model or variable holds a password or key, and those are never written. Leave it out."
        raise SchemaError("secretInSettings", f"{message} Nothing was written.")


def _ask(say: _Teller, command: str) -> bool:
    if not sys.stdin.isatty():
        say.line(f"Nothing was written, since nobody is here to be asked. To confirm it: {command}")
        return False
    say.line("Write it and try it? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    say.line("Nothing was written.")
    return False


def _try_out(say: _Teller, written: Mapping[str, str | None]) -> int:
    """One request through the configuration as the next start finds it."""
    return asyncio.run(_ask_model(say, written))


async def _ask_model(say: _Teller, written: Mapping[str, str | None]) -> int:
    async with open_runtime(documents=NoDocuments(), prompter=NoPrompter()) as runtime:
        say.keys = runtime.keys
        effective = runtime.settings.effective
        settings = effective.settings
        for path, value in written.items():
            if value_at(effective.tree, path) != value:
                layer = {"persisted": "was set at run time", "ephemeral": "is in the environment"}
                say.bad(f"`{path}`: another value {layer.get(effective.provenance[path], 'stands')} and goes before it")
        choice = runtime.models.choose(settings, settings.active_role, "")
        say.line(f"Asking {choice.model} (from {choice.key}) at {settings.llm_config.base_url} …")
        try:
            await runtime.try_model(choice)
        except AgentError as error:
            say.bad(f"it does not work yet: {error.message}")
            say.line("Correct that and ask again with: tinsmith setup")
            return 1
    say.good('it answers. Begin in your editor, or with: tinsmith run "What does this project do?"')
    return 0
