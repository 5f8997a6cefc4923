"""The Anthropic Messages dialect."""

from collections.abc import Mapping

from tinsmith.llm.anthropic_assembly import AnthropicAssembly
from tinsmith.llm.anthropic_events import TITLE
from tinsmith.llm.anthropic_request import encode_request
from tinsmith.llm.dialect import Dialect, bearer
from tinsmith.llm.sse import SseSplitter

_VERSION = "2023-06-01"


def _headers(key: str, host: str) -> Mapping[str, str]:
    """The key where Anthropic wants it; others that speak this dialect look in either place."""
    version = {"anthropic-version": _VERSION}
    if not key:
        return version
    return {**version, "x-api-key": key, **({} if host == "api.anthropic.com" else bearer(key, host))}


ANTHROPIC = Dialect(
    name="anthropic",
    title=TITLE,
    path="/v1/messages",
    models_path="/v1/models?limit=1000",  # the most; without it a page has 20
    media_type="text/event-stream",
    headers=_headers,
    encode=encode_request,
    splitter=SseSplitter,
    assembly=AnthropicAssembly,
)
