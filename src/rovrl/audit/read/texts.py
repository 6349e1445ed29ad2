"""Rows out of JSON lines and CSV, plain or packed, in batches that fit into memory; damage becomes a note, never an error."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from rovrl.audit.read.cells import Batch, DictBatch
from rovrl.audit.read.json_rows import rows_of
from rovrl.audit.read.notes import Notes

AT_ONCE = 2**26
"""Bytes, or letters, that one batch may unpack to."""
MOST_BYTES = 2**37
"""Bytes that one file may unpack to, ..."""
LEAST_UNPACKED, MOST_TIMES = 2**30, 200
"""... and no more than so many, or so many times its own size: rollouts pack to a tenth, bombs to a thousandth."""
LINE_LIMIT = 2**28
"""Bytes of one line of text, of one cell of CSV, or of one JSON array, which is read whole; longer ones are no rows."""
MOST_ROWS_AT_ONCE = 8192
"""Rows of text in one batch: as dicts they need far more memory than as columns."""
QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|$)')

Line = tuple[int, list[dict[str, Any]], int]
"""The number of its first row, its rows, and its letters; a line may hold a batch, whose rows stay together."""


def ending(path: Path) -> str:
    """What a file is, by its name: `.csv`, and `.jsonl.gz` where it is compressed."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix + ".gz" if name.endswith(".gz") else path.suffix.lower()


def most_bytes(path: Path) -> int:
    """Bytes that a file may unpack to; what claims more is a bomb."""
    return min(MOST_BYTES, max(LEAST_UNPACKED, MOST_TIMES * path.stat().st_size))


def damaged(path: Path, error: Exception) -> str:
    """Why a file was left out, as a sentence."""
    if isinstance(error, PermissionError):
        return f"{path} was left out: permission denied"
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return f"{path} is damaged and was left out: {reason}"


def tell_doubles(path: Path, names: list[str], notes: Notes) -> None:
    """A note on columns that have the same name."""
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        said = f"{path} has several columns named {', '.join(doubles)}: the first of them is used"
        notes.tell("double_columns", said)


def json_lines(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    """The objects of a file of JSON lines, or of one JSON array."""
    with _opened(path) as file:
        is_array = ending(path) == ".json" and file.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
    yield from _batched(_array_rows(path, notes) if is_array else _json_rows(path, notes), size, DictBatch)


def csv_rows(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    """The rows of a file of comma-, semicolon- or tab-separated values; between semicolons a number may have a comma."""
    head = QUOTED.sub("", next(lines(path, Notes()), ""))
    delimiter = "\t" if ending(path) == ".tsv" else max(",;\t", key=head.count)
    kind = lambda rows, values: DictBatch(rows, values, commas=delimiter == ";")  # noqa: E731
    yield from _batched(_csv_rows(path, delimiter, notes), size, kind)


def lines(path: Path, notes: Notes, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a text file: UTF-8, or what its byte-order mark says; undecodable bytes are replaced and noted.

    A gzip stream is unpacked line by line and up to a limit; of one that is damaged, what comes before the damage is used.
    """
    number, unpacked, packed, most = 0, 0, ending(path).endswith(".gz"), most_bytes(path)
    used = lambda: f"{path} was used up to line {number:,} and no further"  # noqa: E731
    try:
        for line, whole in _decoded(path, notes):
            unpacked += len(line)
            if not whole:
                limit = f"the next line is longer than {LINE_LIMIT / 2**20:,.0f} MB"
                return notes.tell("too_large", f"{used()}: {limit}")
            if packed and unpacked > most:
                limit = f"it unpacks to more than {most / 2**30:,.3g} GB"
                return notes.tell("too_large", f"{used()}: {limit}; split it")
            yield line if keep_ends else line.rstrip("\r\n")
            number += 1
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        notes.tell("damaged_file", f"{used()}: {error}")


def _decoded(path: Path, notes: Notes) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is whole: one that is longer than the limit is cut there."""
    with _opened(path) as file:
        head = file.read(4)
    wide = "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ""
    encoding = "utf-32" if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)) else wide or "utf-8"
    if encoding != "utf-8":
        with _opened(path) as raw, TextIOWrapper(raw, encoding=encoding, errors="replace", newline="") as text:
            for line in iter(lambda: text.readline(LINE_LIMIT), ""):
                yield line, len(line) < LINE_LIMIT or line.endswith("\n")
        return
    replaced = 0
    with _opened(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LINE_LIMIT), b"")):
            text = raw if number else raw.removeprefix(codecs.BOM_UTF8)
            try:
                line = text.decode("utf-8")
            except UnicodeDecodeError:
                line, replaced = text.decode("utf-8", "replace"), replaced + 1
            yield line, len(raw) < LINE_LIMIT or raw.endswith(b"\n")
    if replaced:
        said = f"{path} has {replaced:,} lines that are not UTF-8; what could not be read became U+FFFD"
        notes.tell("encoding", said)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if ending(path).endswith(".gz") else open(path, "rb")  # pyright: ignore[reportReturnType]


