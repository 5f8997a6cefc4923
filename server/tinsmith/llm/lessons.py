"""What a refusal teaches about its server: the profile with which the same request is worth making once more. Pure."""

import re
from typing import Any, cast

import msgspec

from tinsmith.llm.profiles import Profile

_ABOUT_THE_BODY = frozenset({400, 422})
_OPTIONAL: dict[str, tuple[str, ...]] = {
    "stream_options": ("include_usage",),
    "prompt_cache_key": (),
    "cache_control": (),
    "output_config": ("effort",),
    "reasoning_effort": (),
    "reasoning_content": (),
    "reasoning_details": (),
    "include": ("encrypted content", "encrypted_content"),
    "reasoning": (),
    "summary": ("reasoning summaries",),
    "thinking": (),
    "think": ("support thinking",),
    "temperature": (),
}
"""Fields that a request does well without, with other words that refusals use for them."""
_UNWANTED = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|unexpected|extra|invalid(?!_request)"
    r"|(not|n't) (be )?(permit(ted)?|support(ed)?|allow(ed)?|accept(ed)?)\b",
    re.IGNORECASE,
)
_BLIND = re.compile(
    r"(does(n't| not)|that) support (image|vision|multimodal)|not a multimodal model|at most 0 image"
    r"|image(s|_url)?( inputs?)?( is| are|:)? (not|only) (supported|enabled|allowed)|missing data required for image"
    r"|unknown variant `image|content must be a string",
    re.IGNORECASE,
)
"""As they say that a model takes no images: OpenRouter, vLLM, llama.cpp, OpenAI, Mistral, Ollama, DeepSeek, Groq."""
_IMAGES = (b'"image_url"', b'"input_image"', b'"type":"image"', b'"images":')
_STRICT_TEMPLATE = re.compile(
    r"roles must alternate|must alternate between|unexpected role '?user'? after role '?tool|after role '?tool",
    re.IGNORECASE,
)


def learn(status: int, refusal: bytes, body: bytes, profile: Profile) -> Profile | None:
    """The profile after this refusal of a request with this body, None when it teaches nothing."""
    text = refusal.decode("utf-8", "replace")
    if _STRICT_TEMPLATE.search(text) and not (profile.merges_roles and profile.bridges_results):
        return msgspec.structs.replace(profile, merges_roles=True, bridges_results=True)
    if profile.sees_images and _BLIND.search(text) and any(mark in body for mark in _IMAGES):
        return msgspec.structs.replace(profile, sees_images=False)
    if status not in _ABOUT_THE_BODY:
        return None
    parameter = _parameter(refusal)
    first, _, last = parameter.rpartition(".")
    blamed = last if last in _OPTIONAL else first.partition(".")[0]
    if profile.limit_field in {parameter, *_named(text, (profile.limit_field,))} and _UNWANTED.search(text):
        other = "max_completion_tokens" if profile.limit_field == "max_tokens" else "max_tokens"
        if other in text and _has(body, profile.limit_field):
            return msgspec.structs.replace(profile, limit_field=other)
    unwanted = {
        name
        for name, others in _OPTIONAL.items()
        if _has(body, name) and (blamed == name or _is_unwanted(text, (name, *others)))
    }
    return msgspec.structs.replace(profile, omits=profile.omits | unwanted) if unwanted else None


def _is_unwanted(text: str, names: tuple[str, ...]) -> bool:
    """A name that no sentence holds by chance is enough; a plain word must come with a word of refusal."""
    found = _named(text, names)
    return any("_" in name or _UNWANTED.search(text) for name in found)


def _named(text: str, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", text, re.IGNORECASE)]


def _has(body: bytes, name: str) -> bool:
    """Whether a request has this field at any depth; in texts of its messages the quotes would be escaped."""
    return f'"{name}":'.encode() in body


def _parameter(refusal: bytes) -> str:
    """`error.param`, as OpenAI and many after it name the field that they refuse."""
    try:
        value: Any = msgspec.json.decode(refusal)
    except (msgspec.DecodeError, RecursionError):
        return ""
    error: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    parameter: Any = cast("dict[str, Any]", error).get("param") if isinstance(error, dict) else None
    return parameter if isinstance(parameter, str) else ""
