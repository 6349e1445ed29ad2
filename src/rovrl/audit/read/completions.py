"""Completions as TRL and ms-swift log them: the same columns, one per reward function, without group ids.

The responses of a group are a run of equal prompts, a batch may be logged again, and evaluation shares the files: `grouping`
sorts that out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.cells import Batch, DictBatch, as_number
from rovrl.audit.read.json_rows import is_batch
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.reward_columns import RewardColumns, advantage_of, find_rewards
from rovrl.audit.read.rows import Chunk, Reader
from rovrl.audit.read.table import matching, natural, steps
from rovrl.audit.read.tables import batches, check_regular, columns_of
from rovrl.audit.read.texts import lines, parsed
from rovrl.errors import RovrlError

PATTERN = "completions_*.parquet"
STATE = "trainer_state.json"
FUNCTION = re.compile(r"(?:eval_)?rewards/(.+?)(?:/(?:mean|std))?")
"""The metric of one reward function in a trainer's log: `rewards/NAME/mean`, in older versions `rewards/NAME`."""
SWIFT = "completions.jsonl"
SETTINGS, LOG = "args.json", "logging.jsonl"
AT = "global_step/max_steps"
"""The column of ms-swift's log that holds the step, as in 12/400."""
NOT_COMPARED = ("step", "gen_step", "entropy")
"""Columns that change while their batch stays: entropies are those of the responses that were trained on last."""


@dataclass
class TrlReader(Reader):
    """TRL's `completions/completions_*.parquet`, as GRPOTrainer writes them with `log_completions=True`.

    The reward is the weighted sum of the reward functions' columns.
    """

    by_runs: bool = True
    repeats: bool = True
    needs: tuple[str, ...] = ("prompt",)
    weights: dict[str, float] = field(default_factory=dict)
    """Of the reward functions: given, read, or inferred from the advantages."""
    found: RewardColumns | None = None
    """What has been found out once for the whole run: rewards of two batches must mean the same."""
    name: ClassVar[str] = "trl"
    title: ClassVar[str] = "TRL completions"
    takes: ClassVar[tuple[str, ...]] = ("reward",)
    fixed: ClassVar[tuple[str, ...]] = ("step", "prompt", "completion", "advantage")
    """Columns that are not rewards."""
    weighs: ClassVar[bool] = True
    logs_advantages: ClassVar[bool] = True
    logs_parts: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """The completion files in `path` or `path/completions`."""
        if path.is_file():
            named = path.suffix.lower() == ".parquet" and path.name.lower().startswith("completions")
            known = fnmatchcase(path.name.lower(), PATTERN) or (
                named and set(self.fixed) <= set(columns_of(path, Notes()))
            )
            return [path] if known else []
        return matching(path, PATTERN) or matching(path / "completions", PATTERN)

    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """See `Reader`."""
        rewards = self._reward_names(batch, file, notes)
        parts = np.stack([batch.numbers(name) for name in rewards], -1) if rewards else np.zeros((len(batch), 0))
        prompt, advantage = batch.texts("prompt"), advantage_of(batch)
        completion = batch.texts("completion") if "completion" in batch.names else None
        texts = zip(prompt.to_pylist(), completion.to_pylist() if completion else [None] * len(batch), strict=True)
        scores = np.nan_to_num(parts, nan=-1.5e300).tolist()
        return Chunk(
            row=batch.rows,
            reward=self._total(parts, rewards),
            step=steps(batch, "step" if "step" in batch.names else "gen_step", notes),
            group=prompt,
            advantage=batch.numbers(advantage) if advantage else None,
            prompt=prompt if want & {"text", "prompt"} else None,
            completion=completion if "text" in want else None,
            digest=np.array([hash((*two, *row)) for two, row in zip(texts, scores, strict=True)], dtype=np.int64),
        )

    def _reward_names(self, batch: Batch, file: Path, notes: Notes) -> list[str]:
        if self.columns.reward:
            return [self.columns.reward] if self.columns.reward in batch.names else []
        self.weights = self.weights or dict(self.columns.reward_weights)
        if self.weights and self.found is None:
            missing = [name for name in self.weights if name not in batch.names]
            if missing:
                raise RovrlError(
                    f"{file} has no reward column {', '.join(missing)}; its columns are {', '.join(batch.names)}"
                )
            return list(self.weights)
        if self.found is None:
            others = [name for name in batch.names if name not in self.fixed and not batch.is_text(name)]
            some = self._all_batches(file, others)
            self.found = find_rewards(others, some, reward_functions(file.parent), STATE, file.parent, notes)
            self.weights = self.found.weights
        return self.found.names

    def _all_batches(self, file: Path, names: list[str]) -> Iterator[Batch]:
        """The batches of the run with these columns, those of `file` first."""
        others = (other for other in matching(file.parent, PATTERN) if other != file)
        for one in (file, *others):
            yield from batches(one, ["prompt", "advantage", *names], Notes())

    def _total(self, parts: NDArray[np.float64], names: list[str]) -> NDArray[np.float64]:
        """TRL's rule: weighted sum over the functions that gave a score; a response without any score has no reward."""
        factor = np.array([self.weights.get(name, 1.0) for name in names])
        scored = ~np.isnan(parts)
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf between reward functions: no finite reward
            total = (np.where(scored, parts, 0.0) * factor).sum(-1)
        return np.where(scored.any(-1), total, np.nan)