def _batched(
    found: Iterator[Line], size: int, kind: Callable[[list[int], list[dict[str, Any]]], DictBatch]
) -> Iterator[Batch]:
    """The rows in batches of `size`, or of as many letters as may be read at once: a row may be long."""
    rows, values, held = [], [], 0
    for number, some, length in found:
        rows += range(number, number + len(some))
        values += some
        held += length
        if rows and (len(rows) >= min(size, MOST_ROWS_AT_ONCE) or held >= AT_ONCE):
            yield kind(rows, values)
            rows, values, held = [], [], 0
    if rows:
        yield kind(rows, values)


def _json_rows(path: Path, notes: Notes) -> Iterator[Line]:
    bad: list[int] = []
    number, beyond = 0, 0
    for number, line in enumerate(lines(path, notes), start=1):
        if not line.strip():
            continue
        value = parsed(line)
        if not isinstance(value, dict):
            bad.append(number)
            continue
        found = rows_of(value)
        yield number - 1 + beyond, found, len(line)
        beyond += len(found) - 1
    if bad == [number]:
        said = f"line {number:,}, the last, is cut off or no JSON object and was left out"
        notes.tell("unreadable_rows", f"{path}: {said}")
    else:
        _tell_bad(path, "line", bad, notes)


def _array_rows(path: Path, notes: Notes) -> Iterator[Line]:
    if path.stat().st_size > LINE_LIMIT:
        notes.tell("too_large", f"{path} was left out: a JSON array of this size cannot be streamed; write JSON lines")
        return
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        notes.tell("damaged_file", damaged(path, error))
        return
    yield from ((row, [value], 0) for row, value in enumerate(values) if isinstance(value, dict))
    _tell_bad(path, "entry", [row + 1 for row, value in enumerate(values) if not isinstance(value, dict)], notes)


def _tell_bad(path: Path, what: str, bad: list[int], notes: Notes) -> None:
    """A note on the lines or entries, counted from 1, that are no rows."""
    if len(bad) == 1:
        notes.tell("unreadable_rows", f"{path}: {what} {bad[0]:,} is not a JSON object and was left out")
    elif bad:
        several = "lines" if what == "line" else "entries"
        said = f"{len(bad):,} {several} are not JSON objects and were left out, the first of them {what} {bad[0]:,}"
        notes.tell("unreadable_rows", f"{path}: {said}")


def parsed(text: str) -> Any:
    """The value of a JSON text; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _csv_rows(path: Path, delimiter: str, notes: Notes) -> Iterator[Line]:
    """The rows by the names of the first line; of several columns with one name the first counts."""
    csv.field_size_limit(LINE_LIMIT)
    reader, number = csv.reader(lines(path, notes, keep_ends=True), delimiter=delimiter), 0
    try:
        names = next(reader, [])
        tell_doubles(path, names, notes)
        for cells in filter(None, reader):  # empty lines are not rows
            value: dict[str, str] = {}
            for name, cell in zip(names, cells, strict=False):
                value.setdefault(name, cell)
            yield number, [value], sum(map(len, cells))
            number += 1
    except csv.Error as error:
        notes.tell("damaged_file", damaged(path, error) + f"; its first {number:,} rows were used")
