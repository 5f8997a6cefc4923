"""Redaction: known secret values and common token shapes become a mark. Pure."""

import re
from collections.abc import Iterable

MARK = "«redacted»"
"""Stands where a secret stood. A line that holds it counts as not shown, and no edit may contain it."""

_KEY_BEGIN = "-----BEGIN "
_BEFORE = r"(?<![A-Za-z0-9])"
_MIXED = r"(?=[A-Za-z_-]*[0-9])(?=[a-z0-9_-]*[A-Z])"
"""A digit and a capital are in it: of the names with hyphens that begin like tokens, few have both."""
_LETTERS, _WORDS = "[A-Za-z0-9]", "[A-Za-z0-9_-]"
_BEGINNINGS: tuple[tuple[str, str], ...] = (
    ("sk-", rf"(?:{_LETTERS}{{20,}}(?!{_WORDS})|{_MIXED}{_WORDS}{{20,}})"),  # OpenAI, Anthropic, DeepSeek, …
    ("sk_live_", rf"{_LETTERS}{{20,}}"),  # Stripe, as the next three
    ("rk_live_", rf"{_LETTERS}{{20,}}"),
    ("sk_test_", rf"{_LETTERS}{{20,}}"),
    ("whsec_", rf"{_LETTERS}{{24,}}"),
    *((f"gh{kind}_", rf"{_LETTERS}{{36,}}") for kind in "pousr"),
    ("github_pat_", r"[A-Za-z0-9_]{40,}"),
    ("glpat-", rf"{_WORDS}{{20,}}"),
    ("xox", r"[abeprs]-[A-Za-z0-9-]{10,}"),  # Slack, as the next two
    ("xapp-", r"[0-9]-[A-Za-z0-9-]{20,}"),
    ("hooks.slack.com/services/", r"T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{20,}"),
    ("AKIA", rf"[0-9A-Z]{{16}}(?!{_LETTERS})"),  # Amazon
    ("ASIA", rf"[0-9A-Z]{{16}}(?!{_LETTERS})"),
    ("AIza", rf"{_WORDS}{{35}}"),  # Google
    ("ya29.", rf"{_WORDS}{{30,}}"),
    ("GOCSPX-", rf"{_WORDS}{{20,}}"),
    ("hf_", rf"{_LETTERS}{{30,}}"),
    ("gsk_", rf"{_LETTERS}{{40,}}"),  # Groq
    ("xai-", rf"{_LETTERS}{{40,}}"),
    ("pplx-", rf"{_LETTERS}{{40,}}"),
    ("r8_", rf"{_LETTERS}{{37}}"),  # Replicate
    ("nvapi-", rf"{_WORDS}{{40,}}"),
    ("npm_", rf"{_LETTERS}{{36}}"),
    ("pypi-", rf"{_WORDS}{{50,}}"),
    ("dckr_pat_", rf"{_WORDS}{{20,}}"),
    ("dop_v1_", r"[0-9a-f]{64}"),  # DigitalOcean
    ("dapi", rf"[0-9a-f]{{32}}(?!{_LETTERS})"),  # Databricks
    ("SG.", rf"{_WORDS}{{22}}\.{_WORDS}{{43}}"),  # SendGrid
    ("key-", rf"[0-9a-f]{{32}}(?!{_WORDS})"),  # Mailgun
    ("SK", rf"[0-9a-f]{{32}}(?!{_LETTERS})"),  # Twilio
    ("hvs.", rf"{_WORDS}{{24,}}"),  # Vault
    ("lin_api_", rf"{_LETTERS}{{32,}}"),  # Linear
    ("ntn_", rf"{_LETTERS}{{40,}}"),  # Notion
    ("glsa_", rf"{_LETTERS}{{32}}_[0-9a-f]{{8}}"),  # Grafana
    ("shpat_", r"[0-9a-fA-F]{32}"),  # Shopify
    ("sq0csp-", rf"{_WORDS}{{43}}"),  # Square
    ("sbp_", r"[0-9a-f]{40}"),  # Supabase
    ("sntrys_", r"[A-Za-z0-9+/=_]{50,}"),  # Sentry
    ("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
    ("ATATT3", r"[A-Za-z0-9_=-]{60,}"),  # Atlassian
    ("tskey-", rf"[a-z]+-{_LETTERS}+-{_LETTERS}{{20,}}"),  # Tailscale
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    ("eyJ", rf"{_WORDS}{{10,}}\.eyJ{_WORDS}{{10,}}\.{_WORDS}{{10,}}"),  # JSON Web Token
)
_SHAPES: tuple[tuple[str, str], ...] = tuple(
    (literal, f"{_BEFORE}{re.escape(literal)}{rest}") for literal, rest in _BEGINNINGS
)
"""A literal that every match begins with, looked for first because that is a hundred times cheaper, and the shape."""
_KEY = r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
_SHORTEST_TOKEN = 15
_IN_TOKENS = bytes(
    code if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-./+=") else ord(" ") for code in range(256)
)

SHORTEST_VALUE = 8
"""Shorter values are words as often as secrets, and a marked word would make ordinary files unreadable."""


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with each of `secrets` and each token shape replaced by MARK. The number of lines stays."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, _marks(secret))
    long = _long_runs(text)
    for literal, shape in _SHAPES:
        if literal in long:
            text = _without(text, literal, re.compile(shape))
    if _KEY_BEGIN in text:
        text = _without(text, _KEY_BEGIN, re.compile(_KEY))
    return text


def may_span_lines(text: str, secrets: Iterable[str] = ()) -> bool:
    """Whether something that is to be marked may go over several lines, so that no line can be redacted alone."""
    return _KEY_BEGIN in text or any("\n" in secret and secret in text for secret in secrets)


def is_token(value: str) -> bool:
    """Whether the whole value has the shape of a token."""
    return any(literal in value and re.fullmatch(shape, value) for literal, shape in _SHAPES)


def is_distinctive(value: str) -> bool:
    """Whether a known secret value can be told from ordinary words, so that replacing it does no harm.

    Keys for servers that want none (`ollama`, `not-needed`) are words.
    """
    return len(value) >= SHORTEST_VALUE and (len(value) >= 20 or any(character.isdigit() for character in value))


def _long_runs(text: str) -> str:
    """What could be tokens, by length alone: a tenth of ordinary code, in which forty literals are soon looked for."""
    runs = text.encode("utf-8", "replace").translate(_IN_TOKENS).split()
    return b" ".join([run for run in runs if len(run) >= _SHORTEST_TOKEN]).decode()


def _without(text: str, literal: str, shape: re.Pattern[str]) -> str:
    """The text with every match replaced; tried only where the literal stands, since a search looks at each letter."""
    parts: list[str] = []
    done, at = 0, text.find(literal)
    while at >= 0:
        match = shape.match(text, at)
        if match:
            parts += (text[done:at], _marks(match.group()))
            done = match.end()
        at = text.find(literal, match.end() if match else at + 1)
    return "".join([*parts, text[done:]])


def _marks(secret: str) -> str:
    return "\n".join([MARK] * (secret.count("\n") + 1))
