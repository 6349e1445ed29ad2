"""TRL's `completions/completions_*.parquet`, as GRPOTrainer writes them with `log_completions=True`.

They hold no group ids: the responses of a group are a run of equal prompts. The same batch is written again at every log
inside one generation, and evaluation shares the files; `rovrl.audit.read.rollouts` deals with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.cells import Batch
from rovrl.audit.read.programs.reward_columns import RewardColumns, advantage_of, find_rewards
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.table import matching, steps
from rovrl.audit.read.tables import batches, columns_of
from rovrl.errors import RovrlError

FIXED = ("step", "prompt", "completion", "advantage")
PATTERN = "completions_*.parquet"


@dataclass
class TrlReader(Reader):
    """Completions as TRL logs them; the reward is the weighted sum of the reward functions' columns."""

    by_runs: bool = True
    repeats: bool = True
    weights: dict[str, float] = field(default_factory=dict)
    """Of the reward functions: given, read, or inferred from the advantages."""
    found: RewardColumns | None = None
    """What has been found out once for the whole run: rewards of two batches must mean the same."""
    name: ClassVar[str] = "trl"
    title: ClassVar[str] = "TRL completions"
    takes: ClassVar[tuple[str, ...]] = ("reward",)
    fixed: ClassVar[tuple[str, ...]] = FIXED
    """Columns that are not rewards."""
    weighs: ClassVar[bool] = True
    logs_advantages: ClassVar[bool] = True
    logs_parts: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """The completion files in `path` or `path/completions`."""
        if path.is_file():
            return [path] if fnmatchcase(path.name.lower(), PATTERN) or _looks_like_trl(path) else []
        for folder in (path, path / "completions"):
            if found := matching(folder, PATTERN):
                return found
        return []

    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """See `Reader`."""
        for batch in self._batches(file, notes):
            if "prompt" not in batch.names:
                notes.tell("damaged_file", f"{file} has no prompt column and was left out: it holds no {self.title}")
                return
            rewards = self._reward_names(batch, file, notes)
            parts = _parts(batch, rewards)
            prompt, advantage = batch.texts("prompt"), advantage_of(batch)
            completion = batch.texts("completion") if "completion" in batch.names else None
            yield Chunk(
                row=batch.rows,
                reward=self._total(parts, rewards),
                step=steps(batch, "step" if "step" in batch.names else "gen_step", notes),
                group=prompt,
                advantage=batch.numbers(advantage) if advantage else None,
                prompt=prompt if want & {"text", "prompt"} else None,
                completion=completion if "text" in want else None,
                digest=_digest(prompt, completion, parts),
            )

    def _batches(self, file: Path, notes: Notes) -> Iterator[Batch]:
        return batches(file, None, notes)

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
            self.found = find_rewards(others, self._all_batches(file, others), file.parent, notes)
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


def _parts(batch: Batch, names: list[str]) -> NDArray[np.float64]:
    """[row, reward function]: the scores; NaN where a file lacks one."""
    missing = np.full(len(batch), np.nan)
    columns = [batch.numbers(name) if name in batch.names else missing for name in names]
    return np.stack(columns, axis=-1) if columns else np.zeros((len(batch), 0))


def _digest(prompt: object, completion: object, parts: NDArray[np.float64]) -> NDArray[np.uint64]:
    """One number per row that is equal for equal prompt, completion and rewards (within this process)."""
    texts = zip(prompt, completion, strict=True) if completion is not None else ((p, None) for p in prompt)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
    words = [hash((p.as_py(), c.as_py() if c is not None else None)) for p, c in texts]
    mixed = np.array(words, dtype=np.int64).view(np.uint64)
    for column in np.nan_to_num(parts, nan=-1.5e300).T:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.ascontiguousarray(column).view(np.uint64)
    return mixed


def _looks_like_trl(path: Path) -> bool:
    return (
        path.suffix.lower() == ".parquet"
        and set(FIXED) <= set(columns_of(path, Notes()))
        and path.name.lower().startswith("completions")
    )
