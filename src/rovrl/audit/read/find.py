"""What lies at a path: one run and the reader for it, or several runs side by side.

Tables side by side are pieces of one run, or several runs: their names say it, and where they do not, what they hold.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from rovrl.audit.read.completions import SwiftReader, TrlReader
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.records import RecordReader
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Columns, Reader
from rovrl.audit.read.step_files import NemoReader, PrimeReader, VerlReader
from rovrl.audit.read.table import TableReader, is_skipped, listed, natural, reached_once, table_files
from rovrl.audit.read.tables import READ, batches, columns_of, refusal
from rovrl.audit.read.texts import ending
from rovrl.errors import RovrlError, did_you_mean

READERS: dict[str, type[Reader]] = {
    kind.name: kind for kind in (RecordReader, TrlReader, SwiftReader, NemoReader, PrimeReader, VerlReader, TableReader)
}
"""Kinds of dumps, in the order in which they are tried."""
OWN_FILES = tuple(name for name in READERS if name != TableReader.name)
"""Kinds that are known by their own files; any file with rewards may be a table."""
DEPTH = 3
"""Folders below a path in which runs are looked for."""
PIECE = r"(step|epoch|rank|shard|part|iter|worker|node|chunk)s?[-_.]?\d+"
PIECES = re.compile(rf"(?<![a-z]){PIECE}|(?<!\d)\d+-of-\d+", re.IGNORECASE)
"""What the name of a piece of a run has in it."""
FOLDER_PIECE = re.compile(rf"(global_)?{PIECE}", re.IGNORECASE)
"""The whole name of a folder that holds a piece of a run."""
NUMBER = re.compile(r"[-_.\d]+")
"""The whole name of a folder that a sweep numbers: a piece of a run, or a run."""
RUN = re.compile(r"(?<![a-z])(run|seed|exp|trial|lr)", re.IGNORECASE)
"""Names of runs may be numbered too."""
LOOKED_AT = 4096
"""Rows of each table that are compared: runs begin alike."""


def find_runs(path: Path, format: str, columns: Columns) -> list[Path]:
    """The runs at `path`: itself, or the folders and tables below it where it holds several runs side by side; never empty.

    A folder of `rovrl train` with one run per method and seed, verl's train/ and val/, a folder of runs: groups with the same
    name in two of them are two groups.
    """
    kinds = OWN_FILES if format == "auto" else (format,) if format in OWN_FILES else ()
    holds = lambda place: any(READERS[kind](columns).files(place) for kind in kinds)  # noqa: E731
    try:
        if not path.is_dir() or holds(path):
            return [path]
        folders = [folder for depth in range(1, DEPTH + 1) for folder in path.glob("/".join("*" * depth))]
        folders = [folder for folder in folders if folder.is_dir() and not is_skipped(folder.relative_to(path))]
        runs = {folder for folder in reached_once(folders, path) if holds(folder)}
        runs = {run for run in runs if not any(parent in runs for parent in run.parents)}
        if not runs and format in ("auto", TableReader.name):
            reader = TableReader(columns)
            runs = _runs_apart(path, reader.files(path), reader)
    except OSError as error:
        raise RovrlError(f"{error.filename or path} cannot be read: {error.strerror or error}") from error
    return sorted(runs, key=natural) or [path]


def find_reader(path: Path, format: str, columns: Columns) -> tuple[Reader, list[Path]]:
    """The reader for what lies at `path`, and its files; a RovrlError that says what was looked for."""
    if not path.exists():
        raise RovrlError(f"{path} does not exist: name a run directory, a folder of rollouts, or one file of rollouts")
    if format not in ("auto", *READERS):
        raise RovrlError(f"--format must be auto, {', '.join(READERS)}, not {format}")
    try:
        for name in READERS if format == "auto" else (format,):
            reader = READERS[name](columns)
            if files := reader.files(path):
                _check_columns(reader, files, columns)
                return reader, files
    except OSError as error:
        raise RovrlError(f"{path} cannot be read: {error.strerror or error}") from error
    raise RovrlError(_nothing_found(path, format, columns))


def _check_columns(reader: Reader, files: list[Path], columns: Columns) -> None:
    """A RovrlError for a named column that is not there, or that this kind of dump does not need."""
    named = {what: getattr(columns, what) for what in Columns.USUAL if getattr(columns, what) is not None}
    if unused := [what for what in named if what not in reader.takes]:
        option = f"--{unused[0].replace('_', '-')}-column"
        raise RovrlError(f"{option} is for tables, and this is {reader.title}; --format table reads it as a table")
    if columns.reward_weights and not reader.weighs:
        raise RovrlError(f"--reward-weight is for dumps with several reward functions, and this is {reader.title}")
    if not named:
        return
    present = {name for file in (*files[:2], files[-1]) for name in columns_of(file, Notes())}
    for what, name in named.items():
        if name not in present:
            option = f"--{what.replace('_', '-')}-column"
            hint = did_you_mean(name, present) or f"; its columns are {listed(sorted(present))}"
            raise RovrlError(f"{files[0]} has no column {name!r} ({option}){hint}")


def _nothing_found(path: Path, format: str, columns: Columns) -> str:
    """Why there is nothing to audit, and what to do about it."""
    if path.is_file() and ending(path) not in READ:
        return refusal(path)
    if not path.is_file() and not path.is_dir():
        return f"{path} is not read: it is neither a file nor a folder, and a pipe or a device may never end"
    if format in OWN_FILES:
        return f"no rollouts found at {path}: it holds no {READERS[format].title}; leave out --format to try every kind"
    notes = Notes()
    for file in [path] if path.is_file() else table_files(path)[:1]:
        present = columns_of(file, notes) or next((batch.names for batch in batches(file, None, notes, size=1)), [])
        if present and columns.find("reward", present) is None:
            if columns.reward and (hint := did_you_mean(columns.reward, present)):
                return f"{file} has no column {columns.reward!r} (--reward-column){hint}"
            named = f"no column {columns.reward!r}" if columns.reward else "no reward column with a usual name"
            return (
                f"{file} has {named}; its columns are {listed(present)}: name the reward with --reward-column "
                "(and --group-column, --step-column, --prompt-column, --completion-column)"
            )
    told = "; ".join(note.sentence for note in notes.all())
    if path.is_file():
        told = told or ("the file is empty" if not path.stat().st_size else "the file holds no rows")
        return f"no rollouts found at {path}: {told}; a table has one row per response, JSON one object per line"
    return (
        f"no rollouts found at {path}{': ' + told if told else ''}; looked for records (step_*.parquet), TRL's "
        "completions_*.parquet, ms-swift's completions.jsonl, NeMo-RL's train_data_step*.jsonl, prime-rl's traces.jsonl, "
        "verl's *.jsonl, and tables (.parquet, .jsonl, .jsonl.gz, .csv) with a reward column"
    )


def tell_shared(rollouts: Rollouts) -> None:
    """A note on groups with rows in several files, unless names say that these are pieces of a run."""
    first, last = rollouts.file[rollouts.start[:-1]], rollouts.file[rollouts.start[1:] - 1]
    shared = np.flatnonzero(first != last)
    some = [rollouts.files[int(number[shared[0]])] for number in (first, last)] if len(shared) else []
    if some and not all(_is_piece(one.name) or _is_piece(one.parent.name) for one in some):
        rollouts.notes.tell(
            "groups_over_files",
            f"{len(shared):,} groups have rows in several files, as in {some[0]} and {some[1]}: rows of one step with the same "
            "group id were taken as one group; if the files are of different runs, audit them one by one",
        )


def _runs_apart(path: Path, files: list[Path], reader: Reader) -> set[Path]:
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
        if not any(NUMBER.fullmatch(folder.name) for folder in folders):
            return set(first)
    elif _numbered(list(first)) or any(_is_piece(head.name) for head in first):
        return set()
    shared = [_groups(reader, first[head]) for head in (folders if len(folders) > 1 else first)]
    return set(first) if all(shared[0] & other for other in shared[1:]) else set()


def _is_piece(name: str) -> bool:
    return bool(PIECES.search(name))


def _numbered(heads: list[Path]) -> bool:
    """Whether the names differ in numbers alone, and are not those of runs."""
    names = {re.sub(r"\d+", "", head.name.lower()) for head in heads}
    return len(names) == 1 and not RUN.search(names.pop())


def _groups(reader: Reader, file: Path) -> set[tuple[int, str]]:
    """(step, group) of the first rows; prompts alone, which come again in every epoch, name no group."""
    if reader.by_runs and reader.columns.find("step", columns_of(file, Notes())) is None:
        return set()
    try:
        chunk = next(iter(reader.chunks(file, frozenset(), Notes())), None)
    except RovrlError:
        return set()
    if chunk is None or chunk.group is None:
        return set()
    labels = map(str, chunk.group.slice(0, LOOKED_AT).to_pylist())
    return set(zip(chunk.step[:LOOKED_AT].tolist(), labels, strict=True))
