"""ms-swift's `completions.jsonl`, as its GRPO trainers write it with `log_completions`: TRL's columns, one batch per line.

By the schema of its code. The last batch is written again at every log inside one generation, and once more at the end of
the training, so lines that repeat an earlier one count once. Evaluation is logged into the same file, unmarked.
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
from rovrl.audit.read.rows import Notes
from rovrl.audit.read.tables import MOST_BYTES, batches, check_regular
from rovrl.audit.read.trl import TrlReader

NAMES = ("completions.jsonl", "completions.jsonl.gz")
NOT_COMPARED = ("step", "gen_step")
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
        found = [path] if path.is_file() else [path / name for name in NAMES]
        return [file for file in found if file.name in NAMES and file.is_file() and _is_swift(file)][:1]

    def _batches(self, file: Path, notes: Notes) -> Iterator[Batch]:
        """One line after the other, without those that repeat an earlier one but for the step."""
        seen: set[int] = set()
        again = 0
        for batch in batches(file, None, notes, size=1):
            content = _content(batch)
            if len(batch) > 1 and content in seen:
                again += len(batch)
                continue
            seen.add(content)
            yield batch
        notes.count("logged_twice", "{n} responses were logged again, in lines that repeat an earlier line", again)


def _content(batch: Batch) -> int:
    values = batch.values if isinstance(batch, DictBatch) else []
    cells = [[cell for name, cell in row.items() if name not in NOT_COMPARED] for row in values]
    return hash(json.dumps(cells))


def _is_swift(file: Path) -> bool:
    """Whether the first line is a batch with columns of rewards."""
    try:
        check_regular(file)
        first = json.loads(next(lines(file, Notes(), MOST_BYTES), ""))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and is_batch(first) and bool(first.keys() - set(NOT_REWARDS))
