"""The text of a page's bytes (WEB-03)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.net.charset import decode

CASES = Path(__file__).parents[1] / "cases" / "WEB-03"


def test_the_header_and_the_page_name_the_encoding() -> None:
    """WEB-03."""
    assert "Straße café" in decode((CASES / "latin1.html").read_bytes(), "text/html; charset=ISO-8859-1")
    assert "日本語" in decode((CASES / "sjis.html").read_bytes(), "text/html")


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é".encode(), "text/plain", "é"),
        ("é".encode("latin-1"), "text/plain", "é"),
        ("“é”".encode("cp1252"), "text/plain; charset=iso-8859-1", "“é”"),
        (b"\xef\xbb\xbf" + "é".encode(), "text/plain; charset=latin1", "é"),
        ("\ufeffé".encode("utf-16-le"), "text/plain", "é"),
        ("\ufeffé".encode("utf-16-be"), "text/html; charset=utf-8", "é"),
        ("é".encode("utf-16-le"), "text/html; charset=utf-16", "é"),
        ("Привет".encode("koi8-r"), 'text/html; charset="KOI8-R"', "Привет"),
        ("中文".encode("gb18030"), "text/html;charset=gb2312", "中文"),
        (b'<meta charset="utf-16">\xc3\xa9', "text/html", '<meta charset="utf-16">é'),
        (
            b"<META http-equiv=Content-Type content='text/html; charset=windows-1251'>\xcf",
            "text/html",
            "<META http-equiv=Content-Type content='text/html; charset=windows-1251'>П",
        ),
        (
            b'<?xml version="1.0" encoding="iso-8859-1"?>\xe9',
            "text/xml",
            '<?xml version="1.0" encoding="iso-8859-1"?>é',
        ),
        ("é€".encode()[:4], "text/plain", "é"),
        (b"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"),
        *((b"abc", f"text/plain; charset={label}", "abc") for label in ("idna", "rot13", "zip", "what", "../x")),
    ],
)
def test_encodings(body, content_type, text) -> None:
    assert decode(body, content_type) == text


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_are_some_text(body, label) -> None:
    assert isinstance(decode(body, f"text/html; charset={label}"), str)
    assert isinstance(decode(b"<meta charset=" + body, ""), str)


@given(st.text(max_size=100).filter(lambda text: not text.startswith("\ufeff")))
def test_utf_8_needs_no_name(text) -> None:
    assert decode(text.encode(), "text/plain") == text
