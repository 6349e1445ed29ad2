"""Files that appear whole or not at all: written beside their place, brought to the disk, renamed over it.

A run that is killed, a full disk and a reader who looks too early all see the old file or the new one. A symbolic link in the
place of a file is refused, never followed: in a directory that others can write, it could lead anywhere.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rovrl.errors import RovrlError

Line = dict[str, Any]
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write bytes into; it takes the place of `path` when the block ends, and vanishes if the block fails.

    OSError if the place is a symbolic link, a device or a directory, if it cannot be written, or if the disk is full.
    """
    _refuse_strange(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    draft.unlink(missing_ok=True)  # of a killed process that had the same number
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def write_bytes(path: Path, data: bytes) -> Path:
    """`path`, which now holds `data`; its directory must be there."""
    with replacing(path) as file:
        file.write(data)
    return path


def write_text(path: Path, text: str) -> Path:
    """`path`, which now holds `text` in UTF-8."""
    return write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any, indent: int | None = 1) -> Path:
    """`path`, which now holds `value` as JSON and a newline."""
    return write_text(path, json.dumps(value, indent=indent) + "\n")


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """`path`, which now holds one line of JSON per row."""
    return write_text(path, as_lines(rows))


def append_lines(path: Path, rows: Iterable[Any]) -> None:
    """Adds one line of JSON per row, on the disk before it returns; what a kill leaves of them, `read_lines` leaves out."""
    _refuse_strange(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINKS, 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(as_lines(rows).encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def as_lines(rows: Iterable[Any]) -> str:
    """The rows as JSON, each on a line of its own."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def read_lines(
    path: Path, remedy: str = "delete that line", whole: Callable[[Line], bool] = lambda row: True
) -> list[Line]:
    """The rows of a file of JSON lines; none where there is no file, and without a last line that a kill cut short.

    A damaged line in the middle (not a JSON object, or one that is not `whole`) is no such leftover: a RovrlError names it and
    the `remedy`.
    """
    if not path.exists():
        return []
    rows, lines = [], path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _object(line)
            if row is not None and whole(row):
                rows.append(row)
            elif number < len(lines):
                raise RovrlError(f"{path}, line {number} is damaged: {remedy}")
    return rows


def _object(line: bytes) -> Line | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def plain(value: Any) -> Any:
    """`value` as strict JSON values: arrays as lists, NaN and infinities as null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if hasattr(value, "__dataclass_fields__"):
        return plain(asdict(value))
    return str(value) if isinstance(value, Path) else value


def _refuse_strange(path: Path) -> None:
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link is in its place", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "something that is not a file is in its place", str(path))


def _sync_directory(directory: Path) -> None:
    """Brings the rename itself to the disk, on the systems that can."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
