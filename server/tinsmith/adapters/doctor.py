"""What is configured, reachable and there; and what to do about the rest."""

import asyncio
import os
import shutil
import sys
from collections.abc import Generator
from difflib import get_close_matches
from typing import Any

from tinsmith import __version__
from tinsmith.config.selection import find_keys
from tinsmith.domain.errors import AgentError
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.dialects import dialect_of
from tinsmith.llm.endpoint import shown
from tinsmith.runtime import Runtime, open_runtime
from tinsmith.services.keys import api_key
from tinsmith.services.offer import Offer, look_around
from tinsmith.store.verify import rebuild_index, verify

LARGE_STORE = 2 << 30
"""Bytes from which a store is worth a word."""
SHOWN_FINDINGS = 20


def examine(*, workspace: str, overrides: dict[str, Any], is_index_rebuilt: bool = False) -> int:
    """Print the findings; 1 when no turn could run, else 0."""
    return asyncio.run(_examine(os.path.abspath(workspace), overrides, is_index_rebuilt=is_index_rebuilt))


async def _examine(workspace: str, overrides: dict[str, Any], *, is_index_rebuilt: bool) -> int:
    _say(True, f"tinsmith {__version__}, Python {sys.version.split()[0]}")
    try:
        async with open_runtime(overrides=overrides, documents=NoDocuments(), prompter=NoPrompter()) as runtime:
            await _examine_store(runtime, is_index_rebuilt=is_index_rebuilt)
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


async def _examine_store(runtime: Runtime, *, is_index_rebuilt: bool) -> None:
    """Every record of it; an index that is false, or is to be made anew, is."""
    size = await runtime.off_loop(lambda: os.path.getsize(os.path.join(runtime.directories.store, "data.mdb")))
    advice = "" if size < LARGE_STORE else "; tinsmith backup writes a smaller copy, and TINSMITH_DATA_DIR names it"
    _say(size < LARGE_STORE, f"store in {runtime.directories.data}, {size / 1e6:.1f} MB{advice}")
    findings = await runtime.off_loop(lambda: [*verify(runtime.storage)])
    for finding in findings[:SHOWN_FINDINGS]:
        _say(False, f"stored record {finding.record} {finding.problem}")
    if len(findings) > SHOWN_FINDINGS:
        _say(False, f"and {len(findings) - SHOWN_FINDINGS} more")
    if any(not finding.is_index for finding in findings):
        _say(False, "these records are left out, all others are unharmed; a backup may still have them")
    if is_index_rebuilt or any(finding.is_index for finding in findings):
        _say(True, f"the index was made anew: {await rebuild_index(runtime.storage)} messages")


async def _examine_model(runtime: Runtime) -> bool:
    """The model and its server. Whether a turn could run."""
    settings = runtime.settings.effective.settings
    offer = await look_around(runtime.models, runtime.settings.effective, os.environ, is_fresh=True)
    if offer.chosen is not None:
        dialect = dialect_of(settings.llm_config)
        guessed = "" if settings.llm_config.dialect else " (guessed from the address)"
        _say(True, f"model {offer.chosen.model} ({offer.reason}), spoken to in {dialect.title}{guessed}")
        _tell_key(settings.llm_config)
    if offer.models:
        _tell_list(settings.llm_config.base_url or "", offer)
    for problem in offer.problems:
        _say(False, problem)
    for way in offer.ways:
        place = f"{way.name} at {shown(way.base_url)}" + (f" with {way.model}" if way.model else "")
        _say(True, f"found as well: {place} ({way.reason}); tinsmith setup can use it")
    return offer.chosen is not None and offer.is_reachable


def _tell_list(base_url: str, offer: Offer) -> None:
    _say(True, f"{shown(base_url)} answers and lists {len(offer.models)} models")
    listed = [model.model_id for model in offer.models]
    if offer.chosen is not None and offer.chosen.model not in listed:
        nearest = get_close_matches(offer.chosen.model, listed, 3, 0)
        _say(False, f"{offer.chosen.model} is not among them; the nearest: {', '.join(nearest)}")


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
