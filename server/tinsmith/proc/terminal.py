r"""What a terminal would show in the end, as plain text. Pure.

Escape sequences go (ECMA-48: CSI, OSC, DCS and their kin), of a line that was redrawn with `\r` only the
last drawing stays, `\b` takes a character back, other control characters become their visible pictures.
"""

import re

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=\n)|\Z)"
    r"|[PX^_][^\x1b]*(?:\x1b\\|\Z)"
    r"|[ -/]+[0-~]"
    r"|\[?[0-?]*[ -/]*\Z"
    r"|[0-~]?"
    r")"
)
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\f"} | {0x07: None, 0x7F: 0x2421}


def plain(text: str) -> str:
    """The text that stays on the screen. Tabs, newlines and form feeds are kept, bells are not."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text or "\b" in text:
        text = "\n".join(_last_drawing(line) if "\r" in line or "\b" in line else line for line in text.split("\n"))
    return text.translate(_PICTURES) if _CONTROLS.search(text) else text


def _last_drawing(line: str) -> str:
    drawing = next((part for part in reversed(line.split("\r")) if part), "")
    kept: list[str] = []
    for character in drawing:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)
