"""What there is to choose from: the provider's models, the chosen one and why, and other ways that were found."""

from collections.abc import Mapping, Sequence

import msgspec

from tinsmith.config.load import Effective
from tinsmith.domain.errors import AgentError
from tinsmith.domain.settings import LlmSettings, ModelChoice, WindowSource
from tinsmith.llm.catalog import CatalogEntry
from tinsmith.llm.discovery import LOCAL_SERVERS, LocalServer
from tinsmith.services.first_run import Way, find_others, find_ways
from tinsmith.services.models import Models

_SOURCES: dict[WindowSource, str] = {
    "settings": "as llm_config.context_window says",
    "provider": "as the provider says",
    "family": "as is known of models of that name",
    "assumed": "assumed, since nobody says; llm_config.context_window sets it",
}
_ANSWERS = frozenset({"providerHttp", "unexpectedBody", "modelNotFound"})
"""Errors of a provider that is there and has no list for us."""


class Offer(msgspec.Struct, frozen=True):
    """`chosen` is the model that a turn would use, `reason` why that one and that large, as a phrase for a person.

    `models` are the configured provider's. `ways` lead to others; without a configured provider the first of them is
    what the first run would propose. `problems` are sentences about what could not be asked; a provider is reachable
    when it answers, also when it has no list.
    """

    models: tuple[CatalogEntry, ...] = ()
    chosen: ModelChoice | None = None
    reason: str = ""
    ways: tuple[Way, ...] = ()
    problems: tuple[str, ...] = ()
    is_reachable: bool = False


async def look_around(
    models: Models,
    settings: Effective,
    environment: Mapping[str, str],
    *,
    override: str = "",
    is_fresh: bool = False,
    local_servers: Sequence[LocalServer] = LOCAL_SERVERS,
) -> Offer:
    """Look at the configured provider, else at whatever could be one; `is_fresh` asks again what is known already."""
    llm, role = settings.settings.llm_config, settings.settings.active_role
    problems: list[str] = []
    listed: tuple[CatalogEntry, ...] = ()
    is_reachable = bool(llm.base_url)
    if llm.base_url:
        ways = await find_others(models, environment, local_servers)
        ways = tuple(way for way in ways if way.base_url != llm.base_url)
        try:
            listed = await (models.fetch(llm) if is_fresh else models.listed(llm))
        except AgentError as error:
            problems.append(error.message)
            is_reachable = error.code in _ANSWERS
    else:
        found = await find_ways(models, settings, environment, local_servers)
        ways = (*((found.proposal,) if found.proposal else ()), *found.others)
        problems.extend(found.problems)
    chosen = None
    try:
        chosen = models.choose(settings.settings, role, override)
        if llm.base_url and (is_fresh or _is_silent(models, llm, chosen)):
            await models.look_at(llm, chosen.model)
            chosen = models.choose(settings.settings, role, override)
    except AgentError as error:
        problems.append(error.message)
    return Offer(listed, chosen, _reason(chosen) if chosen else "", ways, tuple(problems), is_reachable)


def _is_silent(models: Models, llm: LlmSettings, chosen: ModelChoice) -> bool:
    entry = models.entry(llm, chosen.model)
    return entry is None or entry.context_window is None


def _reason(chosen: ModelChoice) -> str:
    origin = "the conversation's own" if chosen.source == "override" else f"from {chosen.key}"
    return f"{origin}; a context of {chosen.context_window:,} tokens, {_SOURCES[chosen.window_source]}"
