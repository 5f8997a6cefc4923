"""HTML as readable text: whole texts compared, hostile pages in bounded time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinsmith.tools.readable import MAX_CHARACTERS, readable

URL = "https://example.org/docs/page"


def text_of(html: str) -> str:
    return readable(html, URL).text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>One</h1><h3>Three <em>x</em></h3>text", "# One\n\n### Three x\n\ntext"),
        ("<p>a\n  b</p><p>c<br>d</p>", "a b\n\nc\nd"),
        ("<p>fish &amp; chips &lt;b&gt; &copy; &#233;</p>", "fish & chips <b> © é"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul><p>d", "- a\n- b\n  - c\n\nd"),
        ("<ol start=3><li><p>x</p></li><li>y</li></ol>", "3. x\n4. y"),
        ('<a href="../x?a=1&amp;b=2">go</a> on', "[go](https://example.org/x?a=1&b=2) on"),
        ('<base href="http://other.example/d/"><a href="x">go</a>', "[go](http://other.example/d/x)"),
        ("<a href='#x'>a</a> <a href='javascript:x'>b</a> <a>c</a> <a href='mailto:x'>d</a>", "a b c d"),
        ("<a href='/x'><h2>Title</h2><p>more</p></a>tail", "## [Title](https://example.org/x)\n\nmore\n\ntail"),
        ("<a href='https://a.example/'>https://a.example/</a>", "https://a.example/"),
        ("<a href='/a(b)'>x</a>", "[x](https://example.org/a%28b%29)"),
        ("<a href='/x'><img src=y></a>z", "z"),
        ("see <code>a <b>b</b>\n c</code>.", "see `a b c`."),
        ("<pre>  a &lt; b\n\n    c</pre>d", "```\n  a < b\n\n    c\n```\n\nd"),
        ('<pre class="x"><code class="hljs language-Python"><span>def</span> f():\n  pass\n</code></pre>',
         "```python\ndef f():\n  pass\n```"),
        ("<pre>has ``` inside</pre>", "````\nhas ``` inside\n````"),
        ("<pre>a<br>b</pre>", "```\na\nb\n```"),
        ("<table><tr><th>a<th>b|c<tr><td>1<td><p>2</p><p>3</p></table>e",
         "| a | b\\|c |\n| --- | --- |\n| 1 | 2 3 |\n\ne"),
        ("<table><thead><tr><td>a</td><td>b</td></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
         "| a | b |\n| --- | --- |\n| 1 |  |"),
        ("<table><tr><td>only</td></tr><tr><td>column</td></tr></table>", "only\n\ncolumn"),
        ("<table><tr><td>m</td><td><table><tr><td>1</td><td>2</td></tr></table></td><td>s</td></tr></table>",
         "m\n\n| 1 | 2 |\n| --- | --- |\n\ns"),
        ("<table><tr><td>1 2</td><td><pre>a\n  b</pre></td></tr></table>", "1 2\n\n```\na\n  b\n```"),
        ("<blockquote><p>a</p><ul><li>b</ul></blockquote>c", "> a\n\n> - b\n\nc"),
        ("<img alt='a cat' src=x><img src=y>", "[image: a cat]"),
        ("<p>a<hr>b", "a\n\n---\n\nb"),
        ("<script>if(a<b){'</p>'}</script><style>p{}</style><noscript>n</noscript><svg><text>t</text></svg>x", "x"),
        ("<nav><ul><li>menu</ul></nav><aside>ad</aside><main>text</main>", "text"),
        ("<nav>never closed <p>the text", "never closed\n\nthe text"),
        ("<p hidden>no<p>yes<div style='Display : NONE'>no<div>no</div></div><span aria-hidden=true>no</span>", "yes"),
        ("<h2>Head<a class='headerlink' href='#h'>¶</a></h2>", "## Head"),
        ("a<!-- no -->b<?php no ?>c<![CDATA[no]]>d", "abcd"),
        ("1 < 2 & 3 > 2 &unknown; <", "1 < 2 & 3 > 2 &unknown; <"),
        ("text <b", "text"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_left_of_a_page(html, text) -> None:
    assert text_of(html) == text


def test_the_title() -> None:
    page = readable("<title>\n A &amp; B </title><title>C</title><body>x", URL)
    assert page == ("A & B", "x", True)


SIZE = 600_000


@pytest.mark.parametrize(
    "piece",
    ["<", "<a ", "<!", "</", "&", "<!--", "<![CDATA[", "<a b='", "<div>", "<table><tr><td>", "<ul><li>x", "<td>x",
     "<script>", "<script></", "<blockquote>x", "<pre>", "<code>`", "<a/", "<a href=/x>t", "<p hidden>", "<nav>"],
)  # fmt: skip
def test_a_hostile_page_takes_bounded_time(piece) -> None:
    began = time.monotonic()
    page = readable(piece * (SIZE // len(piece)), URL, max_seconds=1)
    assert time.monotonic() - began < 8
    assert len(page.text) < 3 * MAX_CHARACTERS


def test_links_cannot_make_a_page_grow_beyond_its_bound() -> None:
    page = readable(f"<base href='https://example.org/{'x' * 900}/'>" + "<a href=y>z</a>" * 40_000, URL)
    assert (page.is_whole, len(page.text) < 2 * MAX_CHARACTERS) == (False, True)


tags = ["a", "p", "ul", "li", "table", "tr", "td", "pre", "code", "nav", "script", "blockquote", "title", "br", "h1"]
pieces = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in tags] + [f"</{tag}>" for tag in tags] + ["<a href='/x'>", "<p hidden>"]),
    st.text(alphabet="ab <>&;\n|`", max_size=5),
)


@settings(deadline=None)
@given(st.lists(pieces, max_size=40).map("".join))
def test_any_tags_in_any_order_make_some_text(html) -> None:
    assert "\n\n\n\n" not in text_of(html) or "pre" in html or "`" in html


@given(st.lists(st.text(alphabet="abc é", min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=6))
def test_no_word_of_a_plain_page_is_lost(words) -> None:
    html = "".join(f"<div><p>{word}</p></div>" for word in words)
    assert text_of(html).split() == " ".join(words).split()
