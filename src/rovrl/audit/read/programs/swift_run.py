"""What ms-swift writes beside its completions: the settings of the run, and one entry per log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rovrl.audit.read.cells import Batch, as_number
from rovrl.audit.read.lines import lines
from rovrl.audit.read.rows import Notes
from rovrl.audit.read.tables import check_regular
from rovrl.audit.read.texts import MOST_BYTES

SETTINGS, LOG = "args.json", "logging.jsonl"
AT = "global_step/max_steps"
"""The column of the log that holds the step, as in 12/400."""


@dataclass(frozen=True)
class Settings:
    """What `args.json` says of the run; empty where there is none."""

    values: dict[str, Any]

    @classmethod
    def of(cls, file: Path) -> Settings:
        """The settings beside a file of completions."""
        try:
            check_regular(place := file.parent / SETTINGS)
            found = json.loads(place.read_bytes())
        except (OSError, ValueError, RecursionError):
            found = None
        return cls(found if isinstance(found, dict) else {})

    @property
    def group_size(self) -> int | None:
        """Responses per prompt."""
        size = self.values.get("num_generations")
        return size if isinstance(size, int) and size > 1 else None

    def weights(self, names: list[str], notes: Notes) -> dict[str, float]:
        """name -> weight of the reward functions, whose columns come in the order of the settings; {} if they do not fit."""
        given = self.values.get("reward_weights")
        found = [as_number(value) for value in given] if isinstance(given, list) else []
        if len(found) != len(names) or not all(map(math.isfinite, found)):
            return {}
        terms = " + ".join(f"{weight:g} x {name}" for name, weight in zip(names, found, strict=True))
        notes.tell("reward_weights_read", f"the reward is {terms}, as {SETTINGS} says")
        return dict(zip(names, found, strict=True))


class Log:
    """What `logging.jsonl` says of each line of completions: both files get one at every log, in the same order."""

    def __init__(self, file: Path, notes: Notes) -> None:
        self.entries = iter(_entries(file.parent / LOG))
        self.notes = notes
        self.lost = False

    def is_evaluation(self, batch: Batch) -> bool:
        """Whether the next line is that of an evaluation; False where the log does not say."""
        if self.lost:
            return False
        step = batch.texts("step")[0].as_py() if "step" in batch.names and len(batch) else None
        found = next((evaluation for at, evaluation in self.entries if at == step), None)
        if found is None:
            self.lost = True
            self.notes.tell(
                "evaluation_unclear",
                f"ms-swift logs evaluation into the same file, unmarked, and no {LOG} beside it tells the lines apart: if the "
                "run evaluated, its evaluations are counted as training",
            )
        return bool(found)


def _entries(file: Path) -> Iterator[tuple[str, bool]]:
    """(step, whether it is an evaluation) of every entry of the log; nothing where there is none."""
    try:
        check_regular(file)
    except OSError:
        return
    for line in lines(file, Notes(), MOST_BYTES):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get(AT), str):
            yield entry[AT].split("/")[0], any(name.startswith("eval_") for name in entry)
