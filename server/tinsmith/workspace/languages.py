"""Which language a file is in, told by its name. Pure."""

import os
import re

_NAMES = {
    "Makefile": "make",
    "GNUmakefile": "make",
    "Dockerfile": "docker",
    "CMakeLists.txt": "cmake",
    "Rakefile": "ruby",
    "Gemfile": "ruby",
}
_ENDINGS = {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ inl ipp",
    "java": "java",
    "lua": "lua",
    "ruby": "rb rake gemspec",
    "csharp": "cs",
    "bash": "sh bash zsh",
    "markdown": "md markdown mdx",
    "kotlin": "kt kts",
    "swift": "swift",
    "php": "php",
    "scala": "scala",
    "zig": "zig",
    "sql": "sql",
    "html": "html htm",
    "css": "css scss sass less",
    "json": "json jsonc json5",
    "yaml": "yaml yml",
    "toml": "toml",
    "xml": "xml xsd xsl svg",
    "text": "txt rst adoc org",
    "vim": "vim",
    "make": "mk",
    "cmake": "cmake",
    "proto": "proto",
}
_LANGUAGES = {f".{ending}": language for language, endings in _ENDINGS.items() for ending in endings.split()}
_TEST = re.compile(r"(^|/)(tests?|specs?|__tests__|testdata)/|(^|/)(test_|conftest)|[._](test|spec)\.\w+$|Tests?\.\w+$")


def language_of(path: str) -> str:
    """The language's name, empty when the file's name does not tell."""
    name = os.path.basename(path)
    return _NAMES.get(name) or _LANGUAGES.get(os.path.splitext(name)[1].lower(), "")


def is_test(path: str) -> bool:
    """Whether the path is one that tests have by custom."""
    return _TEST.search(path) is not None
