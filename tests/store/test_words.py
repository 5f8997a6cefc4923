"""Texts as words, and queries as terms: the same however something is written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.errors import SchemaError
from tinsmith.store.query import Query, Term, flat, is_meant, parse_query
from tinsmith.store.snippet import snippet_of
from tinsmith.store.words import LONGEST_WORD, WORD, count_words, forms

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@pytest.mark.parametrize(
    ("word", "found_by"),
    [
        ("word", ["word"]),
        ("Word", ["word"]),
        ("WORD", ["word"]),
        ("fooBarBaz", ["foobarbaz", "foo", "bar", "baz"]),
        ("foo_bar", ["foo_bar", "foo", "bar"]),
        ("parseHTTPHeader_v2", ["parsehttpheader_v2", "parse", "http", "header", "v2"]),
        ("__init__", ["__init__", "init"]),
        ("sha256sum", ["sha256sum"]),
        ("x", ["x"]),
        ("_", ["_"]),
        ("naïve", ["naïve"]),
        ("NAI\u0308VE", ["naïve"]),
        ("Straße", ["strasse"]),
        ("ｆｕｌｌ", ["full"]),
        ("größeMessen", ["grössemessen", "grösse", "messen"]),
        ("日本語", ["日本語", "日本", "本語", "語"]),
        ("字", ["字"]),
        ("API設計書", ["api設計書", "api", "設計", "計書", "書"]),
        ("ภาษา", ["ภาษา", "ภา", "าษ", "ษา", "า"]),
        ("y" * 100, ["y" * LONGEST_WORD]),
    ],
)
def test_what_a_word_is_found_by(word, found_by):
    assert list(forms(word)) == found_by


def test_words_are_counted_with_their_parts():
    assert count_words("fooBar foo FOO, foo-bar 12") == {"foobar": 1, "foo": 4, "bar": 2, "12": 1}
    assert count_words("é fooBar") == {"é": 1, "foobar": 1, "foo": 1, "bar": 1}
    assert count_words("\0\n ...") == {}


@given(texts)
def test_plain_and_other_text_is_cut_alike(text):
    with_other = count_words(text + " é")
    with_other["é"] -= 1
    assert {word: times for word, times in with_other.items() if times} == count_words(text)


@given(texts)
def test_every_word_of_a_text_finds_it(text):
    counted = count_words(text)
    for word in WORD.findall(text):
        query = parse_query(word + " ")
        assert all(any(term.fits(known) for known in counted) for term in query.terms), word
        assert flat(word) in flat(text)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("one two", Query((Term("one"), Term("two", is_prefix=True)))),
        ("one two ", Query((Term("one"), Term("two")))),
        ("One on* x", Query((Term("one"), Term("on", is_prefix=True), Term("x")))),
        ('"Two  words" x*', Query((Term("two"), Term("words"), Term("x", is_prefix=True)), (" two words ",))),
        ('before "not closed', Query((Term("before"), Term("not"), Term("closed")), (" not closed ",))),
        ('"..." foo-bar!', Query((Term("foo"), Term("bar")))),
        ("日本語", Query((Term("日本", is_prefix=True), Term("本語", is_prefix=True)))),
        ('"日本 x"', Query((Term("日本"), Term("x")), ("日本 x ",))),
        ("語 ", Query((Term("語", is_prefix=True),))),
        ("a " * 99, Query((Term("a"),))),
        (" ".join(f"w{n}" for n in range(99)), Query(tuple(Term(f"w{n}") for n in range(16)))),
    ],
)
def test_what_a_query_asks_for(text, query):
    assert parse_query(text) == query


@pytest.mark.parametrize("text", ["", "   ", "...", '""', "*"])
def test_a_query_without_words_is_refused(text):
    with pytest.raises(SchemaError) as caught:
        parse_query(text)
    assert caught.value.code == "emptyQuery"


def shown(text: str, query: str) -> str:
    parts = snippet_of(text, parse_query(query).terms)
    return "".join(f"[{part.text}]" if part.is_hit else part.text for part in parts)


def test_a_snippet_shows_the_place_where_most_words_meet():
    text = "store " + "something else " * 40 + "here the\n\n\tstore keeps its\nwords, fooBarBaz " + "and so on " * 40
    assert shown(text, "store words ") == (
        "…else something else here the [store] keeps its [words], fooBarBaz and so on and so on and so on and so on "
        "and so on and so on and so on and so on and so on and…"
    )
    assert "words, [fooBarBaz] and" in shown(text, "bar ")
    assert shown("no xfoox, but foo", "foo ") == "no xfoox, but [foo]"
    assert shown("", "foo") == ""
    assert shown("caf\u0065\u0301 is shut", "CAFÉ ") == "[caf\u0065\u0301] is shut"


@given(texts, texts)
def test_a_snippet_is_a_piece_of_the_text_on_one_line(text, before):
    words = WORD.findall(text)
    terms = parse_query(words[0]).terms if words else (Term("x"),)
    parts = snippet_of(f"{before} {text}", terms)
    assert "".join(part.text for part in parts).strip("…") in re.sub(r"\s+", " ", f"{before} {text}")
    assert all(part.text for part in parts)
    assert all(is_meant(part.text, terms) for part in parts if part.is_hit)
    assert any(part.is_hit for part in parts) >= bool(words)