def _log_history(folder: Path) -> list[dict[str, Any]]:
    """The logs of the run that wrote into `folder`, of its last checkpoint there or one folder above; [] if there is none."""
    states = [s for root in (folder, folder.parent) for s in sorted(root.glob(f"checkpoint-*/{STATE}"), key=natural)]
    found = _settings(states[-1]).get("log_history") if states else None
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def evaluations(folder: Path) -> list[int]:
    """Steps at which the run evaluated."""
    steps = {entry.get("step") for entry in _log_history(folder) if any(key.startswith("eval_") for key in entry)}
    return sorted(step for step in steps if isinstance(step, int))


def reward_functions(folder: Path) -> set[str]:
    """The names of the run's reward functions, which are those of their columns; empty where no log has them."""
    found = (FUNCTION.fullmatch(key) for entry in _log_history(folder) for key in entry)
    return {name[1] for name in found if name}


def _settings(file: Path) -> dict[str, Any]:
    """The values of a JSON file; empty where there is none."""
    try:
        check_regular(file)
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass
class SwiftReader(TrlReader):
    """ms-swift's `completions.jsonl`, as its GRPO trainers write it with `log_completions`: TRL's columns, one batch per line.

    A line is what the trainer holds at a log: the last generation, again at every log inside it and once more at the end of
    the training, so what an earlier line held counts once. With `log_entropy` a line ends where the training has come to in
    its batch, and the next begins with the same rows. Evaluation goes into the same file unmarked; the log beside it tells the
    lines apart. Megatron's trainers write `gen_step`: those are read by the schema of their code.
    """

    repeats: bool = False
    name: ClassVar[str] = "swift"
    title: ClassVar[str] = "ms-swift completions"
    fixed: ClassVar[tuple[str, ...]] = (
        *("step", "gen_step", "prompt", "completion", "advantages", "entropy", "num_turns", "solution"),
    )

    def files(self, path: Path) -> list[Path]:
        """The completions file at `path` or in it."""
        found = [path] if path.is_file() else matching(path, f"{SWIFT}*")
        named = (file for file in found if file.name.lower() in (SWIFT, f"{SWIFT}.gz") and file.is_file())
        return [file for file in named if self._is_mine(file)][:1]

    def _is_mine(self, file: Path) -> bool:
        """Whether the first line is a batch with columns of rewards."""
        try:
            check_regular(file)
            first = parsed(next(lines(file, Notes()), ""))
        except OSError:
            return False
        return isinstance(first, dict) and is_batch(first) and bool(first.keys() - set(self.fixed))

    def _reward_names(self, batch: Batch, file: Path, notes: Notes) -> list[str]:
        """Their weights are those of the run, where it saved its settings; else as for TRL."""
        if self.found is None and not (self.weights or self.columns.reward or self.columns.reward_weights):
            settings = _settings(file.parent / SETTINGS)
            size = settings.get("num_generations")
            self.group_size = size if isinstance(size, int) and size > 1 else None
            names = [name for name in batch.names if name not in self.fixed]
            self.weights = _weights(settings.get("reward_weights"), names, notes)
        return super()._reward_names(batch, file, notes)

    def _all_batches(self, file: Path, names: list[str]) -> Iterator[Batch]:
        return batches(file, None, Notes(), size=1)

    def batches(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Batch]:
        """One line after the other, without evaluation and without the rows that an earlier line held."""
        log, lost, seen, last, began = _entries(file.parent / LOG), False, set[int](), list[int](), {}
        again = evaluated = 0
        for batch in batches(file, None, notes, size=1):
            if not isinstance(batch, DictBatch):
                continue
            rows = _contents(batch)
            known = _known(rows, last, seen)
            seen.add(hash(tuple(rows)))
            last = rows
            # a group that goes on in the next line of its generation is one group: it keeps the step of the first line
            began = began if known else {k: v for k, v in batch.values[0].items() if k in ("step", "gen_step")}
            step = batch.texts("step")[0].as_py() if "step" in batch.names else None
            # both files get an entry at every log, in the same order; from where they do not, nothing can be told
            evaluation = None if lost else next((evaluation for at, evaluation in log if at == step), None)
            lost = evaluation is None
            if evaluation and not self.keep_evaluation:
                evaluated += len(batch) - known
                continue
            again += known
            if known < len(batch):
                yield DictBatch(batch.rows[known:].tolist(), [row | began for row in batch.values[known:]])
        if lost:
            notes.tell(
                "evaluation_unclear",
                f"ms-swift logs evaluation into the same file, unmarked, and no {LOG} beside it tells the lines apart: if the "
                "run evaluated, its evaluations are counted as training",
            )
        notes.count("logged_twice", "{n} responses were logged again, in lines that repeat an earlier line", again)
        notes.count(
            "evaluation_rows",
            f"{{n}} responses are evaluation, as {LOG} says, and were left out; --keep-evaluation keeps them",
            evaluated,
        )


