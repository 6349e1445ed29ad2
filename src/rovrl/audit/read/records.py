"""Our own records (`rovrl.records`): one Parquet file per step, one row per response and update, and the calls of servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import integers_of
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.notes import Note, Notes
from rovrl.audit.read.rows import Chunk, Reader
from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import TEXT_ROWS, batches
from rovrl.errors import RovrlError

TOKEN_ROWS = 1024
"""Rows in memory while token log-ratios are read."""
NEEDED = ("step", "update", "group", "response", "reward", "advantage", "contamination", "method")
OPEN = "/breaker_open"


@dataclass
class RecordReader(Reader):
    """Records of a rovrl run: rewards once per response, token log-ratios once per response and update."""

    needs: tuple[str, ...] = NEEDED
    seen: set[tuple[object, object]] = field(default_factory=set)
    """The responses of the file that is being read which have come already."""
    name: ClassVar[str] = "records"
    title: ClassVar[str] = "rovrl records"
    logs_advantages: ClassVar[bool] = True
    row_per_update: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """The step files at `path`."""
        if path.is_file():
            from rovrl import records  # with Parquet, which other dumps do not need

            with suppress(ValueError):  # a damaged head whose names are not text
                return [path] if path.suffix == ".parquet" and records.is_record_set(path) else []
            return []
        for folder in (path, path / "records"):
            found = sorted(folder.glob("step_*.parquet"), key=natural) if folder.is_dir() else []
            if found:
                return found
        return []

    def holds(self, what: str, file: Path) -> bool:
        """See `Reader`."""
        return True

    def batches(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Batch]:
        """Only the columns that are wanted."""
        self.seen = set()
        names = [
            *NEEDED,
            *(["prompt"] if want & {"text", "prompt"} else []),
            *(["completion"] if "text" in want else []),
        ]
        names += ["log_ratios", "clip_low", "clip_high"] if "tokens" in want else []
        self.needs = tuple(names)
        yield from batches(file, names, notes, TOKEN_ROWS if want & {"tokens", "text"} else TEXT_ROWS)

    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """See `Reader`; without "tokens" each response comes once, with them once per update."""
        if self.method is None and len(batch):
            self.method = batch.texts("method")[0].as_py() or None
        chunk = Chunk(
            row=batch.rows,
            reward=batch.numbers("reward"),
            step=np.nan_to_num(batch.numbers("step"), posinf=0, neginf=0).astype(np.int64),
            group=batch.texts("group"),
            advantage=batch.numbers("advantage"),
            planted=np.array([bool(text) for text in batch.texts("contamination").to_pylist()], dtype=bool),
            prompt=batch.texts("prompt") if want & {"text", "prompt"} else None,
            completion=batch.texts("completion") if "text" in want else None,
        )
        if "tokens" not in want:
            return chunk.take(self._first_time(chunk.group, batch.numbers("response")))
        chunk.log_ratios = batch.lists("log_ratios")
        chunk.clip = np.stack([batch.numbers("clip_low"), batch.numbers("clip_high")], axis=-1)
        return chunk

    def _first_time(self, groups: Any, responses: NDArray[np.float64]) -> NDArray[np.int64]:
        """The rows that show a response for the first time: with several updates per generation it has several rows.

        They come group by group, in the order in which the run numbered the responses: its blocks count them so.
        """
        rows = []
        for row, name in enumerate(zip(groups.to_pylist(), responses.tolist(), strict=True)):
            if name not in self.seen:
                self.seen.add(name)
                rows.append(row)
        rows = np.array(rows, dtype=np.int64)
        group = integers_of(groups.dictionary_encode().indices)[rows]
        return rows[np.lexsort((responses[rows], group))]


def server_notes(files: Sequence[Path]) -> list[Note]:
    """A note for each server with retries, missing scores or an open breaker in these record files; [] if all went well."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for file in files:
        for step, calls in _calls(file):
            for name in (key.removesuffix(OPEN) for key in calls if key.endswith(OPEN)):
                found.setdefault(name, {})[step] = {
                    key.removeprefix(f"{name}/"): value for key, value in calls.items() if key.startswith(f"{name}/")
                }
    sentences = [_sentence(name, steps) for name, steps in found.items()]
    return [Note("reward_server", sentence) for sentence in sentences if sentence]


def _calls(file: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The step of a file with the numbers of its note; nothing of a damaged one, which the audit has told already."""
    from rovrl import records  # with Parquet, which other dumps do not need
    from rovrl.records.files import CALLS

    with suppress(RovrlError, ValueError):
        for step, notes in records.read_notes(file, report=lambda _: None):
            calls = notes.get(CALLS)
            if isinstance(calls, dict):
                yield step, {name: value for name, value in calls.items() if isinstance(value, int | float)}


def _sentence(name: str, steps: dict[int, dict[str, float]]) -> str:
    def of(key: str) -> np.ndarray:
        return np.array([calls.get(key, 0.0) for calls in steps.values()])

    missing, retries, opened = of("none").mean(), of("retries").sum(), int((of("breaker_open") > 0).sum())
    if not (missing or retries or opened):
        return ""
    reasons = {
        key.removeprefix("none/"): of(key).mean() for key in next(iter(steps.values())) if key.startswith("none/")
    }
    told = ", ".join(f"{reason} {share:.2%}" for reason, share in sorted(reasons.items(), key=lambda r: -r[1]) if share)
    slowest = int(of("seconds/p95").argmax())
    parts = [
        f"{name} gave no score for {missing:.2%} of the responses" + (f" ({told})" if told else ""),
        f"{retries:,.0f} of {of('requests').sum():,.0f} requests were sent again",
        f"the breaker was open after {opened:,} of {len(steps):,} steps",
        f"the slowest step was {list(steps)[slowest]} (95 % of its requests within {of('seconds/p95')[slowest]:.2g} s)",
    ]
    return "; ".join(parts)
