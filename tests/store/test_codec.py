"""Keys keep apart what differs, keep order and stay short; records survive whatever text they hold."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinsmith.domain.errors import PersistenceError, SchemaError
from tinsmith.store.codec import (
    SEGMENT_LIMIT,
    clean_text,
    decode_record,
    encode_key,
    encode_record,
    last_segment,
    span_below,
)

any_text = st.text(st.characters(exclude_categories=()), max_size=200)
ids = any_text.filter(lambda text: text and ":" not in text)
keys = st.tuples(ids, ids, any_text)
short = st.text(st.characters(exclude_categories=()), max_size=25)


class Row(msgspec.Struct, frozen=True):
    text: str
    labels: dict[str, str] = {}
    lines: tuple[str, ...] = ()


@given(keys, keys)
@example(("a", "b", "x" * 600), ("a", "b", "x" * 599 + "y"))
@example(("a", "b", "x" * 600), ("a", "b", encode_key("x" * 600).decode()))
@example(("a", "b", "c:d"), ("a", "b", "c:e"))
def test_keys_are_short_and_distinct(first, second):
    encoded = encode_key(*first), encode_key(*second)
    assert max(map(len, encoded)) <= 511
    assert (encoded[0] == encoded[1]) == (first == second)


@given(ids, ids, ids, any_text)
def test_the_longest_shape_of_a_key_fits(first, second, third, last):
    assert len(encode_key(first, second, third, last)) <= 511


@given(ids, short, short)
def test_below_one_id_keys_sort_as_their_last_segments(leading, first, second):
    assert (encode_key(leading, first) < encode_key(leading, second)) == (first < second)


@given(ids, short)
def test_the_last_segment_comes_back(leading, last):
    assert last_segment(encode_key(leading, last), 1) == last


@given(ids, keys, any_text, any_text)
def test_a_span_holds_the_keys_below_its_ids_and_bounds(leading, other, low, high):
    span = span_below(leading, after=low, before=high)

    def contains(key: bytes) -> bool:
        return span.start <= key and (span.stop is None or key < span.stop)

    assert contains(encode_key(leading, other[2])) == (
        encode_key(leading, low) < encode_key(leading, other[2]) < encode_key(leading, high)
    )
    assert contains(encode_key(other[0], other[2])) <= (other[0] == leading)


@given(ids, any_text, any_text)
def test_a_prefix_finds_every_key_that_begins_with_it(leading, prefix, rest):
    span = span_below(leading, prefix=prefix)
    key = encode_key(leading, prefix + rest)
    assert span.start <= key
    assert span.stop is None or key < span.stop


@pytest.mark.parametrize("segments", [("",), ("", "a"), ("a:b", "c"), ("a", "", "c")])
def test_what_is_no_id_is_refused(segments):
    with pytest.raises(SchemaError):
        encode_key(*segments)


def test_a_segment_of_the_limit_keeps_its_head():
    assert encode_key("x" * SEGMENT_LIMIT).startswith(b"x" * 80)
    assert len(encode_key("x" * 10_000)) == SEGMENT_LIMIT


@given(any_text, st.dictionaries(any_text, any_text, max_size=3), st.lists(any_text, max_size=3))
@example("\ud800", {"\udfff": "\ud83d\ude00"}, ["a\ud800b"])
def test_records_come_back_with_clean_text(text, labels, lines):
    row = Row(text, labels, tuple(lines))
    decoded = decode_record(msgspec.json.Decoder(Row), "note", b"k", encode_record(row))
    clean = {clean_text(key): clean_text(value) for key, value in labels.items()}
    assert decoded == Row(clean_text(text), clean, tuple(map(clean_text, lines)))


def test_records_are_json_with_sorted_keys():
    assert encode_record(Row("t", {"b": "1", "a": "2"})) == b'{"labels":{"a":"2","b":"1"},"lines":[],"text":"t"}'


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"text":"a', b'{"text":1}', b"{}", b'"\xff"', b"[" * 100_000, b"\0" * 40]
)
def test_an_unreadable_record_is_named_and_not_quoted(value):
    with pytest.raises(PersistenceError) as caught:
        decode_record(msgspec.json.Decoder(Row), "message", b"c_1:m00000002", value)
    assert caught.value.code == "unreadableRecord"
    assert caught.value.data == {"record": "message/c_1:m00000002"}
    assert "message/c_1:m00000002" in caught.value.message
