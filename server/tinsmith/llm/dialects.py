"""Which dialect a provider is spoken to in: the configured one, else what its address tells."""

from urllib.parse import urlsplit

from tinsmith.domain.settings import DialectName, LlmSettings
from tinsmith.llm.anthropic import ANTHROPIC
from tinsmith.llm.chat_completions import CHAT_COMPLETIONS
from tinsmith.llm.dialect import Dialect
from tinsmith.llm.ollama import OLLAMA
from tinsmith.llm.responses import RESPONSES

DIALECTS: dict[DialectName, Dialect] = {
    dialect.name: dialect for dialect in (CHAT_COMPLETIONS, RESPONSES, ANTHROPIC, OLLAMA)
}


def dialect_of(settings: LlmSettings) -> Dialect:
    """The dialect of the provider in the settings."""
    return DIALECTS[settings.dialect or guess_dialect(settings.base_url or "")]


def guess_dialect(base_url: str) -> DialectName:
    """What the server at this address most likely speaks best."""
    try:
        parts = urlsplit(base_url.strip())
        host, port, path = parts.hostname or "", parts.port, parts.path.rstrip("/")
    except ValueError:
        return "chat_completions"
    if path.endswith("/chat/completions"):
        return "chat_completions"
    if host == "api.anthropic.com" or path.endswith(("/messages", "/anthropic", "/anthropic/v1")):
        return "anthropic"
    if host == "api.openai.com" or path.endswith("/responses"):
        return "responses"
    if host == "ollama.com" or port == 11434 or path.endswith("/api/chat"):  # its /v1 ignores the context window
        return "ollama"
    return "chat_completions"
