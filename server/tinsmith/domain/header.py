"""Headers that a person adds to the requests to a provider. Secrets in them are named by their variables. Pure."""

import re
from collections.abc import Iterable, Mapping

from tinsmith.domain.errors import TransportError
from tinsmith.domain.redaction import MARK, redact

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_SECRET_NAME = re.compile(r"auth|cookie|key|passw|secret|token", re.IGNORECASE)
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""What the dialect and HTTP itself need as they are."""


def find_fault(name: str, text: str) -> str:
    """What is wrong with a header, as `must …`; empty when nothing is. The text is not quoted."""
    if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
        return "must have the name of a header that is not Tinsmith's own"
    if not text.isascii() or not text.isprintable():
        return "must be printable ASCII"
    is_bare = is_secret(name) and not _VARIABLE.search(text)
    if is_bare or MARK in redact(text):
        return "must name the variable that holds the secret, such as ${MY_KEY}, and not the secret itself"
    return ""


def is_secret(name: str) -> bool:
    """Whether the header of this name makes somebody known to a server."""
    return _SECRET_NAME.search(name) is not None


def variables_of(texts: Iterable[str]) -> frozenset[str]:
    """The variables that are named in these texts."""
    return frozenset(name for text in texts for name in _VARIABLE.findall(text))


def fill(headers: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The headers by lower-case names, with the values of the variables in place of their names.

    Raises TransportError `authRequired` for a variable that is not set, or whose value no header can have.
    """
    return {name.lower(): _filled(name, text, environment) for name, text in headers.items()}


def _filled(name: str, text: str, environment: Mapping[str, str]) -> str:
    for variable in sorted(variables_of([text])):
        value = environment.get(variable, "").strip()
        if not value or not value.isascii() or not value.isprintable():
            message = (
                f"The header {name} of llm_config.headers needs the variable {variable}, and it is not set or holds"
                " line breaks. Set it and start again."
            )
            raise TransportError("authRequired", message, origin="llm")
        text = text.replace(f"${{{variable}}}", value)
    return text
