"""Text of unknown origin in a terminal: what could move the cursor, recolour or rename the window is written out instead."""

from __future__ import annotations

import os
import sys
import unicodedata
from contextlib import suppress
from typing import TextIO

from rovrl.errors import RovrlError

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control and format characters (ESC, bidirectional overrides), lone surrogates, line separators that are not \\n."""


def visible(text: str) -> str:
    """`text` with every character that a terminal would obey or hide written as its escape; line ends and tabs stay."""
    return "\n".join(map(_visible_line, text.split("\n")))


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints `text` at once, to the standard output unless told. A reader who left (head, less) misses the rest, no more.

    A RovrlError where nothing can be written, as on a full disk.
    """
    out: TextIO = stream or sys.stdout
    try:
        print(text, file=out, flush=True)
    except BrokenPipeError:
        _give_up(out)
    except OSError as error:
        _give_up(out)
        raise RovrlError(f"cannot write the output: {error.strerror or error}") from error


def _give_up(stream: TextIO) -> None:
    """Lets what is still to be written to `stream` vanish: it would fail once more when Python ends, with another status."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _visible_line(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    return "".join(letter if _is_plain(letter) else _escape(letter) for letter in line)


def _is_plain(letter: str) -> bool:
    return letter == "\t" or unicodedata.category(letter) not in _HIDDEN


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
