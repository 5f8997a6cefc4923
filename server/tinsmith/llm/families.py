"""What is known of families of models whose providers do not list the sizes. Pure."""

import re

# Sources: each maker's page of its models. Where a family differs, its smallest; where input is limited apart, that.
_WINDOWS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(rf"(?:^|[/.]){pattern}"), tokens)
    for pattern, tokens in (
        (r"gpt-5[\w.-]*chat", 128_000),
        (r"gpt-5", 272_000),
        (r"gpt-4\.1", 1_047_576),
        (r"gpt-4(o|-turbo)|chatgpt-4o", 128_000),
        (r"gpt-4(-\d{4})?$", 8_192),
        (r"gpt-3\.5-turbo", 16_385),
        (r"gpt-oss", 131_072),
        (r"o1-(mini|preview)", 128_000),
        (r"(o1|o3|o4-mini)(-|$)", 200_000),
        (r"claude-2", 100_000),
        (r"claude-", 200_000),
        (r"gemini-[\w.]+-(pro|flash)", 1_048_576),
        (r"deepseek-(chat|reasoner|v3|r1)", 128_000),
        (r"grok-(4|code)", 256_000),
        (r"grok-3", 131_072),
        (r"codestral", 256_000),
        (r"(mistral-(large|medium|small)|devstral)", 128_000),
        (r"kimi-k2", 131_072),
        (r"glm-4\.6", 200_000),
        (r"glm-4\.5", 131_072),
        (r"qwen3-coder", 262_144),
        (r"(meta-)?llama-?3\.[123]", 131_072),
    )
)


def known_window(model_id: str) -> int | None:
    """Tokens of the model's context by its family; None for a model of no known one. Prefixes and `/` do not matter."""
    name = model_id.lower()
    return next((tokens for pattern, tokens in _WINDOWS if pattern.search(name)), None)
