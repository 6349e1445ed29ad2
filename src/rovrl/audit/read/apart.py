"""Tables side by side: pieces of one run, or several runs? Their names say it, and where they do not, what they hold."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.rows import Columns, Notes, Reader
from rovrl.audit.read.tables import columns_of, pa
from rovrl.errors import RovrlError

PIECE = r"(step|epoch|rank|shard|part|iter|worker|node|chunk)s?[-_.]?\d+"
PIECES = re.compile(rf"(?<![a-z]){PIECE}|(?<!\d)\d+-of-\d+", re.IGNORECASE)
"""What the name of a piece of a run has in it."""
FOLDER_PIECE = re.compile(rf"(global_)?{PIECE}", re.IGNORECASE)
"""The whole name of a folder that holds a piece of a run."""
RUN = re.compile(r"(?<![a-z])(run|seed|exp|trial|lr)", re.IGNORECASE)
"""Names of runs may be numbered too."""
LOOKED_AT = 4096
"""Rows of each table that are compared: runs begin alike."""


def runs_apart(path: Path, files: list[Path], reader: Reader, columns: Columns) -> set[Path]:
    """The files and folders directly below `path` that are runs of their own; empty if `files` are pieces of one run.

    Folders with names of their own are runs. Folders with numbers for names, as a sweep makes them, and files are runs if they
    hold the same groups of the same steps; a file beside folders that are runs is one more.
    """
    first: dict[Path, Path] = {}
    for file in files:
        first.setdefault(path / file.relative_to(path).parts[0], file)
    folders = [head for head in first if head.is_dir()]
    if len(first) < 2:
        return set()
    if len(folders) > 1:
        if any(FOLDER_PIECE.fullmatch(folder.name) for folder in folders):
            return set()
        if not any(_bare(folder) for folder in folders):
            return set(first)
    elif _numbered(list(first)) or any(_is_piece(head.name) for head in first):
        return set()
    shared = [_groups(reader, first[head], columns) for head in (folders if len(folders) > 1 else first)]
    return set(first) if all(shared[0] & other for other in shared[1:]) else set()


def tell_shared(file: NDArray[np.int32], length: NDArray[np.int64], files: list[Path], notes: Notes) -> None:
    """A note on groups with rows in several files, unless names say that these are pieces of a run.

    `file` has the number of the file of each row, in the order of the groups; `length` the rows of each group.
    """
    end = np.cumsum(length)
    first, last = file[end - length], file[end - 1]
    shared = np.flatnonzero(first != last)
    some = [files[int(number[shared[0]])] for number in (first, last)] if len(shared) else []
    if some and not all(_is_piece(one.name) or _is_piece(one.parent.name) for one in some):
        notes.tell(
            "groups_over_files",
            f"{len(shared):,} groups have rows in several files, as in {some[0]} and {some[1]}: rows of one step with the same "
            "group id were taken as one group; if the files are of different runs, audit them one by one",
        )


def _is_piece(name: str) -> bool:
    return bool(PIECES.search(name))


def _bare(folder: Path) -> bool:
    return bool(re.fullmatch(r"[-_.\d]+", folder.name))


def _numbered(heads: list[Path]) -> bool:
    """Whether the names differ in numbers alone, and are not those of runs."""
    names = {re.sub(r"\d+", "", head.name.lower()) for head in heads}
    return len(names) == 1 and not RUN.search(names.pop())


def _groups(reader: Reader, file: Path, columns: Columns) -> set[tuple[int, str]]:
    """(step, group) of the first rows; prompts alone, which come again in every epoch, name no group."""
    if reader.by_runs and columns.find("step", columns_of(file, Notes())) is None:
        return set()
    try:
        chunk = next(iter(reader.chunks(file, frozenset(), Notes())), None)
    except RovrlError:
        return set()
    if chunk is None or chunk.group is None:
        return set()
    labels = chunk.group.slice(0, LOOKED_AT).cast(pa.large_string()).to_pylist()
    return set(zip(chunk.step[:LOOKED_AT].tolist(), labels, strict=True))
