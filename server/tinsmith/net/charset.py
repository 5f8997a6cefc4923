"""The text of a page's bytes: byte order mark, header, what the page says of itself, else UTF-8 or Windows-1252. Pure.

After the HTML standard, "determining the character encoding"; labels mean what browsers take them for.
"""

import codecs
import re

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_META = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.-]{1,40})""")
_PARAMETER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_SEARCHED = 4_096
"""Bytes in which a page may name its encoding; the standard asks for 1,024."""
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "utf-16": "utf-16-le",
}
"""Encodings that pages name and the wider ones that they use."""
_OTHER_LABELS = {"x-sjis": "cp932", "windows-31j": "cp932", "x-gbk": "gb18030", "tis-620": "cp874"}
_KNOWN = (
    {"utf-8", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "cp866", "cp874", "cp932", "cp949", "gb18030"}
    | {"big5hkscs", "euc_jp", "iso2022_jp", "mac-roman", "mac-cyrillic"}
    | {f"cp{number}" for number in range(1250, 1259)}
    | {f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)}
)


def decode(body: bytes, content_type: str) -> str:
    """The text, with replacement marks for what does not fit its encoding."""
    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    named = _named(content_type) or _named_inside(body)
    if named:
        return body.decode(named, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and not body[: error.start].isascii()
        return body[: error.start].decode() if is_cut else body.decode("cp1252", "replace")


def _named(content_type: str) -> str:
    parameter = _PARAMETER.search(content_type)
    return _known(parameter[1]) if parameter else ""


def _named_inside(body: bytes) -> str:
    start = body[:_SEARCHED]
    found = _XML.search(start) or _META.search(start)
    named = _known(found[1].decode("ascii")) if found else ""
    return "utf-8" if named.startswith("utf-16") else named  # a label that could be read is in no UTF-16


def _known(label: str) -> str:
    try:
        name = codecs.lookup(_OTHER_LABELS.get(label.lower(), label)).name
    except LookupError:
        return ""
    name = _WIDER.get(name, name)
    return name if name in _KNOWN else ""
