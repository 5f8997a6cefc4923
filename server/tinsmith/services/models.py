"""Which model a turn uses, and what the provider says about it."""

import logging
import os
from collections.abc import Sequence

import msgspec

from tinsmith.config.selection import find_keys, select_model
from tinsmith.domain.errors import AgentError
from tinsmith.domain.settings import LlmSettings, ModelChoice, Settings
from tinsmith.llm.catalog import CatalogEntry, fetch_catalog
from tinsmith.llm.discovery import LOCAL_SERVERS, LocalServer, begin_with, find_local_servers
from tinsmith.llm.endpoint import FindCredentials
from tinsmith.net.http import HttpClient

_log = logging.getLogger(__name__)


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
        self._lists: dict[str, dict[str, CatalogEntry]] = {}

    def choose(self, settings: Settings, role: str, override: str) -> ModelChoice:
        """The model of a turn. Raises SchemaError `modelNotConfigured` with what was found and what to do."""
        choice = select_model(settings, role, override or None, found_keys=find_keys(os.environ))
        known = self._lists.get(settings.llm_config.base_url or "", {}).get(choice.model)
        if known is not None:
            choice = msgspec.structs.replace(
                choice,
                context_window=known.context_window or choice.context_window,
                max_output_tokens=known.max_output_tokens,
            )
        window = settings.llm_config.context_window
        return choice if window is None else msgspec.structs.replace(choice, context_window=window)

    async def fetch(self, settings: LlmSettings) -> tuple[CatalogEntry, ...]:
        """Fetch the provider's list and keep it. Raises as `fetch_catalog`."""
        entries = await fetch_catalog(self._http, settings, self._credentials)
        self._lists[settings.base_url or ""] = {entry.model_id: entry for entry in entries}
        return entries

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

    async def learn(self, settings: LlmSettings) -> None:
        """Fetch the list when it was not yet. A failure is not fatal: the sizes stay at their defaults."""
        where = settings.base_url or ""
        if where not in self._lists:
            self._lists[where] = {}
            try:
                await self.fetch(settings)
            except AgentError as error:
                _log.info("no model list: %s", error.code)
