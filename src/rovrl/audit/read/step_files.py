"""Dumps with one file of JSON lines per step, which name their columns themselves: verl, NeMo-RL, prime-rl.

The last two are read by the schema of their code; their lines become rows of one response each in `json_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from rovrl.audit.arrays import text_array
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rows import Chunk, Reader
from rovrl.audit.read.table import natural, steps
from rovrl.audit.read.tables import columns_of
from rovrl.audit.read.texts import ending

LINES = (".jsonl", ".jsonl.gz")
LOOKED_AT = 3
"""Files of a folder whose columns are looked at: the first ones may be damaged."""
LEFT_OUT = {
    "failed": "{n} traces failed and were left out: prime-rl compares none of them with the others",
    "frozen": "{n} traces of agents that are not trained were left out",
}


@dataclass
class StepFiles(Reader):
    """Files of JSON lines that are known by their columns, the step by the name of the file."""

    marks: ClassVar[set[str]]
    """The columns that show the kind."""
    score: ClassVar[str] = "reward"
    texts: ClassVar[tuple[str, str]] = ("prompt", "completion")

    def _known(self, files: Iterable[Path]) -> list[Path]:
        """The files in the order of the steps, if the first of them are of this kind; else none."""
        found = sorted((file for file in files if ending(file) in LINES), key=natural)
        return found if any(self.marks <= set(columns_of(file, Notes())) for file in found[:LOOKED_AT]) else []

    def _chunk(self, batch: Batch, want: frozenset[str], step: np.ndarray, group: object) -> Chunk:
        """The rows with the columns that all of these kinds have."""
        chunk = Chunk(row=batch.rows, reward=batch.numbers(self.columns.reward or self.score), step=step, group=group)
        if want & {"text", "prompt"}:
            chunk.prompt, chunk.completion = (batch.texts(name) for name in self.texts)
        return chunk


@dataclass
class VerlReader(StepFiles):
    """verl's `trainer.rollout_data_dir/{step}.jsonl`: input, output, score, step, uid per trajectory.

    The group is the uid without its session and output numbers. Pad rows (uid "pad...") are not responses. Older dumps have no
    uid: there a group is the set of rows with the same input in one file.
    """

    name: ClassVar[str] = "verl"
    title: ClassVar[str] = "verl rollouts"
    takes: ClassVar[tuple[str, ...]] = ("reward",)
    logs_parts: ClassVar[bool] = True
    marks: ClassVar[set[str]] = {"input", "output", "score"}
    score: ClassVar[str] = "score"
    texts: ClassVar[tuple[str, str]] = ("input", "output")

    def __post_init__(self) -> None:
        self.needs = () if self.columns.reward else ("score",)

    def files(self, path: Path) -> list[Path]:
        """The step files in `path`, or in a folder with a usual name directly below it."""
        if path.is_file():
            return self._known([path])
        folders = (path, path / "rollouts", path / "rollout_data", path / "rollout")
        return next((found for f in folders if f.is_dir() and (found := self._known(f.iterdir()))), [])

    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """See `Reader`."""
        stem = file.name.split(".")[0]
        number = int(stem) if stem.isdecimal() and len(stem) < 16 else 0
        if "uid" in batch.names:
            uids = batch.texts("uid").to_pylist()
            group = text_array(uid.rsplit("_", 2)[0] if uid else None for uid in uids)
        else:
            said = "the dump has no uid: responses with the same input in one file form a group"
            notes.tell("grouped_by_prompt", said)
            group = batch.texts("input")
        chunk = self._chunk(batch, want, steps(batch, "step", notes, otherwise=number), group)
        pad = np.array([bool(label) and label.startswith("pad") for label in group.to_pylist()], dtype=bool)
        notes.count("pad_rows", "{n} pad rows (uid pad...) were left out: they are not responses", int(pad.sum()))
        return chunk.where(~pad)


@dataclass
class NemoReader(StepFiles):
    """NeMo-RL's `train_data_step{N}.jsonl` in its log directory: one sample per line, without group ids.

    The responses of a group follow one another; they share the tokens before the first one that is trained on. `val_data_step*`
    is validation and is not read.
    """

    by_runs: bool = True
    needs: tuple[str, ...] = ("prompt_key",)
    name: ClassVar[str] = "nemo"
    title: ClassVar[str] = "NeMo-RL training data"
    marks: ClassVar[set[str]] = {"prompt_key"}
    NAME: ClassVar[re.Pattern[str]] = re.compile(r"train_data_step(\d{1,15})\.jsonl(\.gz)?", re.IGNORECASE)

    def files(self, path: Path) -> list[Path]:
        """The step files at `path` or in it."""
        every = [path] if path.is_file() else path.iterdir() if path.is_dir() else []
        return self._known(file for file in every if self.NAME.fullmatch(file.name) and file.is_file())

    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """See `Reader`."""
        named = self.NAME.fullmatch(file.name)
        step = np.full(len(batch), int(named[1]) if named else 0, dtype=np.int64)
        return self._chunk(batch, want, step, batch.texts("prompt_key"))


@dataclass
class PrimeReader(StepFiles):
    """prime-rl's `rollouts/step_{N}/train/{effective,all}/traces.jsonl`: one episode per line; a trace is a response.

    `effective` holds what was trained on, `all` also what was filtered out; the former is read where it exists. `eval` is not
    read. A batch may end within a group: its other traces are in the next step's file, and the group counts where it began.
    """

    needs: tuple[str, ...] = ("left_out",)
    began: dict[str, int] = field(default_factory=dict)
    """The step at which each group came first."""
    name: ClassVar[str] = "prime"
    title: ClassVar[str] = "prime-rl traces"
    logs_advantages: ClassVar[bool] = True
    marks: ClassVar[set[str]] = {"left_out"}
    NAMES: ClassVar[tuple[str, ...]] = ("traces.jsonl", "traces.jsonl.gz")
    STEP: ClassVar[re.Pattern[str]] = re.compile(r"step_(\d{1,15})")

    def files(self, path: Path) -> list[Path]:
        """The files of the training at `path`, of each step what was trained on, else everything."""
        if path.is_file():
            return self._known([path] if path.name.lower() in self.NAMES else [])
        for folder in (path, path / "rollouts"):
            steps = [step for step in folder.glob("step_*") if self.STEP.fullmatch(step.name)]
            if found := self._known(file for step in steps if (file := self._training(step)) is not None):
                return found
        return []

    def _training(self, step: Path) -> Path | None:
        places = (step / "train" / kind / name for kind in ("effective", "all") for name in self.NAMES)
        return next(filter(Path.is_file, places), None)

    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """See `Reader`."""
        step = next((int(named[1]) for parent in file.parents if (named := self.STEP.fullmatch(parent.name))), 0)
        if file.parent.name == "effective":
            where = "what was trained on is read (effective/); groups that prime-rl filtered out are in all/ alone"
            notes.tell("effective_only", f"{where}, which can be audited file by file")
        group, why = batch.texts("trace_group"), batch.texts("left_out").to_pylist()
        began = [self.began.setdefault(name, step) if name else step for name in group.to_pylist()]
        chunk = self._chunk(batch, want, np.array(began, dtype=np.int64), group)
        chunk.advantage = batch.numbers("advantage") if "advantage" in want else None
        for reason, sentence in LEFT_OUT.items():
            notes.count(f"{reason}_traces", sentence, why.count(reason))
        return chunk.where(np.array([reason is None for reason in why], dtype=bool))
