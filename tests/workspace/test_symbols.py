"""Symbols of texts: one table for grammars and for the look of lines, headings, and texts of bad faith."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.symbol import Symbol
from tinsmith.workspace.definitions import find_definitions
from tinsmith.workspace.grammars import GRAMMARS, parse_symbols
from tinsmith.workspace.headings import find_headings
from tinsmith.workspace.languages import is_test, language_of
from tinsmith.workspace.symbols import MAX_PARSED_CHARACTERS, MAX_SYMBOLS, Outline, find_symbols, has_symbols
from tinsmith.workspace.text import lines_of

TEXTS = {
    "a.py": """\
import os
LIMIT = 3

class A(B):
    @property
    def b(self):
        pass

async def c():
    def d(): ...
""",
    "a.js": """\
export class A {
  b(x) {
  }
  static c = () => 1
}
export function d() {
}
const e = async () => {
}
let f = 1
""",
    "a.tsx": """\
export interface A {
  b(): void
}
type C = string
enum D { X }
namespace E {
}
abstract class F {
  abstract g(): void
}
export const H = (p: P) => <b/>
""",
    "a.go": """\
package p
const A = 1
type B struct {
	x int
}
type C interface {
	M()
}
func D() {
}
func (b *B) E(x int) {
}
var F int
""",
    "a.rs": """\
pub struct A {
}
pub enum B { C }
trait D {
    fn e(&self);
}
impl<T> D for A<T> {
    fn e(&self) {
    }
}
pub(crate) const F: i32 = 1;
mod g {
}
macro_rules! h {
    () => {}
}
pub async fn i() {
}
""",
    "a.c": """\
#define A 1
struct b {
    int x;
};
static int *c(int d)
{
}
int e(void);
enum f {
    G
};
""",
    "a.cpp": """\
namespace a {
class B {
  void c();
};
}
void a::B::c() {
}
int main(int argc) {
}
""",
    "A.java": """\
public class A {
    static final int B = 1;
    A() {
    }
    public int c(int d) {
    }
}
interface E {
}
""",
    "a.cs": """\
namespace A.B {
  public class C {
    public int D { get; set; }
    public void E() {
    }
  }
}
""",
    "a.lua": """\
local A = {}
function A.b()
end
function A:c()
end
local function d()
end
A.e = function()
end
""",
    "a.rb": """\
module A
  class B < C
    D = 1
    def e(f)
    end
    def self.g
    end
  end
end
""",
    "a.sh": """\
