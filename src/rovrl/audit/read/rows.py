"""The common form of saved rollouts: chunks of rows as a reader yields them, and what was noticed while reading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.numbering import Rows
from rovrl.errors import RovrlError

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
            "group",
            "group_id",
            "uid",
            "prompt_id",
            "prompt_uid",
            "group_uid",
            "problem_id",
            "prompt_index",
            "prompt_idx",
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
        unknown = sorted(set(given or {}) - {*cls.USUAL, "reward_weights"})
        if unknown:
            raise RovrlError(f"columns has no {', '.join(unknown)}; it takes {', '.join(cls.USUAL)}, reward_weights")
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

    row: Rows
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
    digest: NDArray[np.uint64] | None = None
    """Of completion and rewards, where batches may be logged twice."""
    planted: NDArray[np.bool_] | None = None
    """Where the run itself says that the reward was contaminated (our records of a stress run)."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Note:
    """Something a reader of the result should know; never by itself a reason to fail."""

    code: str
    sentence: str


@dataclass
class Notes:
    """Collects notes; equal codes of many files become one sentence with a count."""

    notes: list[Note] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    KEEP: ClassVar[int] = 5

    def tell(self, code: str, sentence: str) -> None:
        """Adds a note; beyond a few of the same code only the number grows."""
        seen = sum(note.code == code for note in self.notes)
        if seen < self.KEEP:
            if not any(note.code == code and note.sentence == sentence for note in self.notes):
                self.notes.append(Note(code, sentence))
        else:
            self.counts[code, ""] = self.counts.get((code, ""), 0) + 1

    def count(self, code: str, sentence: str, number: int) -> None:
        """Adds to a running number; `sentence` has one `{n}` for it."""
        if number:
            self.counts[code, sentence] = self.counts.get((code, sentence), 0) + int(number)

    def all(self) -> list[Note]:
        """The notes with their numbers filled in."""
        counted = [
            Note(code, sentence.format(n=f"{number:,}") if sentence else f"{number:,} more notes like the ones above")
            for (code, sentence), number in self.counts.items()
        ]
        return [*self.notes, *counted]


@dataclass
class Reader(ABC):
    """One kind of dump, and what such a dump can hold."""

    columns: Columns = field(default_factory=Columns)
    by_runs: bool = False
    """Groups are runs of equal labels, not sets of equal labels."""
    repeats: bool = False
    """The same batch may be logged several times, and evaluation rows may be mixed in."""
    group_size: int | None = None
    """Responses per prompt where the run's own settings, which lie beside the dump, say it; known once it has been read."""
    keep_evaluation: bool = False
    """Rows that the dump itself shows to be evaluation are wanted too."""
    method: str | None = None
    """What the dump itself says the run was trained with, once it has been read; None where it says nothing."""
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
    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """The rows of one file; `want` names the columns beside the rewards that are needed."""

    def has_prompts(self, file: Path) -> bool:
        """Whether the file holds prompts beside its groups, so that a pass over them is worth starting."""
        return True

    def has_tokens(self, file: Path) -> bool:
        """Whether the file holds token log-ratios, so that a pass over them is worth starting."""
        return False
