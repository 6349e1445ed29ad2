"""Text of unknown origin in a terminal: what could move the cursor, recolour or rename the window is written out instead."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control and format characters (ESC, bidirectional overrides), lone surrogates, line separators that are not \\n."""


def visible(text: str) -> str:
    """`text` with every character that a terminal would obey or hide written as its escape; line ends and tabs stay."""
    return "\n".join(map(_visible_line, text.split("\n")))


def _visible_line(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    return "".join(letter if _is_plain(letter) else _escape(letter) for letter in line)


def _is_plain(letter: str) -> bool:
    return letter == "\t" or unicodedata.category(letter) not in _HIDDEN


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
