"""What lies at a path: one run and the reader for it, or several runs side by side."""

from __future__ import annotations

from pathlib import Path

from rovrl.audit.read.apart import runs_apart
from rovrl.audit.read.lines import ending
from rovrl.audit.read.programs.nemo import NemoReader
from rovrl.audit.read.programs.prime import PrimeReader
from rovrl.audit.read.programs.swift import SwiftReader
from rovrl.audit.read.programs.trl import TrlReader
from rovrl.audit.read.programs.verl import VerlReader
from rovrl.audit.read.records import RecordReader
from rovrl.audit.read.rows import Columns, Notes, Reader
from rovrl.audit.read.table import TableReader, is_skipped, natural, reached_once, table_files
from rovrl.audit.read.tables import READ, batches, columns_of, refusal
from rovrl.errors import RovrlError

READERS: dict[str, type[Reader]] = {
    kind.name: kind for kind in (RecordReader, TrlReader, SwiftReader, NemoReader, PrimeReader, VerlReader, TableReader)
}
"""Kinds of dumps, in the order in which they are tried."""
OWN_FILES = tuple(name for name in READERS if name != TableReader.name)
"""Kinds that are known by their own files; any file with rewards may be a table."""
DEPTH = 3


def find_runs(path: Path, format: str, columns: Columns) -> list[Path]:
    """The runs at `path`: itself, or the folders and tables below it where it holds several runs side by side; never empty.

    A folder of `rovrl train` with one run per method and seed, verl's train/ and val/, a folder of runs: groups with the same
    name in two of them are two groups.
    """
    try:
        return _found(path, format, columns)
    except OSError as error:
        raise RovrlError(f"{error.filename or path} cannot be read: {error.strerror or error}") from error


def _found(path: Path, format: str, columns: Columns) -> list[Path]:
    if not path.is_dir() or any(READERS[name](columns).files(path) for name in _kinds(format)):
        return [path]
    folders = [folder for depth in range(1, DEPTH + 1) for folder in path.glob("/".join("*" * depth))]
    folders = [f for f in folders if f.is_dir() and not is_skipped(f.relative_to(path))]
    folders = reached_once(folders, path)
    runs = {f for f in folders if any(READERS[name](columns).files(f) for name in _kinds(format))}
    runs = {f for f in runs if not any(parent in runs for parent in f.parents)}
    if not runs and format in ("auto", "table"):
        reader = TableReader(columns)
        runs = runs_apart(path, reader.files(path), reader, columns)
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
    raise RovrlError(_nothing_found(path, columns))


def _kinds(format: str) -> tuple[str, ...]:
    """The kinds to look for by their own files."""
    return OWN_FILES if format == "auto" else (format,) if format in OWN_FILES else ()


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
            raise RovrlError(
                f"{files[0]} has no column {name!r} ({option}); its columns are {_listed(sorted(present))}"
            )


def _nothing_found(path: Path, columns: Columns) -> str:
    if path.is_file() and ending(path) not in READ:
        return refusal(path)
    if not path.is_file() and not path.is_dir():
        return f"{path} is not read: it is neither a file nor a folder, and a pipe or a device may never end"
    notes = Notes()
    candidates = [path] if path.is_file() else table_files(path)[:1]
    for file in candidates:
        present = columns_of(file, notes) or next((batch.names for batch in batches(file, None, notes, size=1)), [])
        if present and columns.find("reward", present) is None:
            named = f"no column {columns.reward!r}" if columns.reward else "no reward column with a usual name"
            return (
                f"{file} has {named}; its columns are {_listed(present)}: name the reward with --reward-column "
                "(and --group-column, --step-column, --prompt-column, --completion-column)"
            )
    told = "; ".join(note.sentence for note in notes.all())
    return (
        f"no rollouts found at {path}{': ' + told if told else ''}; looked for records (step_*.parquet), TRL's "
        "completions_*.parquet, ms-swift's completions.jsonl, NeMo-RL's train_data_step*.jsonl, prime-rl's traces.jsonl, "
        "verl's *.jsonl, and tables (.parquet, .jsonl, .jsonl.gz, .csv) with a reward column"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