A=1
b() {
  :
}
function c {
  :
}
""",
}
GRAMMAR = {
    "a.py": "variable LIMIT  2-2|class A  4-7|method b A 6-7|function c  9-10|function d c 10-10",
    "a.js": "class A  1-5|method b A 2-3|method c A 4-4|function d  6-7|function e  8-9|variable f  10-10",
    "a.tsx": (
        "interface A  1-3|method b A 2-2|type C  4-4|enum D  5-5|module E  6-7|class F  8-10|method g F 9-9|"
        "function H  11-11"
    ),
    "a.go": (
        "constant A  2-2|struct B  3-5|interface C  6-8|method M C 7-7|function D  9-10|method E B 11-12|"
        "variable F  13-13"
    ),
    "a.rs": (
        "struct A  1-2|enum B  3-3|trait D  4-6|method e D 5-5|impl A  7-10|method e A 8-9|constant F  11-11|"
        "module g  12-13|macro h  14-16|function i  17-18"
    ),
    "a.c": "macro A  1-1|struct b  2-4|function c  5-7|declaration e  8-8|enum f  9-11",
    "a.cpp": "module a  1-5|class B a 2-4|declaration c B 3-3|method c a::B 6-7|function main  8-9",
    "A.java": "class A  1-7|constant B A 2-2|method A A 3-4|method c A 5-6|interface E  8-9",
    "a.cs": "module A.B  1-7|class C A.B 2-6|property D C 3-3|method E C 4-5",
    "a.lua": "variable A  1-1|function b A 2-3|function c A 4-5|function d  6-7|function e A 8-9",
    "a.rb": "module A  1-9|class B A 2-8|constant D B 3-3|method e B 4-5|method g B 6-7",
    "a.sh": "variable A  1-1|function b  2-4|function c  5-7",
}
LINES = {
    "a.py": "variable LIMIT  2|class A  4|method b A 6|function c  9|function d c 10",
    "a.js": "class A  1|method b A 2|function d  6|function e  8|variable f  10",
    "a.tsx": "interface A  1|type C  4|enum D  5|module E  6|class F  8|function H  11",
    "a.go": "constant A  2|struct B  3|interface C  6|function D  9|method E B 11|variable F  13",
    "a.rs": (
        "struct A  1|enum B  3|trait D  4|method e D 5|impl A  7|method e A 8|constant F  11|module g  12|macro h  14|"
        "function i  17"
    ),
    "a.c": "macro A  1|struct b  2|function c  5|enum f  9",
    "a.cpp": "module a  1|class B  2|function c a::B 6|function main  8",
    "A.java": "class A  1|method A A 3|method c A 5|interface E  8",
    "a.cs": "module A.B  1|class C A.B 2|method E C 4",
    "a.lua": "variable A  1|function b A 2|function c A 4|function d  6|function e A 8",
    "a.rb": "module A  1|class B A 2|constant D B 3|method e B 4|method g B 6",
    "a.sh": "variable A  1|function b  2|function c  5",
}


def shown(symbols, *, ends=True):
    rows = (
        f"{each.kind} {each.name} {each.container} {each.start_line}{f'-{each.end_line}' if ends else ''}"
        for each in symbols
    )
    return "|".join(rows)


@pytest.mark.parametrize("name", TEXTS)
def test_symbols_by_grammar(name):
    outline = find_symbols(name, TEXTS[name])
    assert (outline.method, shown(outline.symbols)) == ("grammar", GRAMMAR[name])


@pytest.mark.parametrize("name", TEXTS)
def test_symbols_by_the_look_of_lines(name):
    assert shown(find_definitions(language_of(name), TEXTS[name]), ends=False) == LINES[name]


def test_the_tables_know_every_grammar():
    assert {language_of(name) for name in TEXTS} == set(GRAMMARS) - {"typescript"}
    assert all(has_symbols(name) for name in [*TEXTS, "x.ts", "README.md", "x.kt", "x.swift", "x.php"])
    assert not any(has_symbols(name) for name in ["x.json", "LICENSE", ".env", "x.png"])


def test_without_a_grammar_the_outline_says_so(monkeypatch):
    monkeypatch.setattr("tinsmith.workspace.symbols.parse_symbols", lambda language, text: None)
    outline = find_symbols("a.lua", TEXTS["a.lua"])
    assert (outline.method, shown(outline.symbols, ends=False)) == ("lines", LINES["a.lua"])
    assert find_symbols("x.kt", "data class A(\n  fun b() {\n").symbols == (
        Symbol("class", "A", "", 1, 1),
        Symbol("method", "b", "A", 2, 2),
    )
    assert find_symbols("x.json", "{}") == Outline((), "none")


def test_headings():
    text = (
        "# One #\n\n```py\n# no\n~~~\n```\nTwo\n===\ntext\n---\n\n- item\n---\n    # code\n### Three ##\n\n"
        "## \nlast\r\n---\r\n####### no\n#no\n"
    )
    assert shown(find_headings(text)) == (
        "heading One  1-6|heading Two  7-21|heading text Two 9-16|heading Three text 15-16|heading (empty) Two 17-17|"
        "heading last Two 18-21"
    )


LINE_BITS = ["def f(): pass", "x = 'a\u2028b'", "# \x0c form", "class A: pass", "'\x85'", "y\rz", "", "(\u2029)"]


@given(st.lists(st.sampled_from(LINE_BITS), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_line_numbers_are_those_of_every_tool(lines, eol):
    """EDIT-09: form feeds, lone carriage returns and U+2028 end no line."""
    text = eol.join([*lines, "def last():", "    pass", ""])
    symbol = find_symbols("a.py", text).symbols[-1]
    assert symbol.name == "last"
    assert lines_of(text)[symbol.start_line - 1] == "def last():"
    by_lines = find_definitions("python", text)[-1]
    assert (by_lines.name, by_lines.start_line) == ("last", symbol.start_line)


@given(st.text(max_size=300), st.sampled_from([*TEXTS, "a.md"]))
def test_any_text_has_an_outline(text, name):
    text = TEXTS.get(name, "# x\n")[:40] + text
    total = len(lines_of(text))
    for symbols in (find_symbols(name, text).symbols, find_definitions(language_of(name), text) or ()):
        assert all(1 <= each.start_line <= each.end_line <= total and each.name for each in symbols)


def test_broken_code_still_has_its_symbols():
    text = "def a():\n    return (\n\nclass B:\n    def c(self\n        pass\n\ndef d():\n    pass\n"
    names = {symbol.name for symbol in find_symbols("a.py", text).symbols}
    assert {"a", "B", "d"} <= names


def test_huge_texts_take_bounded_time():
    started = time.monotonic()
    large = "def f():\n    pass\n" * (MAX_PARSED_CHARACTERS // 16)
    outline = find_symbols("a.py", large)
    assert (outline.method, outline.is_cut, len(outline.symbols)) == ("lines", True, MAX_SYMBOLS)
    for name, text in (
        ("a.py", "x = " + "[{(" * 160_000),
        ("a.js", "(" * 490_000),
        ("a.cpp", "a<" * 240_000),
        ("a.c", "int " * 120_000),
        ("a.md", "# a\n## b\n" * 50_000),
        ("a.java", ("  " + "x " * 190 + "\n") * 2_000),
        ("a.rs", "pub " * 90 + "\n"),
    ):
        find_symbols(name, text)
        find_definitions(language_of(name), text)
    assert time.monotonic() - started < 15


def test_parsing_lets_other_threads_run():
    gaps: list[float] = []
    is_done = threading.Event()

    def tick():
        last = time.monotonic()
        while not is_done.wait(0.001):
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        assert len(parse_symbols("python", "def f(a, b):\n    return [a, b, {1: 2}]\n" * 5_000)) == 5_000
    finally:
        is_done.set()
        ticking.join()
    assert len(gaps) > 5


def test_tests_are_told_by_their_paths():
    assert all(map(is_test, ["tests/a.py", "x/test_a.py", "a_test.go", "src/a.spec.ts", "FooTest.java", "spec/x.rb"]))
    assert not any(map(is_test, ["src/testing.py", "latest.py", "contest/a.py", "a.py"]))
