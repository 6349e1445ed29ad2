"""verl's `trainer.rollout_data_dir/{step}.jsonl`: input, output, score, step, uid per trajectory.

The group is the uid without its session and output numbers. Pad rows (uid "pad...") are not responses. Older dumps have no
uid: there a group is the set of rows with the same input in one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from rovrl.audit.arrow import flag_array, text_array
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.lines import ending
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.table import natural, steps
from rovrl.audit.read.tables import batches, columns_of

MARKS = {"input", "output", "score"}


@dataclass
class VerlReader(Reader):
    """Trajectories as verl dumps them."""

    name: ClassVar[str] = "verl"
    title: ClassVar[str] = "verl rollouts"
    takes: ClassVar[tuple[str, ...]] = ("reward",)
    logs_parts: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """The step files in `path`, or in a folder with a usual name directly below it."""
        if path.is_file():
            return [path] if ending(path) in (".jsonl", ".jsonl.gz") and _is_verl(path) else []
        for folder in (path, path / "rollouts", path / "rollout_data", path / "rollout"):
            every = folder.iterdir() if folder.is_dir() else ()
            found = sorted((file for file in every if ending(file) in (".jsonl", ".jsonl.gz")), key=natural)
            if any(_is_verl(file) for file in found[:3]):
                return found
        return []

    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """See `Reader`."""
        stem = file.name.split(".")[0]
        number = int(stem) if stem.isdecimal() and len(stem) < 16 else 0
        for batch in batches(file, None, notes):
            if "score" not in batch.names and self.columns.reward is None:
                notes.tell(
                    "damaged_file", f"{file} has no score column and was left out: it is not a rollout dump of verl"
                )
                return
            chunk = self._chunk(batch, number, notes)
            if want & {"text", "prompt"}:
                chunk.prompt = batch.texts("input")
                chunk.completion = batch.texts("output")
            yield _without_pads(chunk, notes)

    def _chunk(self, batch: Batch, number: int, notes: Notes) -> Chunk:
        reward = self.columns.reward or "score"
        if "uid" in batch.names:
            group = text_array(_prompt_of(uid) for uid in batch.texts("uid").to_pylist())
        else:
            notes.tell(
                "grouped_by_prompt", "the dump has no uid: responses with the same input in one file form a group"
            )
            group = batch.texts("input")
        return Chunk(
            row=batch.rows,
            reward=batch.numbers(reward) if reward in batch.names else np.full(len(batch), np.nan),
            step=steps(batch, "step", notes, otherwise=number),
            group=group,
        )


def _prompt_of(uid: str | None) -> str | None:
    return uid.rsplit("_", 2)[0] if uid else None


def _without_pads(chunk: Chunk, notes: Notes) -> Chunk:
    pad = np.array([bool(label) and label.startswith("pad") for label in chunk.group.to_pylist()], dtype=bool)
    if not pad.any():
        return chunk
    notes.count("pad_rows", "{n} pad rows (uid pad...) were left out: they are not responses", int(pad.sum()))
    keep = flag_array(~pad)
    return Chunk(
        row=chunk.row[~pad],
        reward=chunk.reward[~pad],
        step=chunk.step[~pad],
        group=chunk.group.filter(keep),
        prompt=chunk.prompt.filter(keep) if chunk.prompt is not None else None,
        completion=chunk.completion.filter(keep) if chunk.completion is not None else None,
    )


def _is_verl(file: Path) -> bool:
    return set(columns_of(file, Notes())) >= MARKS
