"""Chunks of rows -> groups: every reward once, in its group, with the place where its texts can be found again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import joined
from rovrl.audit.arrow import flag_array, flags_of, index_array, integers_of, text_array
from rovrl.audit.bombs import unpacked
from rovrl.audit.read.apart import tell_shared
from rovrl.audit.read.cells import decodable
from rovrl.audit.read.numbering import Rows, files_of_rows, numbered, shortest
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.tables import pa, pc
from rovrl.errors import RovrlError
from rovrl.output.progress import Progress

MOST_LABELS = 2**30
"""Bytes of the names of all groups, which are held in memory; a prompt can be the name of its group."""


@dataclass
class Rollouts:
    """Rewards by group: group k holds rows start[k] .. start[k+1]-1."""

    kind: str
    files: list[Path]
    reward: NDArray[np.float64]
    start: NDArray[np.int64]
    step: NDArray[np.int64]
    label: Any
    """pyarrow string array, one per group."""
    file: NDArray[np.int32]
    row: Rows
    advantage: NDArray[np.float64] | None = None
    planted: NDArray[np.bool_] | None = None
    digest: NDArray[np.uint64] | None = None
    by_runs: bool = False
    notes: Notes = field(default_factory=Notes)

    @property
    def size(self) -> NDArray[np.int64]:
        """Responses per group."""
        return np.diff(self.start)

    @property
    def groups(self) -> int:
        """How many groups."""
        return len(self.step)

    def rows_of(self, group: int) -> slice:
        """The rows of one group."""
        return slice(int(self.start[group]), int(self.start[group + 1]))

    def select(self, keep: NDArray[np.bool_]) -> Rollouts:
        """Only the groups where `keep` is True."""
        if keep.all():
            return self
        rows = np.repeat(keep, self.size)
        pick = lambda column: None if column is None else column[rows]  # noqa: E731
        return replace(
            self,
            reward=self.reward[rows],
            start=np.concatenate([[0], np.cumsum(self.size[keep])]),
            step=self.step[keep],
            label=self.label.filter(flag_array(keep)),
            file=self.file[rows],
            row=self.row[rows],
            advantage=pick(self.advantage),
            planted=pick(self.planted),
            digest=pick(self.digest),
        )


def load(reader: Reader, files: list[Path], want: frozenset[str], notes: Notes, progress: Progress) -> Rollouts:
    """All rows of `files`, grouped by label: by (step, label), or by runs of equal labels where the reader says so."""
    gathered = _Gathered(by_runs=reader.by_runs)
    total = sum(_bytes(file) for file in files)
    done = 0
    for number, file in enumerate(files):
        progress(done, total, "reading")
        gathered.new_file()
        for chunk in reader.chunks(file, want, notes):
            gathered.add(chunk, number, notes)
        done += _bytes(file)
    progress(total, total, "reading")
    return gathered.finish(reader, files, notes)


class _Gathered:
    """Runs of rows with equal step and label, collected chunk by chunk."""

    def __init__(self, by_runs: bool) -> None:
        self.by_runs = by_runs
        self.rows: dict[str, list[Any]] = {name: [] for name in ("reward", "advantage", "planted", "digest")}
        self.file: list[tuple[int, int]] = []
        self.row: list[Rows] = []
        self.length: list[NDArray[np.int64]] = []
        self.step: list[NDArray[np.int64]] = []
        self.label: list[Any] = []
        self.last: tuple[int, Any] | None = None
        self.held = 0

    def new_file(self) -> None:
        self.last = None

    def add(self, chunk: Chunk, number: int, notes: Notes) -> None:
        chunk = _labelled(chunk, notes)
        if not len(chunk):
            return
        starts = _run_starts(chunk)
        label = decodable(chunk.group.take(index_array(starts)))
        length = np.diff(np.append(starts, len(chunk)))
        step = chunk.step[starts]
        here, last = ((int(step[k]), label[k].as_py()) for k in (0, len(step) - 1))
        if self.by_runs and self.last == here:  # a run that goes on over the chunk's edge
            self.length[-1][-1] += length[0]
            label, length, step = label.slice(1), length[1:], step[1:]
        self.last = last
        self.held += unpacked(label)
        if self.held > MOST_LABELS:
            held = f"the names of the groups take more than {MOST_LABELS / 2**30:,.3g} GB"
            raise RovrlError(
                f"{held}: name a column with short ones with --group-column, or audit fewer files at a time"
            )
        if len(length):
            self.length.append(length)
            self.step.append(step)
            self.label.append(label)
        self.file.append((number, len(chunk)))
        self.row.append(shortest(chunk.row))
        for name in ("reward", "advantage", "planted", "digest"):
            self.rows[name].append(getattr(chunk, name))

    def finish(self, reader: Reader, files: list[Path], notes: Notes) -> Rollouts:
        length, step = joined(self.length, np.int64), joined(self.step, np.int64)
        label = _labels(self.label)
        rows: dict[str, Any] = {name: self._column(name) for name in self.rows}
        rows |= {"file": files_of_rows(self.file), "row": numbered(self.row)}
        if not self.by_runs:
            order, length, first = merged(step, label, length)
            if order is not None:
                step, label = step[first], label.take(index_array(first))
                rows = {name: None if column is None else column[order] for name, column in rows.items()}
                if reader.any_name:
                    tell_shared(rows["file"], length, files, notes)
        infinite = np.isinf(rows["reward"])
        if infinite.any():
            rows["reward"] = np.where(infinite, np.nan, rows["reward"])
        start = np.concatenate([[0], np.cumsum(length)])
        label = label.cast(pa.large_string())
        return Rollouts(
            reader.name, files, start=start, step=step, label=label, by_runs=self.by_runs, notes=notes, **rows
        )

    def _column(self, name: str) -> Any:
        parts = self.rows[name]
        if name == "reward":
            return joined(parts, np.float64)
        return None if not parts or any(part is None for part in parts) else joined(parts, np.float64)


def _labels(parts: list[Any]) -> Any:
    """The labels of all runs as one array: whole numbers as they are, anything else as text."""
    kinds = {part.type for part in parts}
    kind = kinds.pop() if len(kinds) == 1 else pa.large_string()
    kind = kind if pa.types.is_integer(kind) else pa.large_string()
    if not parts:
        return text_array([])
    return pa.concat_arrays([part.cast(kind) for part in parts])


def merged(
    step: NDArray[np.int64], label: Any, length: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64], NDArray[np.int64]]:
    """Runs with the same (step, label) put together: the new order of rows (None: as it is), sizes, first run of each."""
    if pa.types.is_integer(label.type) and _ascending(integers_of(label)):
        return None, length, np.arange(len(label))
    codes = label.dictionary_encode()
    if len(codes.dictionary) == len(label):  # every run is a group of its own: the usual case
        return None, length, np.arange(len(label))
    code = integers_of(codes.indices)
    _, rank = np.unique(step, return_inverse=True)
    _, first, inverse = np.unique(rank * (code.max() + 1) + code, return_index=True, return_inverse=True)
    position = np.empty(len(first), dtype=np.int64)
    position[np.argsort(first, kind="stable")] = np.arange(len(first))
    group = position[inverse]
    sizes = np.bincount(group, weights=length, minlength=len(first)).astype(np.int64)
    order = np.argsort(np.repeat(group, length), kind="stable")
    return order, sizes, np.sort(first)


def _ascending(values: NDArray[np.int64]) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _labelled(chunk: Chunk, notes: Notes) -> Chunk:
    """The chunk without rows that name no group; in a chunk without any labels nothing is left."""
    if chunk.group is None:
        notes.count("no_group", "{n} rows name no group and were left out", len(chunk))
        return Chunk(chunk.row[:0], chunk.reward[:0], chunk.step[:0])
    if not chunk.group.null_count:
        return chunk
    keep = chunk.group.is_valid()
    kept = flags_of(keep)
    notes.count("no_group", "{n} rows name no group and were left out", int((~kept).sum()))
    pick = lambda column: None if column is None else column[kept]  # noqa: E731
    return Chunk(
        chunk.row[kept],
        chunk.reward[kept],
        chunk.step[kept],
        chunk.group.filter(keep),
        advantage=pick(chunk.advantage),
        digest=pick(chunk.digest),
        planted=pick(chunk.planted),
    )


def _run_starts(chunk: Chunk) -> NDArray[np.int64]:
    """Where the label or the step differs from the row before."""
    labels = chunk.group.indices if pa.types.is_dictionary(chunk.group.type) else chunk.group
    if pa.types.is_integer(labels.type):
        values = integers_of(labels)
        change = values[1:] != values[:-1]
    else:
        change = flags_of(pc.not_equal(labels.slice(1), labels.slice(0, len(labels) - 1)))
    change = change | (chunk.step[1:] != chunk.step[:-1])
    return np.concatenate([[0], np.flatnonzero(change) + 1])


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
