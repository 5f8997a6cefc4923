"""The event splitter against the standard's rules and against httpx-sse."""

from itertools import pairwise

import pytest
from httpx_sse._decoders import SSEDecoder, SSELineDecoder
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.errors import ProtocolError
from tinsmith.llm import sse
from tinsmith.llm.sse import SseSplitter


def split(*chunks: bytes) -> list[bytes]:
    splitter = SseSplitter()
    return [payload for chunk in chunks for payload in splitter.feed(chunk)] + splitter.close()


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\n\r\n", [b"a"]),
        (b"data: a\r\r", [b"a"]),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"data: a\ndata:b\ndata\ndata: c\n\n", [b"a\nb\n\nc"]),
        (b": comment\n:\ndata: a\n: between\ndata: b\n\n:\n\n", [b"a\nb"]),
        (b"event: x\nid: 7\nretry: 5\n\n", []),
        (b"event: x\ndata: a\nid: 7\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"data:\n\n", [b""]),
        (b"", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"database: no\ndata: a\n\n", [b"a"]),
        ("data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(), ["a\u2028b\u2029c\u0085d\x0be\x0cf".encode()]),
        (b"data: \xff\xfe\n\n", [b"\xff\xfe"]),
        (b"<!doctype html>\n<p>data: no</p>\n\n", []),
    ],
)
def test_payloads_whole_and_byte_by_byte(stream: bytes, payloads: list[bytes]) -> None:
    assert split(stream) == payloads
    assert split(*(stream[at : at + 1] for at in range(len(stream)))) == payloads


def test_a_payload_comes_with_the_byte_that_completes_it() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\n") == [b"a"]
    assert splitter.feed(b"data: b\r\n\r") == [b"b"]
    assert splitter.feed(b"\ndata: c\n\n") == [b"c"]
    assert splitter.close() == []


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_EVENT_LIMIT", 1000)
    splitter = SseSplitter()
    for _ in range(20):
        splitter.feed(b"data: " + b"x" * 900 + b"\n\n")
    with pytest.raises(ProtocolError) as refused:
        for _ in range(20):
            splitter.feed(b"data: " + b"x" * 90 + b"\n")
    assert refused.value.code == "eventTooLarge"


PIECES = st.sampled_from(
    [
        b"data:",
        b"data: ",
        b"data",
        b":",
        b": ping",
        b"event: e",
        b"id",
        b" ",
        b"x",
        "é🚀\u2028".encode(),
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=12))
def test_any_split_gives_the_same_payloads(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert split(*(stream[start:end] for start, end in pairwise(edges))) == split(stream)


@given(STREAMS)
def test_agrees_with_httpx_sse(stream: bytes) -> None:
    closed = stream + b"\n\n"
    lines, decoder = SSELineDecoder(), SSEDecoder()
    events = [decoder.decode(line) for line in [*lines.decode(closed.decode()), *lines.flush()]]
    assert [payload for payload in split(closed) if payload] == [
        event.data.encode() for event in events if event and event.data
    ]
