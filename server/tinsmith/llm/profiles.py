"""What servers of one dialect differ in: one row a server, found by its host, or by the port it usually has."""

from typing import Literal
from urllib.parse import urlsplit

import msgspec

from tinsmith.domain.settings import SwitchSettings


class Profile(msgspec.Struct, frozen=True):
    """The switches of one server.

    `empty_content` is the content of an assistant message that has calls and no text. `limit_field` is the name of
    the limit of output tokens. `omits` are fields of the body that it refuses. `merges_roles` makes one message of
    neighbours of one role, `bridges_results` puts an assistant message between tool results and a user message: what
    strict templates want. `replays_reasoning` sends `reasoning_content` back with the calls that it led to,
    `replays_details` the sealed parts. `has_cache_key` sends `prompt_cache_key`. `has_short_call_ids` makes ids of nine
    letters and digits. `truncates_silently` says that it drops what does not fit its context without a word.
    `sees_images` is false once it has refused one.
    """

    name: str = "generic"
    empty_content: Literal[""] | None = None
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    omits: frozenset[str] = frozenset()
    merges_roles: bool = False
    bridges_results: bool = False
    replays_reasoning: bool = False
    replays_details: bool = False
    has_cache_key: bool = False
    has_short_call_ids: bool = False
    truncates_silently: bool = False
    sees_images: bool = True


DEFAULT = Profile()
_NOT_SWITCHED = SwitchSettings()

# Sources: each server's own API reference; for templates the ones that come with the models they serve.
_OPENAI = Profile("OpenAI", limit_field="max_completion_tokens", has_cache_key=True)
_OPENROUTER = Profile("OpenRouter", replays_details=True)
_GEMINI = Profile("Gemini", replays_details=True)  # thought signatures stand in the calls and must come back
_DEEPSEEK = Profile("DeepSeek", replays_reasoning=True)  # its thinking mode refuses calls without the reasoning
_MISTRAL = Profile(
    "Mistral",
    empty_content="",
    omits=frozenset({"stream_options"}),
    bridges_results=True,
    has_short_call_ids=True,
)
OLLAMA = Profile("Ollama", replays_reasoning=True, truncates_silently=True)
_LLAMA_CPP = Profile("llama.cpp", merges_roles=True)  # it applies the model's own template, which may insist
_LM_STUDIO = Profile("LM Studio", merges_roles=True)
_VLLM = Profile("vLLM", merges_roles=True)

_BY_HOST: dict[str, Profile] = {
    "api.openai.com": _OPENAI,
    "api.anthropic.com": Profile("Anthropic"),
    "openrouter.ai": _OPENROUTER,
    "generativelanguage.googleapis.com": _GEMINI,
    "api.deepseek.com": _DEEPSEEK,
    "api.mistral.ai": _MISTRAL,
    "ollama.com": OLLAMA,
}
_BY_PORT: dict[int, Profile] = {11434: OLLAMA, 8080: _LLAMA_CPP, 1234: _LM_STUDIO, 8000: _VLLM}


def profile_for(base_url: str, switches: SwitchSettings = _NOT_SWITCHED, otherwise: Profile = DEFAULT) -> Profile:
    """The profile of the server at `base_url`, `otherwise` when it is none we know; and what the user switched."""
    try:
        parts = urlsplit(base_url)
        known = _BY_HOST.get(parts.hostname or "") or _BY_PORT.get(parts.port or 0, otherwise)
    except ValueError:
        known = otherwise
    return _switched(known, switches)


def _switched(profile: Profile, switches: SwitchSettings) -> Profile:
    empty_content: Literal[""] | None = profile.empty_content
    if switches.empty_content is not None:
        empty_content = "" if switches.empty_content else None
    omits = profile.omits
    if switches.stream_options is not None:
        omits = omits - {"stream_options"} if switches.stream_options else omits | {"stream_options"}
    return msgspec.structs.replace(
        profile,
        empty_content=empty_content,
        omits=omits,
        merges_roles=_chosen(switches.merge_roles, profile.merges_roles),
        bridges_results=_chosen(switches.bridge_results, profile.bridges_results),
        replays_reasoning=_chosen(switches.replay_reasoning, profile.replays_reasoning),
    )


def _chosen(switch: bool | None, known: bool) -> bool:  # noqa: FBT001  a switch and what it replaces
    return known if switch is None else switch
