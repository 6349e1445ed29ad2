"""ms-swift's `completions.jsonl`, as its GRPO trainers write it with `log_completions`: TRL's columns, one batch per line.

A line is what the trainer holds at a log: the last generation, again at every log inside it and once more at the end of the
training, so what an earlier line held counts once. With `log_entropy` a line ends where the training has come to in its batch,
and the next begins with the same rows. Evaluation goes into the same file unmarked; what else lies in the folder tells it apart
(`swift_run`). Megatron's trainers write `gen_step`: those are read by the schema of their code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rovrl.audit.read.cells import Batch, DictBatch
from rovrl.audit.read.lines import lines
from rovrl.audit.read.programs.samples import is_batch
from rovrl.audit.read.programs.swift_run import LOG, Log, Settings
from rovrl.audit.read.programs.trl import TrlReader
from rovrl.audit.read.rows import Notes
from rovrl.audit.read.table import matching
from rovrl.audit.read.tables import batches, check_regular
from rovrl.audit.read.texts import MOST_BYTES

NAMES = ("completions.jsonl", "completions.jsonl.gz")
NOT_COMPARED = ("step", "gen_step", "entropy")
"""Columns that change while their batch stays: entropies are those of the responses that were trained on last."""
NOT_REWARDS = ("step", "gen_step", "prompt", "completion", "advantages", "entropy", "num_turns", "solution")


@dataclass
class SwiftReader(TrlReader):
    """Completions as ms-swift logs them; the reward is the weighted sum of the reward functions' columns."""

    repeats: bool = False
    name: ClassVar[str] = "swift"
    title: ClassVar[str] = "ms-swift completions"
    fixed: ClassVar[tuple[str, ...]] = NOT_REWARDS

    def files(self, path: Path) -> list[Path]:
        """The completions file at `path` or in it."""
        found = [path] if path.is_file() else matching(path, "completions.jsonl*")
        return [file for file in found if file.name.lower() in NAMES and file.is_file() and _is_swift(file)][:1]

    def _reward_names(self, batch: Batch, file: Path, notes: Notes) -> list[str]:
        """Their weights are those of the run, where it saved its settings; else as for TRL."""
        if self.found is None and not (self.weights or self.columns.reward or self.columns.reward_weights):
            settings = Settings.of(file)
            self.group_size = settings.group_size
            self.weights = settings.weights([name for name in batch.names if name not in self.fixed], notes)
        return super()._reward_names(batch, file, notes)

    def _all_batches(self, file: Path, names: list[str]) -> Iterator[Batch]:
        return batches(file, None, Notes(), size=1)

    def _batches(self, file: Path, notes: Notes) -> Iterator[Batch]:
        """One line after the other, without evaluation and without the rows that an earlier line held."""
        log, seen, last, began = Log(file, notes), set[int](), list[int](), {}
        again = evaluated = 0
        for batch in batches(file, None, notes, size=1):
            rows = _contents(batch)
            known = _known(rows, last, seen)
            seen.add(hash(tuple(rows)))
            last = rows
            began = began if known else _step(batch)
            if log.is_evaluation(batch) and not self.keep_evaluation:
                evaluated += len(batch) - known
                continue
            again += known
            if known < len(batch) and isinstance(batch, DictBatch):
                yield DictBatch(batch.rows[known:].tolist(), [row | began for row in batch.values[known:]])
        notes.count("logged_twice", "{n} responses were logged again, in lines that repeat an earlier line", again)
        notes.count(
            "evaluation_rows",
            f"{{n}} responses are evaluation, as {LOG} says, and were left out; --keep-evaluation keeps them",
            evaluated,
        )


def _known(rows: list[int], last: list[int], seen: set[int]) -> int:
    """How many of the first rows an earlier line held: all of a line that comes again, or those that the last line began with.

    Single responses may come again as a policy collapses; so only a whole line, the shorter of the two, is compared.
    """
    both = min(len(rows), len(last))
    if len(rows) > 1 and hash(tuple(rows)) in seen:
        return len(rows)
    return both if both > 1 and rows[:both] == last[:both] else 0


def _step(batch: Batch) -> dict[str, object]:
    """The step of a line: a group that goes on in the next line of its generation is one group."""
    first = batch.values[0] if isinstance(batch, DictBatch) and batch.values else {}
    return {name: first[name] for name in ("step", "gen_step") if name in first}


def _contents(batch: Batch) -> list[int]:
    """One number per row, equal for equal cells."""
    values = batch.values if isinstance(batch, DictBatch) else []
    cells = ([cell for name, cell in row.items() if name not in NOT_COMPARED] for row in values)
    return [hash(json.dumps(row)) for row in cells]


def _is_swift(file: Path) -> bool:
    """Whether the first line is a batch with columns of rewards."""
    try:
        check_regular(file)
        first = json.loads(next(lines(file, Notes(), MOST_BYTES), ""))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and is_batch(first) and bool(first.keys() - set(NOT_REWARDS))
