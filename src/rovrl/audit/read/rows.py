"""The common form of saved rollouts: rows of one response each, and what a reader of one kind of dump has to say of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import taken
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.tables import batches
from rovrl.errors import RovrlError, did_you_mean

STATISTICS = frozenset({"reward"})
"""What the first pass over the files wants: no texts, no tokens."""


@dataclass(frozen=True)
class Columns:
    """Which column holds what; None means "find it by its usual names"."""

    reward: str | None = None
    group: str | None = None
    step: str | None = None
    prompt: str | None = None
    completion: str | None = None
    advantage: str | None = None
    log_ratios: str | None = None
    logp_new: str | None = None
    logp_old: str | None = None
    mask: str | None = None
    reward_weights: tuple[tuple[str, float], ...] = ()
    """For TRL's dumps, whose reward functions are logged one by one and unweighted."""

    USUAL: ClassVar[dict[str, tuple[str, ...]]] = {
        "reward": ("reward", "score", "rewards", "scores", "total_reward"),
        "group": (
            *("group", "group_id", "uid", "prompt_id", "prompt_uid", "group_uid"),
            *("problem_id", "prompt_index", "prompt_idx"),
        ),
        "step": ("step", "global_step", "training_step", "iteration", "update", "rollout_id"),
        "prompt": ("prompt", "input", "question", "query", "problem", "instruction"),
        "completion": ("completion", "response", "output", "generation", "answer", "text"),
        "advantage": ("advantage", "advantages"),
        "log_ratios": ("log_ratios", "log_ratio"),
        "logp_new": ("logp_new", "new_logprobs", "log_probs", "logprobs"),
        "logp_old": ("logp_old", "old_logprobs", "old_log_probs"),
        "mask": ("mask", "response_mask", "completion_mask", "loss_mask"),
    }

    @classmethod
    def of(cls, given: Columns | Mapping[str, Any] | None) -> Columns:
        """`given` as Columns; a RovrlError for a word that names no column."""
        if isinstance(given, Columns):
            return given
        known = (*cls.USUAL, "reward_weights")
        if unknown := sorted(set(given or {}) - set(known)):
            hint = did_you_mean(unknown[0], known) or f"; it takes {', '.join(known)}"
            raise RovrlError(f"columns has no {', '.join(unknown)}{hint}")
        return cls(**(given or {}))

    def find(self, what: str, present: list[str]) -> str | None:
        """The column for `what`: the named one if given, else the first of its usual names that is present, in any case."""
        named = getattr(self, what)
        if named is not None:
            return named if named in present else None
        lower = {name.lower(): name for name in reversed(present)}
        return next((lower[name] for name in self.USUAL[what] if name in lower), None)


@dataclass
class Chunk:
    """Some rows of one file, in order. Arrays have one entry per row."""

    row: NDArray[np.int64]
    """Row numbers in the file, the same in every pass."""
    reward: NDArray[np.float64]
    """NaN where there is no finite score."""
    step: NDArray[np.int64]
    group: Any = None
    """A pyarrow array of labels, equal for the responses of one group; None: the reader could not tell groups."""
    advantage: NDArray[np.float64] | None = None
    prompt: Any = None
    """pyarrow string array, when wanted."""
    completion: Any = None
    log_ratios: list[NDArray[np.float64] | None] | None = None
    clip: NDArray[np.float64] | None = None
    """[row, 2]: the run's own clip_low and clip_high."""
    digest: NDArray[np.int64] | None = None
    """Of completion and rewards, where batches may be logged twice."""
    planted: NDArray[np.bool_] | None = None
    """Where the run itself says that the reward was contaminated (our records of a stress run)."""

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: NDArray[np.int64]) -> Chunk:
        """Only these rows, in this order."""
        return Chunk(**{column.name: taken(getattr(self, column.name), rows) for column in fields(self)})

    def where(self, keep: NDArray[np.bool_]) -> Chunk:
        """Only the rows where `keep` is True."""
        return self if keep.all() else self.take(np.flatnonzero(keep))


@dataclass
class Reader(ABC):
    """One kind of dump: which files it has, what they can hold, and how a batch of their rows is a chunk."""

    columns: Columns = field(default_factory=Columns)
    by_runs: bool = False
    """Groups are runs of equal labels, not sets of equal labels."""
    repeats: bool = False
    """The same batch may be logged several times, and evaluation rows may be mixed in."""
    group_size: int | None = None
    """Responses per prompt where the run's own settings, beside the dump, say it; known once it has been read."""
    keep_evaluation: bool = False
    """Rows that the dump itself shows to be evaluation are wanted too."""
    method: str | None = None
    """What the dump itself says the run was trained with, once it has been read; None where it says nothing."""
    needs: tuple[str, ...] = ()
    """Columns without which a file is not of this kind."""
    name: ClassVar[str]
    """The word for `--format`."""
    title: ClassVar[str]
    """What the dump is called in a summary."""
    takes: ClassVar[tuple[str, ...]] = ()
    """The columns that a user may name; the dump names the others itself."""
    weighs: ClassVar[bool] = False
    """Its reward is a weighted sum of columns, whose weights a user may give."""
    logs_advantages: ClassVar[bool] = False
    """The advantages of the run may be in the dump."""
    row_per_update: ClassVar[bool] = False
    """A response has one row per update, so its later rows are found by what they say and not by their place."""
    any_name: ClassVar[bool] = False
    """Its files have any names, so that one may belong to another run."""
    logs_parts: ClassVar[bool] = False
    """Columns of numbers that have no known name are parts of the reward."""

    @abstractmethod
    def files(self, path: Path) -> list[Path]:
        """The files of this kind at `path`, in the order of the run; empty if this is another kind of dump."""

    @abstractmethod
    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """The rows of one batch of `file`; `want` names the columns beside the rewards that are needed."""

    def batches(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Batch]:
        """The rows of one file as they are stored; here with all columns."""
        return batches(file, None, notes)

    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """The rows of one file in the common form; none of a file that lacks what this kind needs."""
        for batch in self.batches(file, want, notes):
            if missing := [name for name in self.needs if name not in batch.names]:
                lacks = f"{file} has no column {', '.join(missing)} and was left out"
                notes.tell("damaged_file", f"{lacks}: it does not hold {self.title}")
                return
            yield self.chunk(batch, file, want, notes)

    def holds(self, what: str, file: Path) -> bool:
        """Whether the file may hold "prompt" beside its groups, or "tokens", so that a pass over them is worth starting."""
        return what == "prompt"
