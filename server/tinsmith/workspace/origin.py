"""The address that a repository was cloned from: one text for all ways to write it, and without secrets. Pure."""

import os
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_WITH_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SHORT = re.compile(r"(?:([^@/\s]+)@)?(\[[0-9A-Fa-f:.]+\]|[^:/\s]{2,}):(?!//)(.*)")
"""`user@host:path`, the short form of ssh addresses (git-clone(1)); one letter before the colon is a drive."""
_PORTS = {"https": 443, "http": 80, "git": 9418}


def normalized_origin(address: str, root: str) -> str:
    """`host/path`, or `/path` for a folder; a relative one counts from `root`. Empty for what is no address.

    Scheme, user, `.git`, slashes at the end and an ssh port are left out: who asks and how is no part of what
    is asked for. Other ports than the scheme's own stay. The host is in lower case, the path as it was.
    """
    parts = _parts(address.strip())
    if parts.scheme == "file":
        folder = os.path.normpath(os.path.join(root, parts.path))
        return folder.removesuffix("/.git").removesuffix(".git")
    if not parts.host:
        return ""
    is_usual = parts.port is None or parts.scheme == "ssh" or parts.port == _PORTS.get(parts.scheme)
    path = parts.path.strip("/").removesuffix(".git").rstrip("/")
    return f"{parts.host}{'' if is_usual else f':{parts.port}'}/{path}"


def without_secrets(address: str) -> str:
    """The address without password, token and query; a bare user name of ssh stays."""
    if short := _SHORT.fullmatch(address):
        return address if ":" not in (short[1] or "") else f"{short[2]}:{short[3]}"
    if not (scheme := _WITH_SCHEME.match(address)):
        return address
    authority, slash, path = address[scheme.end() :].partition("/")
    user, _, host = authority.rpartition("@")
    is_plain = scheme[1].lower().endswith("ssh") and user and ":" not in user
    path = re.split(r"[?#]", path, maxsplit=1)[0]
    return f"{scheme[0]}{f'{user}@' if is_plain else ''}{host}{slash}{path}"


class _Parts(NamedTuple):
    """Scheme `file` and no host for a folder; all empty for what is no address."""

    scheme: str = ""
    host: str = ""
    port: int | None = None
    path: str = ""


def _parts(address: str) -> _Parts:
    if _WITH_SCHEME.match(address):
        try:
            split = urlsplit(address)
            host, port = split.hostname or "", split.port
        except ValueError:
            return _Parts()
        scheme = "ssh" if split.scheme.endswith("ssh") else split.scheme
        return _Parts(scheme, f"[{host}]" if ":" in host else host, port, unquote(split.path))
    if short := _SHORT.fullmatch(address):
        return _Parts("ssh", short[2].lower(), None, short[3])
    return _Parts("file", path=address) if address else _Parts()
