"""Redaction: known secret values and common token shapes become a mark. Pure."""

import re
from collections.abc import Iterable

MARK = "«redacted»"
"""Stands where a secret stood. A line that holds it counts as not shown, and no edit may contain it."""

_SHAPES: tuple[tuple[str, str], ...] = (
    ("sk-", r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"),
    ("sk_live_", r"(?<![A-Za-z0-9])sk_live_[A-Za-z0-9]{20,}"),
    *((f"gh{kind}_", rf"(?<![A-Za-z0-9])gh{kind}_[A-Za-z0-9]{{36,}}") for kind in "pousr"),
    ("github_pat_", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{40,}"),
    ("glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}"),
    ("xox", r"(?<![A-Za-z0-9])xox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("AKIA", r"(?<![A-Za-z0-9])AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("ASIA", r"(?<![A-Za-z0-9])ASIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("AIza", r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{35}"),
    ("hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}"),
    ("npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}"),
    ("pypi-", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{50,}"),
    ("eyJ", r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("PRIVATE KEY-----", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
)
"""A literal that every match contains, looked for first because that is a hundred times cheaper, and the shape."""

SHORTEST_VALUE = 8
"""Shorter values are words as often as secrets, and a marked word would make ordinary files unreadable."""


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with each of `secrets` and each token shape replaced by MARK. The number of lines stays."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, _marks(secret))
    for literal, shape in _SHAPES:
        if literal in text:
            text = re.sub(shape, lambda match: _marks(match.group()), text)
    return text


def is_token(value: str) -> bool:
    """Whether the whole value has the shape of a token."""
    return any(literal in value and re.fullmatch(shape, value) for literal, shape in _SHAPES)


def is_distinctive(value: str) -> bool:
    """Whether a known secret value can be told from ordinary words, so that replacing it does no harm.

    Keys for servers that want none (`ollama`, `not-needed`) are words.
    """
    return len(value) >= SHORTEST_VALUE and (len(value) >= 20 or any(character.isdigit() for character in value))


def _marks(secret: str) -> str:
    return "\n".join([MARK] * (secret.count("\n") + 1))
