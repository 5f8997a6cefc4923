"""Bytes and text: exact both ways, one idea of a line, one hash for buffer and disk."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.errors import ToolError
from tinsmith.workspace.text import decode, dominant_eol, encode, line_starts, lines_of, numbered, text_hash

texts = st.text(alphabet=st.sampled_from("ab\r\n\f\v\x1c\x85\u2028é🚀"), max_size=40)


@given(texts, st.sampled_from([(False, "utf-8"), (True, "utf-8"), (True, "utf-16-le"), (True, "utf-16-be")]))
def test_decode_is_the_inverse_of_encode(text, form):
    has_bom, encoding = form
    content = encode(text, has_bom, encoding)
    snapshot = decode("f", content)
    assert (snapshot.text, snapshot.has_bom, snapshot.encoding, snapshot.is_editable) == (text, has_bom, encoding, True)
    assert encode(snapshot.text, snapshot.has_bom, snapshot.encoding) == content


@given(texts)
def test_only_newlines_end_a_line(text):
    lines, starts = lines_of(text), line_starts(text)
    ends = [text[start:end] for start, end in pairwise(starts)]
    assert "".join(ends) == text
    assert [end.removesuffix("\n").removesuffix("\r") if end.endswith("\n") else end for end in ends] == lines
    assert all("\n" not in line for line in lines)


@given(texts)
def test_the_hash_is_the_same_whatever_the_line_ends(text):
    unix = text.replace("\r", "")
    assert text_hash(unix.replace("\n", "\r\n")) == text_hash(unix)
    content = unix.encode("utf-16-le")
    assert decode("f", b"\xff\xfe" + content).hash == text_hash(unix)


def test_the_hash_is_sixteen_digits_of_sha256():
    assert text_hash("a\r\nb") == hashlib.sha256(b"a\nb").hexdigest()[:16]


def test_a_lone_carriage_return_stays_in_its_line():
    assert lines_of("a\rb\r\nc\r") == ["a\rb", "c\r"]


@pytest.mark.parametrize(
    ("text", "eol"),
    [("", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\nb\nc\r\n", "\n"), ("a\r\nb\n", "\r\n"), ("a\nb\r\n", "\n")],
)
def test_new_lines_get_what_most_lines_have(text, eol):
    assert dominant_eol(text) == eol


def test_other_encodings_are_readable_only():
    snapshot = decode("f", b"caf\xe9\n")
    assert (snapshot.text, snapshot.is_editable) == ("caf\ufffd\n", False)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image"),
        (b"RIFF\0\0\0\0WEBP", "WEBP image"),
        (b"header\n" * 400 + b"\0\xff\0\xfe", "unknown"),
        (b"\xff\xfe\0\0a\0\0\0", "unknown"),
        (bytes(range(1, 32)) + b"\xff\xff", "unknown"),
    ],
)
def test_what_is_no_text_is_refused_with_kind_and_size(content, kind):
    with pytest.raises(ToolError) as refusal:
        decode("f", content)
    assert (refusal.value.code, refusal.value.data) == ("binary", {"bytes": len(content), "kind": kind})


def test_numbers_stand_before_a_tab():
    assert numbered(["a", "b"], 9) == "    9\ta\n   10\tb\n"
