"""Which columns of a dump are reward functions and what each weighs: what TRL and ms-swift leave to be found out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.cells import Batch
from rovrl.audit.read.programs.trainer_state import STATE, reward_functions
from rovrl.audit.read.programs.weights import Inferred, Sample, infer_weights
from rovrl.audit.read.rows import Notes
from rovrl.errors import RovrlError

MOST_BATCHES = 32
"""Batches that are asked for the weights; more only until every column has varied in some group."""
OVERWHELMS = 20.0
"""How many times as much as another column one may vary before a plain sum of the two means nothing."""


@dataclass(frozen=True)
class RewardColumns:
    """The columns that are added up, with their weights; without weights each counts 1."""

    names: list[str] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)


def find_rewards(others: list[str], batches: Iterable[Batch], folder: Path, notes: Notes) -> RewardColumns:
    """The rewards among the columns `others`, by the run's own log and by the advantages of some of its batches.

    A RovrlError where neither tells and a sum of all would be that of one column.
    """
    logged = reward_functions(folder)
    known = [name for name in others if name in logged]
    if known and len(known) < len(others):
        left = [name for name in others if name not in logged]
        notes.tell(
            "reward_functions_read",
            f"the reward functions are {', '.join(known)}, as {STATE} says; {_not_part(left)}",
        )
    found = known or others
    if len(found) < 2:
        return RewardColumns(found)
    sample, numeric = _sample(found, batches)
    found = [name for name in found if name in numeric] or found
    if len(found) < 2:
        return RewardColumns(found)
    inferred = infer_weights(sample)
    if inferred is not None:
        weights = {name: weight for name, weight in inferred.weights.items() if name in found}
        notes.tell("reward_weights_inferred", _told(inferred, found))
        return RewardColumns(list(weights), weights)
    several = f"several columns of numbers ({', '.join(found)}), and the logged advantages do not show "
    if not known and (large := [name for name in sample.overwhelming(OVERWHELMS) if name in found]):
        rest = [name for name in found if name not in large]
        raise RovrlError(
            f"{folder} has {several}which are rewards: in their sum {' and '.join(large)} would outweigh "
            f"{' and '.join(rest)}; say what the reward is with --reward-weight NAME=W for each column that is part of it, "
            "or with --reward-column NAME"
        )
    which = "their weights" if known else "which are rewards"
    notes.tell(
        "reward_weights_unknown",
        f"the dump has {several}{which}: they were added up with weight 1 each; give --reward-weight NAME=W for those that are",
    )
    return RewardColumns(found)


def advantage_of(batch: Batch) -> str | None:
    """The column of the advantages, as TRL or as ms-swift names it."""
    return next((name for name in ("advantage", "advantages") if name in batch.names), None)


def _sample(names: list[str], batches: Iterable[Batch]) -> tuple[Sample, set[str]]:
    """Groups of the first batches and of those in which a column varies for the first time; the columns with numbers."""
    sample, numeric = Sample(names), set[str]()
    for number, batch in enumerate(batches):
        if number >= MOST_BATCHES and (sample.varied > 0).all():
            break
        if "prompt" not in batch.names:
            continue
        missing = np.full(len(batch), np.nan)
        columns = {name: batch.numbers(name) if name in batch.names else missing for name in names}
        numeric |= {name for name, values in columns.items() if np.isfinite(values).any()}
        advantage = advantage_of(batch)
        sample.add(columns, batch.numbers(advantage) if advantage else None, _starts(batch))
    return sample, numeric


def _starts(batch: Batch) -> NDArray[np.int64]:
    """Where the groups of a batch begin, and where the last one ends."""
    prompt = batch.texts("prompt").to_pylist()
    return np.array([*(k for k in range(len(prompt)) if k == 0 or prompt[k] != prompt[k - 1]), len(prompt)])


def _told(inferred: Inferred, found: list[str]) -> str:
    terms = " + ".join(f"{weight:g} x {name}" for name, weight in inferred.weights.items())
    constant = [name for name in inferred.constant if name in found]
    left = [name for name in found if name not in {*inferred.weights, *constant, *inferred.alike}]
    said = [f"the logged advantages are those of {terms}"]
    said += [_not_part(left)] if left else []
    said += [f"{_are(constant)} constant in every group that was looked at"] if constant else []
    said += [f"they are the same with {' and '.join(inferred.alike)}"] if inferred.alike else []
    unclear = ": it cannot be told whether that counts, and it was left out" if constant or inferred.alike else ""
    return "; ".join(said) + unclear


def _not_part(names: list[str]) -> str:
    return f"{_are(names)} not part of it"


def _are(names: list[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
