"""Which model a turn uses, and what the provider says about it."""

import asyncio
import logging
import os
from collections.abc import Sequence

import msgspec

from tinsmith.config.selection import find_keys, select_model
from tinsmith.domain.errors import AgentError
from tinsmith.domain.settings import LlmSettings, ModelChoice, Settings, WindowSource
from tinsmith.llm.catalog import CatalogEntry, fetch_catalog
from tinsmith.llm.details import fetch_details, has_details
from tinsmith.llm.dialects import dialect_of
from tinsmith.llm.discovery import LOCAL_SERVERS, LocalServer, begin_with, find_local_servers
from tinsmith.llm.endpoint import FindCredentials
from tinsmith.llm.families import known_window
from tinsmith.net.http import HttpClient

_log = logging.getLogger(__name__)

_FIRST_LOOK_SECONDS = 1.0
"""What a first turn waits for the size of a model that must be told its own size."""


class LocalProposal(msgspec.Struct, frozen=True):
    """A local server that answers, the model to begin with, and why it is that one, as a phrase."""

    name: str
    base_url: str
    model: str
    reason: str


class Models:
    """Chooses by the settings; the provider's list, once it was fetched, adds the sizes that they do not say."""

    def __init__(self, http: HttpClient, credentials: FindCredentials) -> None:
        self._http = http
        self._credentials = credentials
        self._lists: dict[str, tuple[CatalogEntry, ...]] = {}
        self._details: dict[tuple[str, str], CatalogEntry | None] = {}

    def choose(self, settings: Settings, role: str, override: str) -> ModelChoice:
        """The model of a turn. Raises SchemaError `modelNotConfigured` with what was found and what to do."""
        choice = select_model(settings, role, override or None, found_keys=find_keys(os.environ))
        listed = self.entry(settings.llm_config, choice.model)
        sizes: tuple[tuple[WindowSource, int | None], ...] = (
            ("settings", settings.llm_config.context_window),
            ("provider", listed.context_window if listed else None),
            ("family", known_window(choice.model)),
        )
        source, window = next(((name, size) for name, size in sizes if size), ("assumed", choice.context_window))
        limit = listed.max_output_tokens if listed else None
        return msgspec.structs.replace(
            choice,
            context_window=window,
            window_source=source,
            max_output_tokens=limit if limit is not None and limit < window else None,  # more is no limit at all
            sees_images=listed.sees_images if listed else None,
        )

    def entry(self, settings: LlmSettings, model: str) -> CatalogEntry | None:
        """What the provider has said of this model so far: of it alone, else in its list."""
        place = _place(settings)
        listed = next((each for each in self._lists.get(place, ()) if each.model_id == model), None)
        return self._details.get((place, model)) or listed

    async def fetch(self, settings: LlmSettings) -> tuple[CatalogEntry, ...]:
        """Fetch the provider's list and keep it. Raises as `fetch_catalog`."""
        entries = self._lists[_place(settings)] = await fetch_catalog(self._http, settings, self._credentials)
        return entries

    async def listed(self, settings: LlmSettings) -> tuple[CatalogEntry, ...]:
        """The provider's list, fetched when it was not yet. Raises as `fetch_catalog`."""
        return self._lists.get(_place(settings)) or await self.fetch(settings)

    async def look_at(self, settings: LlmSettings, model: str) -> None:
        """Ask again what the provider says of this one model, where it says more than it lists. Raises as `fetch`."""
        if has_details(settings):
            entry = await fetch_details(self._http, settings, self._credentials, model)
            self._details[_place(settings), model] = entry

    async def find_local(self, servers: Sequence[LocalServer] = LOCAL_SERVERS) -> tuple[LocalProposal, ...]:
        """The servers that answer on their usual local ports, each with the model to begin with."""
        found = await find_local_servers(self._http, servers)
        pairs = ((each.server, len(each.models), begin_with(each.models)) for each in found)
        return tuple(
            LocalProposal(
                server.name,
                server.base_url,
                chosen.model_id,
                f"it answers on this machine; of {count} models this one was taken: {chosen.reason}",
            )
            for server, count, chosen in pairs
            if chosen
        )

    async def learn(self, settings: LlmSettings, model: str) -> None:
        """Fetch list and details when they were not yet. A failure is not fatal: the sizes stay as they are known."""
        place = _place(settings)
        if place not in self._lists:
            self._lists[place] = ()
            try:
                await self.fetch(settings)
            except AgentError as error:
                _log.info("no model list: %s", error.code)
        await self._learn_details(settings, model)

    async def learn_first(self, settings: LlmSettings, model: str) -> None:
        """Learn, within a moment, what must be known before the first request.

        Ollama is told how large a context to hold, and loads the model anew for another one.
        """
        if dialect_of(settings).name == "ollama":
            try:
                async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                    await self._learn_details(settings, model)
            except TimeoutError:
                _log.info("no details of the model within %s s", _FIRST_LOOK_SECONDS)

    async def _learn_details(self, settings: LlmSettings, model: str) -> None:
        if settings.context_window is not None or (_place(settings), model) in self._details:
            return
        self._details[_place(settings), model] = None
        try:
            await self.look_at(settings, model)
        except AgentError as error:
            _log.info("no details of the model: %s", error.code)


def _place(settings: LlmSettings) -> str:
    return f"{dialect_of(settings).name} {settings.base_url}"
