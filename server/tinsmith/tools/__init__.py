"""Tools: one file each, the text for the model beside it; here the list of specs."""

import os
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from tinsmith.domain.policy import Access
from tinsmith.domain.ports import (
    Changes,
    Diagnostics,
    Documents,
    Fetcher,
    NoChanges,
    NoDiagnostics,
    NoSymbols,
    NoWeb,
    Searcher,
    Symbols,
)
from tinsmith.domain.tool import CallScope, Effect, ToolResult, ToolSpec
from tinsmith.tools.arguments import (
    BashArguments,
    DiagnosticsArguments,
    EditArguments,
    FilesArguments,
    GitArguments,
    GrepArguments,
    MapArguments,
    OutlineArguments,
    ReadArguments,
    SymbolsArguments,
    WebFetchArguments,
    WebSearchArguments,
    WriteArguments,
)
from tinsmith.tools.schema import closed_schema

_TOOLS: tuple[tuple[str, type[msgspec.Struct], frozenset[Effect]], ...] = (
    ("read", ReadArguments, frozenset({"reads"})),
    ("edit", EditArguments, frozenset({"reads", "writes"})),
    ("write", WriteArguments, frozenset({"reads", "writes"})),
    ("bash", BashArguments, frozenset({"reads", "writes", "runs", "network"})),
    ("code_map", MapArguments, frozenset({"reads"})),
    ("code_grep", GrepArguments, frozenset({"reads"})),
    ("code_files", FilesArguments, frozenset({"reads"})),
    ("code_symbols", SymbolsArguments, frozenset({"reads"})),
    ("code_outline", OutlineArguments, frozenset({"reads"})),
    ("git", GitArguments, frozenset({"reads"})),
    ("diagnostics", DiagnosticsArguments, frozenset({"reads"})),
    ("web_search", WebSearchArguments, frozenset({"network"})),
    ("web_fetch", WebFetchArguments, frozenset({"network"})),
)
"""In the order in which a model is told of them; it never changes, so that providers can cache it."""


def builtin_tools(
    documents: Documents,
    *,
    cache_dir: str,
    secret_variables: Callable[[], frozenset[str]] = frozenset,
    found_keys: Callable[[], tuple[str, ...]] = tuple,
    protected: tuple[str, ...] = (),
    diagnostics: Diagnostics | None = None,
    symbols: Symbols | None = None,
    fetcher: Fetcher | None = None,
    searcher: Searcher | None = None,
    changes: Changes | None = None,
    sandbox: Callable[[], Any] | None = None,
    ledger: Callable[[], Any] | None = None,
) -> tuple[ToolSpec, ...]:
    """The built-in tools in their fixed order. What they need to run is imported and made at the first call.

    `cache_dir` takes long command outputs; `secret_variables` gives the names of environment variables that hold our
    keys, `found_keys` keys from elsewhere; no edit or write may touch the `protected` directories. Without `fetcher`
    and `searcher` there is no web, without `changes` nothing to undo; `sandbox` gives the one that commands run in,
    `ledger` the one of what was shown.
    """

    @cache
    def ports() -> Any:
        from tinsmith.tools.ports import open_ports

        return open_ports(
            documents,
            cache_dir,
            secret_variables,
            protected,
            diagnostics or NoDiagnostics(),
            symbols or NoSymbols(),
            fetcher or NoWeb(),
            searcher or NoWeb(),
            changes or NoChanges(),
            sandbox and sandbox(),
            found_keys,
            ledger and ledger(),
        )

    return tuple(
        ToolSpec(
            name=name,
            description=_description(name),
            args=arguments,
            schema=closed_schema(arguments),
            effects=effects,
            preview=_when_called(name, "preview", ports),
            run=_when_called(name, "run", ports),
        )
        for name, arguments, effects in _TOOLS
    )


@cache
def _description(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()


def _when_called(name: str, function: str, ports: Callable[[], Any]) -> Callable[[Any, CallScope], Awaitable[Any]]:
    """`function` of the tool's module, imported when it is first called."""

    async def call(arguments: Any, scope: CallScope) -> Access | ToolResult:
        return await getattr(import_module(f"{__name__}.{name}"), function)(ports(), arguments, scope)

    return call
