"""Chunks of rows -> groups: every reward once, in its group, with the place where its texts can be found again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import flags_of, integers_of, joined, taken, text_array
from rovrl.audit.read.cells import decodable, plain
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rows import Chunk, Reader
from rovrl.audit.read.tables import pa, pc
from rovrl.errors import RovrlError
from rovrl.output.progress import Progress

MOST_LABELS = 2**30
"""Bytes of the names of all groups, which are held in memory; a prompt can be the name of its group."""
PER_ROW = ("reward", "file", "row", "advantage", "planted", "digest")
"""The columns of `Rollouts` that have one entry per response."""


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
    row: NDArray[np.int64]
    advantage: NDArray[np.float64] | None = None
    planted: NDArray[np.bool_] | None = None
    digest: NDArray[np.int64] | None = None
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

    def arranged(
        self, sizes: NDArray[np.int64], groups: NDArray[np.int64], rows: NDArray[np.int64] | None = None
    ) -> Rollouts:
        """Groups of these sizes, with step and label of `groups`; `rows` in their new order, None: as they are."""
        columns = {} if rows is None else {name: taken(getattr(self, name), rows) for name in PER_ROW}
        start = np.concatenate([[0], np.cumsum(sizes)])
        return replace(self, start=start, step=self.step[groups], label=taken(self.label, groups), **columns)

    def select(self, keep: NDArray[np.bool_]) -> Rollouts:
        """Only the groups where `keep` is True."""
        if keep.all():
            return self
        return self.arranged(self.size[keep], np.flatnonzero(keep), np.flatnonzero(np.repeat(keep, self.size)))

    def merged(self) -> Rollouts:
        """Groups with the same step and label as one, where the first of them is; the rows keep their order in it."""
        if pa.types.is_integer(self.label.type) and (np.diff(integers_of(self.label)) > 0).all():
            return self
        codes = self.label.dictionary_encode()
        if len(codes.dictionary) == self.groups:  # every one has a label of its own: the usual case
            return self
        code = integers_of(codes.indices)
        _, rank = np.unique(self.step, return_inverse=True)
        _, first, inverse = np.unique(rank * (code.max() + 1) + code, return_index=True, return_inverse=True)
        position = np.empty(len(first), dtype=np.int64)
        position[np.argsort(first, kind="stable")] = np.arange(len(first))
        group = position[inverse]
        sizes = np.bincount(group, weights=self.size, minlength=len(first)).astype(np.int64)
        return self.arranged(sizes, np.sort(first), np.argsort(np.repeat(group, self.size), kind="stable"))


def load(reader: Reader, files: list[Path], want: frozenset[str], notes: Notes, progress: Progress) -> Rollouts:
    """All rows of `files`, grouped by label: by (step, label), or by runs of equal labels where the reader says so."""
    parts: dict[str, list[Any]] = defaultdict(list)
    total, done, held = sum(map(_bytes, files)), 0, 0
    for number, file in enumerate(files):
        progress(done, total, "reading")
        for chunk in reader.chunks(file, want, notes):
            chunk = _labelled(chunk, notes)
            if not len(chunk):
                continue
            starts = np.flatnonzero(np.append(True, _changes(chunk.group, chunk.step)))
            label = plain(decodable(taken(chunk.group, starts)))
            held += label.nbytes
            if held > MOST_LABELS:
                raise RovrlError(
                    f"the names of the groups take more than {MOST_LABELS / 2**30:,.3g} GB: name a column with short ones "
                    "with --group-column, or audit fewer files at a time"
                )
            parts["label"].append(label)
            parts["length"].append(np.diff(starts, append=len(chunk)))
            parts["step"].append(chunk.step[starts])
            parts["file"].append(np.full(len(chunk), number, dtype=np.int32))
            for name in ("reward", "row", "advantage", "planted", "digest"):
                parts[name].append(getattr(chunk, name))
        done += _bytes(file)
    progress(total, total, "reading")
    return _grouped(reader, files, notes, parts)


def _grouped(reader: Reader, files: list[Path], notes: Notes, parts: dict[str, list[Any]]) -> Rollouts:
    """The runs of equal labels of all chunks, put together as the reader says."""
    logged = [
        name for name in ("advantage", "planted", "digest") if parts[name] and all(p is not None for p in parts[name])
    ]
    reward = joined(parts["reward"], np.float64)
    runs = Rollouts(
        kind=reader.name,
        files=files,
        reward=np.where(np.isinf(reward), np.nan, reward),
        start=np.concatenate([[0], np.cumsum(joined(parts["length"], np.int64))]),
        step=joined(parts["step"], np.int64),
        label=_one_kind(parts["label"]),
        file=joined(parts["file"], np.int32),
        row=joined(parts["row"], np.int64),
        **{name: joined(parts[name], None) for name in logged},
        by_runs=reader.by_runs,
        notes=notes,
    )
    if not reader.by_runs:
        runs = runs.merged()
    elif runs.groups:  # a run that goes on in the next chunk of its file is one
        new = _changes(runs.label, runs.step) | (np.diff(runs.file[runs.start[:-1]]) != 0)
        first = np.flatnonzero(np.append(True, new))
        runs = runs.arranged(np.add.reduceat(runs.size, first), first)
    return replace(runs, label=runs.label.cast(pa.large_string()))


def _one_kind(parts: list[Any]) -> Any:
    """The labels of all runs as one array: whole numbers as they are, anything else as text."""
    if not parts:
        return text_array([])
    kinds = {part.type for part in parts}
    kind = kinds.pop() if len(kinds) == 1 else None
    kind = kind if kind is not None and pa.types.is_integer(kind) else pa.large_string()
    return pa.concat_arrays([part.cast(kind) for part in parts])


def _labelled(chunk: Chunk, notes: Notes) -> Chunk:
    """The chunk without rows that name no group; in a chunk without any labels nothing is left."""
    if chunk.group is not None and not chunk.group.null_count:
        return chunk
    known = np.zeros(len(chunk), dtype=bool) if chunk.group is None else flags_of(chunk.group.is_valid())
    notes.count("no_group", "{n} rows name no group and were left out", int((~known).sum()))
    return chunk.where(known)


def _changes(label: Any, step: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where the label or the step differs from the one before, from the second on."""
    label = label.indices if pa.types.is_dictionary(label.type) else label
    if pa.types.is_integer(label.type):
        values = integers_of(label)
        change = values[1:] != values[:-1]
    else:
        change = flags_of(pc.not_equal(label.slice(1), label.slice(0, max(len(label) - 1, 0))))
    return change | (step[1:] != step[:-1])


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
