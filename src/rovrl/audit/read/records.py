"""Our own records (`rovrl.records`): one Parquet file per step, one row per response and update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from rovrl.audit.arrow import index_array, integers_of
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import BATCH_ROWS, batches

TOKEN_ROWS = 1024
"""Rows in memory while token log-ratios are read."""


@dataclass
class RecordReader(Reader):
    """Records of a rovrl run: rewards once per response, token log-ratios once per response and update."""

    name: ClassVar[str] = "records"
    title: ClassVar[str] = "rovrl records"
    logs_advantages: ClassVar[bool] = True
    row_per_update: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """The step files at `path`."""
        if path.is_file():
            return [path] if path.suffix == ".parquet" and _is_record(path) else []
        for folder in (path, path / "records"):
            found = sorted(folder.glob("step_*.parquet"), key=natural) if folder.is_dir() else []
            if found:
                return found
        return []

    def has_tokens(self, file: Path) -> bool:
        """See `Reader`."""
        return True

    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """See `Reader`; without "tokens" each response comes once, with them once per update."""
        names = ["step", "update", "group", "response", "reward", "advantage", "contamination", "method"]
        names += ["prompt", "completion"] if "text" in want else ["prompt"] if "prompt" in want else []
        names += ["log_ratios", "clip_low", "clip_high"] if "tokens" in want else []
        seen: set[tuple[object, object]] = set()
        for batch in batches(file, names, notes, TOKEN_ROWS if want & {"tokens", "text"} else BATCH_ROWS):
            missing = [name for name in names if name not in batch.names]
            if missing:
                notes.tell(
                    "damaged_file", f"{file} lacks {', '.join(missing)} and was left out: it is not a record of rovrl"
                )
                return
            if self.method is None and len(batch):
                self.method = batch.texts("method")[0].as_py() or None
            yield self._chunk(batch, want, seen)

    def _chunk(self, batch: Batch, want: frozenset[str], seen: set[tuple[object, object]]) -> Chunk:
        keep = np.arange(len(batch)) if "tokens" in want else _in_order(batch, _first_time(batch, seen))
        chosen = index_array(keep)
        planted = [bool(text) for text in batch.texts("contamination").to_pylist()]
        chunk = Chunk(
            row=batch.rows[keep],
            reward=batch.numbers("reward")[keep],
            step=np.nan_to_num(batch.numbers("step"), posinf=0, neginf=0)[keep].astype(np.int64),
            group=batch.texts("group").take(chosen),
            advantage=batch.numbers("advantage")[keep],
            planted=np.array(planted, dtype=bool)[keep],
        )
        if want & {"text", "prompt"}:
            chunk.prompt = batch.texts("prompt").take(chosen)
        if "text" in want:
            chunk.completion = batch.texts("completion").take(chosen)
        if "tokens" in want:
            chunk.log_ratios = batch.lists("log_ratios")
            chunk.clip = np.stack([batch.numbers("clip_low"), batch.numbers("clip_high")], axis=-1)
        return chunk


def _first_time(batch: Batch, seen: set[tuple[object, object]]) -> np.ndarray:
    """Which rows show a response for the first time: with several updates per generation it has several rows."""
    keep = np.zeros(len(batch), dtype=bool)
    both = zip(batch.texts("group").to_pylist(), batch.numbers("response").tolist(), strict=True)
    for row, name in enumerate(both):
        keep[row] = name not in seen
        seen.add(name)
    return keep


def _in_order(batch: Batch, keep: np.ndarray) -> np.ndarray:
    """The rows of `keep` group by group, in the order in which the run numbered the responses: its blocks count them so."""
    rows = np.flatnonzero(keep)
    group = integers_of(batch.texts("group").dictionary_encode().indices)[rows]
    return rows[np.lexsort((batch.numbers("response")[rows], group))]


def _is_record(path: Path) -> bool:
    from rovrl import records  # with Parquet, which other dumps do not need

    try:
        return records.is_record_set(path)
    except ValueError:  # a damaged head whose names are not text
        return False
