"""Which files hold a line that matches, and how many such lines: by ripgrep where it helps, else by our own reading.

Both give the same answer: which files are looked at is decided before, and expressions are such that both agree.
A text is whatever holds no NUL, after UTF-16 with a BOM was decoded. Blocking.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from tinsmith.domain.errors import ToolError
from tinsmith.proc.execute import Executed, execute
from tinsmith.workspace.descriptors import open_resolved
from tinsmith.workspace.files import MAX_FILE_BYTES
from tinsmith.workspace.listing import Listing
from tinsmith.workspace.paths import is_within
from tinsmith.workspace.pattern import Matcher

_WORTH_A_PROCESS = 300
"""Files that we have read by the time another program has started."""
_OLDEST_RIPGREP = (13, 0)
_TIMEOUT = 60.0
_OUTPUT_BYTES = 64_000_000
_READ_BYTES = 1 << 16
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_UTF8_BOM = b"\xef\xbb\xbf"
_COUNT = re.compile(rb"\./([^\0]+)\0(\d+)\n")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_./\x80-\xff-]")


def search(
    listing: Listing,
    files: Sequence[str],
    texts: Mapping[str, str],
    matcher: Matcher,
    check: Callable[[], None],
    *,
    ripgrep: str | None,
) -> dict[str, int]:
    """In how many lines of each file something was found, by path below the listing's folder.

    `files` are searched on disk, `texts` as they are given. `check` is called often and may raise to stop.
    """
    found = None
    if ripgrep and matcher.ripgrep and len(files) >= _WORTH_A_PROCESS:
        found = _by_ripgrep(ripgrep, listing, files, matcher, check)
    if found is None:
        found = _by_reading(listing.folder, files, matcher, check)
    for path, text in texts.items():
        if count := _count(content_of_text(text), matcher):
            found[path] = count
    return found


def holding(
    listing: Listing,
    files: Sequence[str],
    matcher: Matcher,
    check: Callable[[], None],
    *,
    ripgrep: str | None,
) -> set[str]:
    """Those of the files on disk where something is found. As `search`, but a file is left at its first match."""
    found = None
    if ripgrep and matcher.ripgrep and len(files) >= _WORTH_A_PROCESS:
        found = _by_ripgrep(ripgrep, listing, files, matcher, check)
    if found is not None:
        return set(found)
    held: set[str] = set()
    for path in files:
        check()
        content = content_of_file(os.path.join(listing.folder, path))
        if content is not None and next(matching_lines(ready(content, matcher), matcher), None):
            held.add(path)
    return held


def find_ripgrep(root: str) -> str | None:
    """The `rg` on the PATH, when it is new enough and the workspace did not bring it."""
    found = shutil.which("rg")
    if found is None or not os.path.isabs(found) or is_within(os.path.realpath(found), root):
        return None
    return found if _ripgrep_version(found) >= _OLDEST_RIPGREP else None


def content_of_file(path: str) -> bytes | None:
    """A text file's bytes as UTF-8 without BOM, None for what is not searched, also when the path holds a symlink."""
    try:
        descriptor = open_resolved(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        chunks = [os.read(descriptor, _READ_BYTES)]
        while len(chunks[-1]) >= _READ_BYTES and sum(map(len, chunks)) <= MAX_FILE_BYTES:
            chunks.append(os.read(descriptor, MAX_FILE_BYTES + 1))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    content = b"".join(chunks)
    if len(content) > MAX_FILE_BYTES:
        return None
    if encoding := _UTF16.get(content[:2]):
        content = content[2:].decode(encoding, "replace").encode("utf-8", "replace")
    return None if b"\0" in content else content.removeprefix(_UTF8_BOM)


def content_of_text(text: str) -> bytes:
    """An open document as bytes to search in."""
    return text.encode("utf-8", "replace")


def matching_lines(content: bytes, matcher: Matcher) -> Iterator[tuple[int, int]]:
    """Where each matching line's first match begins and ends, in bytes of a content that was made ready."""
    at = 0
    while match := matcher.line.search(content, at):
        start, end = match.start(), match.end()
        if start == len(content) and (not content or content.endswith(b"\n")):
            return
        yield start, end
        line_end = content.find(b"\n", end)
        if line_end < 0:
            return
        at = line_end + 1


def ready(content: bytes, matcher: Matcher) -> bytes:
    r"""The content as the matcher wants it: without `\r\n` when it knows nothing of that."""
    return content if matcher.ripgrep else content.replace(b"\r\n", b"\n")


def _count(content: bytes | None, matcher: Matcher) -> int:
    return 0 if content is None else sum(1 for _ in matching_lines(ready(content, matcher), matcher))


def _by_reading(folder: str, files: Sequence[str], matcher: Matcher, check: Callable[[], None]) -> dict[str, int]:
    found: dict[str, int] = {}
    prefix = os.path.join(folder, "")
    for path in files:
        check()
        if count := _count(content_of_file(prefix + path), matcher):
            found[path] = count
    return found


def _by_ripgrep(
    ripgrep: str, listing: Listing, files: Sequence[str], matcher: Matcher, check: Callable[[], None]
) -> dict[str, int] | None:
    """As `_by_reading`, None when ripgrep gave up.

    It is told what to pass over, and what it finds beyond that is dropped. Files that it cannot read make it exit
    with 2; an expression that it refuses does so too, but writes nothing.
    """
    assert matcher.ripgrep is not None
    wanted = set(files)
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(prefix="tinsmith-", suffix=".ignore") as rules:
        rules.write(b"".join(map(_rule, listing.passed_over)))
        rules.flush()
        options = [
            *(ripgrep, "--no-config", "--no-ignore", "--hidden", "--ignore-file", rules.name, "--no-messages"),
            *("--no-mmap", "--color=never", f"--max-filesize={MAX_FILE_BYTES}", "--null"),
            "--ignore-case" if matcher.ignores_case else "--case-sensitive",
        ]
        written = _run([*options, "--count", "-e", matcher.ripgrep, "--", "./"], listing.folder, check)
        if written and (written.code in {0, 1} or written.output):
            return {path: count for path, count in _counts(written.output) if path in wanted}
    return None


def _counts(output: bytes) -> Iterator[tuple[str, int]]:
    r"""Path and count from `./path\0count\n` again and again."""
    for path, count in _COUNT.findall(output):
        yield os.fsdecode(path), int(count)


def _rule(path: str) -> bytes:
    """An ignore rule for exactly this path; none for one that no rule can name for certain."""
    if not path.isprintable() or path.rstrip("/") != path.rstrip("/").rstrip():
        return b""
    return b"/" + _UNSAFE.sub(rb"\\\g<0>", path.encode()) + b"\n"


@cache
def _ripgrep_version(path: str) -> tuple[int, ...]:
    written = _run([path, "--version"], "/", lambda: None)
    found = re.match(rb"ripgrep (\d+)\.(\d+)", written.output) if written else None
    return tuple(map(int, found.groups())) if found else ()


def _run(arguments: Sequence[str], folder: str, check: Callable[[], None]) -> Executed | None:
    """None when it cannot be started, takes too long or writes too much."""
    with contextlib.suppress(ToolError):
        done = execute(arguments, cwd=folder, environment={}, timeout=_TIMEOUT, limit=_OUTPUT_BYTES, check=check)
        return None if done.is_cut else done
    return None
