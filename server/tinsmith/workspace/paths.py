"""The gate that every path of a tool goes through, and paths as URIs."""

import json
import os
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from tinsmith.domain.errors import ToolError

_SECRET_NAME = re.compile(
    r"\.env.*|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|gpg|asc)|id_(rsa|dsa|ecdsa|ed25519)(?!.*\.pub$).*"
    r"|\.netrc|\.pgpass|\.pypirc|\.npmrc|\.git-credentials|\.htpasswd|credentials(\.json)?|service[-_]account.*\.json",
    re.IGNORECASE,
)
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube"})
_DRIVE = re.compile(r"/([A-Za-z]):(?=/|$)")
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|untitled:")
_UNESCAPED = "/-._~!$&'()*+,;=@"


class Place(NamedTuple):
    """Where a path leads.

    `path` is absolute with every symlink resolved, `given` absolute as it was named, `shown` relative inside the
    workspace and absolute outside: what the model, rules and people see.
    """

    path: str
    given: str
    shown: str
    is_outside: bool
    is_secret: bool


def locate(path: str, root: str, open_folders: Sequence[str] = ()) -> Place:
    """The place that a path or `file:` URI names; relative ones start at the workspace root. Looks at the disk.

    `open_folders` count as inside: our own, that tools are told to read. Raises ToolError `badPath`.
    """
    of_uri = path_of_uri(path)
    if of_uri is None and _URI.match(path):
        raise ToolError(
            "badPath", f"{path!r} is neither a file nor a document that is open in the editor. Name a file by its path."
        )
    named = os.path.expanduser(path) if of_uri is None else of_uri
    if not named or "\0" in named:
        raise ToolError("badPath", f"{path!r} is no path. Name a file relative to the workspace root or absolutely.")
    given = os.path.normpath(os.path.join(root, named))
    try:
        real, real_root = os.path.realpath(os.path.join(root, named)), os.path.realpath(root)
    except OSError as error:
        raise ToolError("badPath", f"{path!r} cannot be followed ({error.strerror}). Name another path.") from error
    is_inside = is_within(real, real_root)
    return Place(
        path=real,
        given=given,
        shown=printable(os.path.relpath(real, real_root) if is_inside else real),
        is_outside=not is_inside and not any(is_within(real, os.path.realpath(folder)) for folder in open_folders),
        is_secret=is_secret(real) or is_secret(given),
    )


def unfiled(uri: str) -> Place:
    """The place of an open document that has no file, such as VS Code's `untitled:Untitled-1`. Pure."""
    return Place(path=uri, given=uri, shown=printable(uri), is_outside=False, is_secret=is_secret(uri))


def has_file(path: str) -> bool:
    """Whether a place's path leads to the disk; the URI of a document that was never saved does not. Pure."""
    return os.path.isabs(path)


def twin_of(path: str) -> str | None:
    """What is there under a name that differs from this missing path only in case or in the form of its characters.

    Many file systems and people take both for one. Looks at the disk: at the first folder where something is missing.
    """
    folder, name = os.path.split(path)
    while name and not os.path.lexists(folder):
        folder, name = os.path.split(folder)
    wanted = _folded(name)
    try:
        return next((os.path.join(folder, each) for each in os.listdir(folder) if _folded(each) == wanted), None)
    except OSError:
        return None


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def is_within(path: str, folder: str) -> bool:
    """Whether a resolved path is the folder or below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_secret(path: str) -> bool:
    """Whether the name says that secrets are inside: `.env*`, keys, certificates, credentials."""
    *folders, name = path.split(os.sep)
    return _SECRET_NAME.fullmatch(name) is not None or not _SECRET_FOLDERS.isdisjoint(folders)


def printable(path: str) -> str:
    """The path with bytes that are no UTF-8 as replacement marks, for text that is stored and sent."""
    return os.fsencode(path).decode("utf-8", "replace")


def listed(path: str) -> str:
    r"""The path as lists show it: quoted as in JSON when it has a `:`, a quote, a control character or outer spaces."""
    name = printable(path)
    is_plain = name.isprintable() and ":" not in name and '"' not in name and name == name.strip()
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def path_of_uri(uri: str) -> str | None:
    r"""The path that a `file:` URI names, None for every other scheme and for a name that no path can have. Pure.

    Percent-encoded or not, upper or lower case drive: each form of one file gives one path (RFC 8089, and
    what editors send). `file:///C%3A/x` is `c:\x`, a host becomes a `//host/` path.
    """
    scheme, _, rest = uri.partition(":")
    if scheme.lower() != "file":
        return None
    rest = rest.split("#", 1)[0].split("?", 1)[0]
    host, encoded = "", rest
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        encoded = slash + tail
    path = os.fsdecode(unquote_to_bytes(encoded.encode("utf-8", "replace")))
    if "\0" in path:
        return None
    if host and host.lower() != "localhost":
        return f"//{host}{path}"
    drive = _DRIVE.match(path)
    if drive is None:
        return path
    return f"{drive[1].lower()}:{path[drive.end() :] or '/'}".replace("/", "\\")


def uri_of_path(path: str) -> str:
    """The `file:` URI of an absolute path, percent-encoded as VS Code does it. Pure; the inverse of `path_of_uri`.

    What has no file is named by its URI already.
    """
    if not has_file(path) and not _WINDOWS_PATH.match(path):
        return path
    if _WINDOWS_PATH.match(path):
        path = "/" + path[0].lower() + path[1:].replace("\\", "/")
    elif path.startswith("//"):
        return "file:" + quote_from_bytes(os.fsencode(path), _UNESCAPED)
    return "file://" + quote_from_bytes(os.fsencode(path), _UNESCAPED)
