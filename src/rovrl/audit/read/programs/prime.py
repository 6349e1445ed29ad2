"""prime-rl's `rollouts/step_{N}/train/{effective,all}/traces.jsonl`: one episode per line. By the schema of its code.

`effective` holds what was trained on, `all` also what was filtered out; the former is read where it exists. `eval` is not read.
A batch may end within a group: its other traces are in the next step's file, and the group counts where it began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from rovrl.audit.arrow import flag_array
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import batches, columns_of

NAMES = ("traces.jsonl", "traces.jsonl.gz")
SUBSETS = ("effective", "all")
STEP = re.compile(r"step_(\d{1,15})")
LEFT_OUT = {
    "failed": "{n} traces failed and were left out: prime-rl compares none of them with the others",
    "frozen": "{n} traces of agents that are not trained were left out",
}


@dataclass
class PrimeReader(Reader):
    """Episodes as prime-rl's file monitor writes them; a trace is a response, and its group is the episode's."""

    began: dict[str, int] = field(default_factory=dict)
    """The step at which each group came first."""
    name: ClassVar[str] = "prime"
    title: ClassVar[str] = "prime-rl traces"
    logs_advantages: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """The files of the training at `path`, in the order of the steps."""
        if path.is_file():
            return [path] if path.name.lower() in NAMES and _is_prime(path) else []
        for folder in (path, path / "rollouts"):
            steps = [step for step in folder.glob("step_*") if STEP.fullmatch(step.name)]
            found = [file for step in sorted(steps, key=natural) if (file := _training(step)) is not None]
            if any(_is_prime(file) for file in found[:3]):
                return found
        return []

    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """See `Reader`."""
        step = next((int(named[1]) for parent in file.parents if (named := STEP.fullmatch(parent.name))), 0)
        if file.parent.name == "effective":
            where = "what was trained on is read (effective/); groups that prime-rl filtered out are in all/ alone"
            notes.tell("effective_only", f"{where}, which can be audited file by file")
        for batch in batches(file, None, notes):
            if "left_out" not in batch.names:
                notes.tell("damaged_file", f"{file} holds no episodes of prime-rl and was left out")
                return
            yield _kept(self._chunk(batch, step, want), batch, notes)

    def _chunk(self, batch: Batch, step: int, want: frozenset[str]) -> Chunk:
        texts, group = bool(want & {"text", "prompt"}), batch.texts("trace_group")
        began = [self.began.setdefault(name, step) if name else step for name in group.to_pylist()]
        return Chunk(
            row=batch.rows,
            reward=batch.numbers("reward"),
            step=np.array(began, dtype=np.int64),
            group=group,
            advantage=batch.numbers("advantage") if "advantage" in want else None,
            prompt=batch.texts("prompt") if texts else None,
            completion=batch.texts("completion") if texts else None,
        )


def _training(step: Path) -> Path | None:
    """The file of one step's training: what was trained on, else everything."""
    places = (step / "train" / subset / name for subset in SUBSETS for name in NAMES)
    return next((place for place in places if place.is_file()), None)


def _kept(chunk: Chunk, batch: Batch, notes: Notes) -> Chunk:
    """The rows without those that are in no group."""
    why = batch.texts("left_out").to_pylist()
    for reason, sentence in LEFT_OUT.items():
        notes.count(f"{reason}_traces", sentence, why.count(reason))
    keep = np.array([reason is None for reason in why], dtype=bool)
    flags = flag_array(keep)
    pick = lambda column: None if column is None else column.filter(flags)  # noqa: E731
    return Chunk(
        row=chunk.row[keep],
        reward=chunk.reward[keep],
        step=chunk.step[keep],
        group=pick(chunk.group),
        advantage=None if chunk.advantage is None else chunk.advantage[keep],
        prompt=pick(chunk.prompt),
        completion=pick(chunk.completion),
    )


def _is_prime(file: Path) -> bool:
    return "left_out" in columns_of(file, Notes())