def _weights(given: object, names: list[str], notes: Notes) -> dict[str, float]:
    """name -> weight of the reward functions, whose columns come in the order of the settings; {} if they do not fit."""
    found = [as_number(value) for value in given] if isinstance(given, list) else []
    if len(found) != len(names) or not all(map(math.isfinite, found)):
        return {}
    terms = " + ".join(f"{weight:g} x {name}" for name, weight in zip(names, found, strict=True))
    notes.tell("reward_weights_read", f"the reward is {terms}, as {SETTINGS} says")
    return dict(zip(names, found, strict=True))


def _contents(batch: DictBatch) -> list[int]:
    """One number per row, equal for equal cells."""
    cells = ([cell for name, cell in row.items() if name not in NOT_COMPARED] for row in batch.values)
    return [hash(json.dumps(row)) for row in cells]


def _known(rows: list[int], last: list[int], seen: set[int]) -> int:
    """How many of the first rows an earlier line held: all of a line that comes again, or those that the last line began with.

    Single responses may come again as a policy collapses; so only a whole line, the shorter of the two, is compared.
    """
    both = min(len(rows), len(last))
    if len(rows) > 1 and hash(tuple(rows)) in seen:
        return len(rows)
    return both if both > 1 and rows[:both] == last[:both] else 0


def _entries(file: Path) -> Iterator[tuple[str, bool]]:
    """(step, whether it is an evaluation) of every entry of ms-swift's log; nothing where there is none."""
    try:
        check_regular(file)
    except OSError:
        return
    for entry in map(parsed, lines(file, Notes())):
        if isinstance(entry, dict) and isinstance(entry.get(AT), str):
            yield entry[AT].split("/")[0], any(name.startswith("eval_") for name in entry)
