"""What is configured, reachable and there; and what to do about the rest."""

import asyncio
import os
import shutil
import sys
from collections.abc import Generator
from typing import Any

from tinsmith import __version__
from tinsmith.config.selection import find_keys
from tinsmith.domain.errors import AgentError
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.dialects import dialect_of
from tinsmith.runtime import Runtime, open_runtime
from tinsmith.services.keys import api_key


def examine(*, workspace: str, overrides: dict[str, Any]) -> int:
    """Print the findings; 1 when no turn could run, else 0."""
    return asyncio.run(_examine(os.path.abspath(workspace), overrides))


async def _examine(workspace: str, overrides: dict[str, Any]) -> int:
    _say(True, f"tinsmith {__version__}, Python {sys.version.split()[0]}")
    try:
        async with open_runtime(overrides=overrides, documents=NoDocuments(), prompter=NoPrompter()) as runtime:
            _say(True, f"store in {runtime.directories.data}")
            for problem in runtime.settings.effective.problems:
                _say(False, problem.text)
            _say(os.access(workspace, os.W_OK), f"workspace {workspace}")
            can_run = await _examine_model(runtime)
            await _examine_sandbox(runtime)
    except AgentError as error:
        _say(False, error.message)
        return 1
    for found, text in _programs():
        _say(found, text)
    return 0 if can_run else 1


async def _examine_model(runtime: Runtime) -> bool:
    """The model and its server. Whether a turn could run."""
    settings = runtime.settings.effective.settings
    try:
        choice = runtime.models.choose(settings, settings.active_role, "")
    except AgentError as error:
        _say(False, error.message)
        for local in await runtime.models.find_local():
            _say(
                True, f"{local.name} answers at {local.base_url} with {local.model}; tinsmith setup makes it the model"
            )
        return False
    dialect = dialect_of(settings.llm_config)
    guessed = "" if settings.llm_config.dialect else " (guessed from the address)"
    _say(True, f"model {choice.model} (from {choice.key}), spoken to in {dialect.title}{guessed}")
    _tell_key(settings.llm_config)
    return await _examine_server(runtime)


def _tell_key(settings: LlmSettings) -> None:
    variable, entry = settings.api_key_env, settings.api_key_keyring
    others = [name for name in find_keys(os.environ) if name != variable]
    if entry:
        _say(True, f"key in the keyring's entry {entry}")
    elif api_key(variable):
        _say(True, f"key in {variable}")
    elif others:
        _say(True, f"no key in {variable}; {', '.join(others)} is set: name it in llm_config.api_key_env to use it")
    if settings.headers:
        _say(True, f"headers of your own: {', '.join(settings.headers)}")


async def _examine_server(runtime: Runtime) -> bool:
    settings = runtime.settings.effective.settings.llm_config
    try:
        models = await runtime.models.fetch(settings)
    except AgentError as error:
        is_reached = error.code in {"providerHttp", "unexpectedBody", "modelNotFound"}
        _say(is_reached, f"model list: {error.message}")
        return is_reached
    _say(True, f"{settings.base_url} answers and lists {len(models)} models")
    return True


async def _examine_sandbox(runtime: Runtime) -> None:
    state = await runtime.sandbox_state()
    way = "" if state.kind == "bubblewrap" else "; install bubblewrap and let users make namespaces for the best one"
    _say(state.kind != "none", f"sandbox for commands: {state}{way}")


def _programs() -> Generator[tuple[bool, str]]:
    for name, purpose in (("bash", "runs commands"), ("git", "finds the repository")):
        path = shutil.which(name)
        yield path is not None, f"{name} {purpose}: {path or 'not found; install it'}"


def _say(is_good: bool, text: str) -> None:  # noqa: FBT001  the mark in front of the line
    sys.stdout.write(f"{'✓' if is_good else '✗'} {text}\n")
