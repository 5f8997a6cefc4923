"""Made-up secrets of the well-known formats become a mark wherever they stand; ordinary code stays as it is.

The secrets are put together here, from their beginnings and a made-up rest, so that no file holds anything that looks
like one.
"""

import random
import string
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.docs.pages import ROOT

from tinsmith.domain.redaction import MARK, is_token, may_span_lines, redact

MIXED = string.ascii_letters + string.digits
HEX = string.digits + "abcdef"
CAPITALS = string.ascii_uppercase + string.digits
URL = MIXED + "-_"


def made(*parts: tuple[str, int] | str, seed: int = 0) -> str:
    """Literals, and so many random characters of an alphabet; a capital and a digit are in each long run of letters."""
    chance = random.Random(seed)
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        letters, count = part
        run = [chance.choice(letters) for _ in range(count)]
        if "A" in letters and count >= 8:
            run[1:3] = "7Q"
        text += "".join(run).replace("--", "xx")
    return text


FORMATS = {
    "OpenAI": ("sk-", (MIXED, 48)),
    "OpenAI project": ("sk-proj-", (URL, 120)),
    "Anthropic": ("sk-ant-", "api03-", (URL, 93), "AA"),
    "OpenRouter": ("sk-or-v1-", (MIXED, 64)),
    "DeepSeek": ("sk-", (HEX, 32)),
    "Stripe": ("sk_", "live_", (MIXED, 24)),
    "Stripe restricted": ("rk_", "live_", (MIXED, 24)),
    "Stripe test": ("sk_", "test_", (MIXED, 24)),
    "Stripe webhook": ("whsec_", (MIXED, 32)),
    "GitHub": ("ghp_", (MIXED, 36)),
    "GitHub app": ("ghs_", (MIXED, 36)),
    "GitHub fine-grained": ("github_", "pat_", (MIXED, 22), "_", (MIXED, 59)),
    "GitLab": ("glpat-", (URL, 20)),
    "Slack bot": ("xoxb-", (string.digits, 12), "-", (string.digits, 12), "-", (MIXED, 24)),
    "Slack app": ("xapp-", "1-A", (CAPITALS, 10), "-", (string.digits, 13), "-", (HEX, 64)),
    "Slack webhook": ("hooks.slack.", "com/services/T", (CAPITALS, 9), "/B", (CAPITALS, 9), "/", (MIXED, 24)),
    "Amazon": ("AK", "IA", (CAPITALS, 16)),
    "Amazon session": ("AS", "IA", (CAPITALS, 16)),
    "Google": ("AI", "za", (URL, 35)),
    "Google access": ("ya29", ".", (URL, 60)),
    "Google client": ("GOCSPX", "-", (URL, 28)),
    "Hugging Face": ("hf_", (MIXED, 34)),
    "Groq": ("gsk_", (MIXED, 52)),
    "xAI": ("xai-", (MIXED, 80)),
    "Perplexity": ("pplx-", (MIXED, 48)),
    "Replicate": ("r8_", (MIXED, 37)),
    "NVIDIA": ("nvapi-", (URL, 64)),
    "npm": ("npm_", (MIXED, 36)),
    "PyPI": ("pypi-", "AgEIcHlwaS5vcmc", (URL, 120)),
    "Docker": ("dckr_", "pat_", (URL, 27)),
    "DigitalOcean": ("dop_", "v1_", (HEX, 64)),
    "Databricks": ("dapi", (HEX, 32)),
    "SendGrid": ("SG", ".", (URL, 22), ".", (URL, 43)),
    "Mailgun": ("key-", (HEX, 32)),
    "Twilio": ("SK", (HEX, 32)),
    "Vault": ("hvs", ".", (URL, 90)),
    "Linear": ("lin_", "api_", (MIXED, 40)),
    "Notion": ("ntn_", (MIXED, 46)),
    "Grafana": ("glsa_", (MIXED, 32), "_", (HEX, 8)),
    "Shopify": ("shpat_", (HEX, 32)),
    "Square": ("sq0csp-", (URL, 43)),
    "Supabase": ("sbp_", (HEX, 40)),
    "Sentry": ("sntrys_", (MIXED, 90)),
    "Postman": ("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "Atlassian": ("ATATT", "3", (URL, 180)),
    "Tailscale": ("tskey-", "auth-", (MIXED, 12), "-", (MIXED, 32)),
    "age": ("AGE-SECRET", "-KEY-1", (CAPITALS, 58)),
    "JSON Web Token": ("ey", "J", (URL, 30), ".ey", "J", (URL, 60), ".", (URL, 43)),
}
PLACES = [
    "{}",
    "KEY={}",
    'key = "{}"',
    "Authorization: Bearer {}\n",
    "'{}',",
    "https://x:{}@example.com/",
    "before {}, after",
]
PRIVATE_KEYS = ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_secret_is_marked_wherever_it_stands(name):
    for seed in range(5):
        secret = made(*FORMATS[name], seed=seed)
        assert is_token(secret), secret
        for place in PLACES:
            assert redact(place.format(secret)) == place.format(MARK)
        assert redact(f"{secret}\n{secret}") == f"{MARK}\n{MARK}"


@pytest.mark.parametrize("kind", PRIVATE_KEYS)
def test_a_private_key_is_marked_line_by_line(kind):
    body = "\n".join(made((MIXED, 64), seed=number) for number in range(3))
    key = f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"
    assert redact(f"a\n{key}\nb") == "a\n" + "\n".join([MARK] * 5) + "\nb"
    assert redact(f"a\n{key[:120]}") == "a\n" + "\n".join([MARK] * (key[:120].count("\n") + 1))
    assert may_span_lines(key)


NEARLY = [
    "sk-folding-cube-container-large",
    "sk-spinner-12-dots-animated-wide",
    "task-" + "runner2Q" * 5,
    "hf_hub_download_with_progress_bar_and_retries",
    "npm_config_registry_and_more_names_of_it",
    "xoxo-hugs-and-kisses",
    "AKIA",
    "ghp_short",
    "key-value-pairs-of-a-dictionary-type",
    "SKIP_THIS_TEST_WHEN_THERE_IS_NO_NETWORK",
    "eyJust.eyJoke.notatoken",
    "pypi-publish-action-for-github-workflows",
    "dapi_version_of_the_interface_that_is_used",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "SG.1.2",
]


@pytest.mark.parametrize("text", NEARLY)
def test_what_only_begins_like_a_secret_stays(text):
    assert redact(text) == text


def ordinary_files() -> list[Path]:
    """The standard library's modules without their tests, and this repository, whose tests hold made-up keys."""
    library = Path(sysconfig.get_path("stdlib"))
    left_out = {"test", "tests", "site-packages", "idlelib", "lib2to3"}
    found = [path for path in library.rglob("*.py") if left_out.isdisjoint(path.relative_to(library).parts)]
    for folder in ("server", "clients", "tests", "bench"):
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".lua", ".md"}]
    return [*found, *ROOT.glob("*.md"), ROOT / "pyproject.toml"]


def test_ordinary_code_stays_as_it_is():
    characters, marked = 0, []
    for path in ordinary_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        characters += len(text)
        if redact(text) != text:
            before, after = text.splitlines(), redact(text).splitlines()
            lines = [line for line, other in zip(before, after, strict=True) if line != other]
            marked += [(path.name, line) for line in lines if "PRIVATE KEY-----" not in line]
    assert characters > 5_000_000
    assert marked == []


values = st.text(st.characters(exclude_categories=("Cs",), exclude_characters=MARK), min_size=8, max_size=30)


@given(values, values, values)
def test_known_values_go_whatever_they_are_and_the_lines_stay(secret, before, after):
    text = before + secret + after
    marked = redact(text, [secret])
    assert secret not in marked
    assert MARK in marked
    assert marked.count("\n") == text.count("\n")
