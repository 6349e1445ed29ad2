"""Lines of text files, plain or gzip, whatever their encoding; damage becomes a note, never an exception."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from rovrl.audit.read.rows import Notes

LINE_LIMIT = 256 * 2**20
"""Bytes of one line of text; a longer one is not a row, and what holds it is not a table."""
LEAST_UNPACKED, MOST_TIMES = 2**30, 200
"""A gzip stream may unpack to so many bytes, or to so many times its size: rollouts pack to a tenth, bombs to a thousandth."""


class _EndlessLine(Exception):
    """A line that is longer than LINE_LIMIT."""


def ending(path: Path) -> str:
    """What a file is, by its name: `.csv`, and `.jsonl.gz` where it is compressed."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix + ".gz" if name.endswith(".gz") else path.suffix.lower()


def lines(path: Path, notes: Notes, most: int, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a text file: UTF-8, or what its byte-order mark says; undecodable bytes are replaced and noted.

    A gzip stream is unpacked line by line and up to `most` bytes; of one that is damaged, what comes before the damage is used.
    """
    number, unpacked, packed = 0, 0, ending(path).endswith(".gz")
    most = min(most, max(LEAST_UNPACKED, MOST_TIMES * path.stat().st_size))
    try:
        for line in _decoded(path, notes):
            unpacked += len(line)
            if packed and unpacked > most:
                limit = f"it unpacks to more than {most / 2**30:,.3g} GB"
                notes.tell("too_large", f"{path} was used up to line {number:,} and no further: {limit}; split it")
                return
            yield line if keep_ends else line.rstrip("\r\n")
            number += 1
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        notes.tell("damaged_file", f"{path} was used up to line {number:,} and no further: {error}")
    except _EndlessLine:
        limit = f"the next line is longer than {LINE_LIMIT / 2**20:,.0f} MB"
        notes.tell("too_large", f"{path} was used up to line {number:,} and no further: {limit}")


def starts_with(path: Path, mark: bytes) -> bool:
    """Whether the text begins with `mark`, after a byte-order mark and white space."""
    with open(path, "rb") as file:
        return file.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(mark)


def _decoded(path: Path, notes: Notes) -> Iterator[str]:
    with _opened(path) as file:
        encoding = _encoding(file.read(4))
    if encoding != "utf-8":
        with _opened(path) as raw, TextIOWrapper(raw, encoding=encoding, errors="replace", newline="") as text:
            for line in iter(lambda: text.readline(LINE_LIMIT), ""):
                yield _ended(line, len(line))
        return
    replaced = 0
    for raw in _raw(path):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            line, replaced = raw.decode("utf-8", "replace"), replaced + 1
        yield _ended(line, len(raw))
    if replaced:
        notes.tell(
            "encoding", f"{path} has {replaced:,} lines that are not UTF-8; what could not be read became U+FFFD"
        )


def _ended(line: str, length: int) -> str:
    """The line; an _EndlessLine if it was cut off at the limit."""
    if length >= LINE_LIMIT and not line.endswith("\n"):
        raise _EndlessLine
    return line


def _raw(path: Path) -> Iterator[bytes]:
    """The lines as bytes, without the byte-order mark."""
    with _opened(path) as file:
        yield file.readline(LINE_LIMIT).removeprefix(codecs.BOM_UTF8)
        yield from iter(lambda: file.readline(LINE_LIMIT), b"")


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if ending(path).endswith(".gz") else open(path, "rb")  # pyright: ignore[reportReturnType]


def _encoding(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
