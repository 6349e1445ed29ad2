"""Which logged columns are reward functions, and with which weights? The advantages that were logged with them show it.

What TRL and ms-swift leave to be found out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.notes import Notes
from rovrl.errors import RovrlError

MOST_BATCHES = 32
"""Batches that are asked for the weights; more only until every column has varied in some group."""
OVERWHELMS = 20.0
"""How many times as much as another column one may vary before a plain sum of the two means nothing."""
AGREES = 0.01
"""Relative error, in nine of ten groups, up to which advantages agree: logged in float32, with epsilons of other sizes."""
PER_BATCH, PER_COLUMN = 8, 8
"""Groups that are kept of each batch, and groups in which each column should vary."""
MOST_SUMS = 2000
"""Sums of columns that are tried with equal weights before weights are fitted; of eight columns that is all of them."""
LEAST_FREE = 6
"""Free numbers (responses without one per group) below which any column may agree by chance."""
ROUNDS = 50
"""Least squares with the divisors of the round before; they settle in a few."""
EPSILON = 1e-4
"""What GRPO adds to the standard deviation."""


@dataclass(frozen=True)
class RewardColumns:
    """The columns that are added up, with their weights; without weights each counts 1."""

    names: list[str] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)


def find_rewards(
    others: list[str], batches: Iterable[Batch], logged: set[str], log: str, folder: Path, notes: Notes
) -> RewardColumns:
    """The rewards among the columns `others`, by the names in the run's own `log` and by the advantages of some batches.

    A RovrlError where neither tells and a sum of all would be that of one column.
    """
    known = [name for name in others if name in logged]
    if known and len(known) < len(others):
        left = [name for name in others if name not in logged]
        notes.tell(
            "reward_functions_read",
            f"the reward functions are {', '.join(known)}, as {log} says; {_are(left)} not part of it",
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
        columns = {name: batch.numbers(name) for name in names}
        numeric |= {name for name, values in columns.items() if np.isfinite(values).any()}
        advantage, prompt = advantage_of(batch), batch.texts("prompt").to_pylist()
        start = [*(k for k in range(len(prompt)) if k == 0 or prompt[k] != prompt[k - 1]), len(prompt)]
        sample.add(columns, batch.numbers(advantage) if advantage else None, np.array(start))
    return sample, numeric


def _told(inferred: Inferred, found: list[str]) -> str:
    terms = " + ".join(f"{weight:g} x {name}" for name, weight in inferred.weights.items())
    constant = [name for name in inferred.constant if name in found]
    left = [name for name in found if name not in {*inferred.weights, *constant, *inferred.alike}]
    said = [f"the logged advantages are those of {terms}"]
    said += [f"{_are(left)} not part of it"] if left else []
    said += [f"{_are(constant)} constant in every group that was looked at"] if constant else []
    said += [f"they are the same with {' and '.join(inferred.alike)}"] if inferred.alike else []
    unclear = ": it cannot be told whether that counts, and it was left out" if constant or inferred.alike else ""
    return "; ".join(said) + unclear


def _are(names: list[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


@dataclass(frozen=True)
class Inferred:
    """Weights that explain the advantages, the largest being 1, and the columns of which nothing can be told."""

    weights: dict[str, float]
    constant: list[str]
    """Equal within every group."""
    alike: list[str]
    """The advantages are the same with them and without."""


@dataclass
class Sample:
    """Some groups of a run: a few of every batch, and more where a column varies that hardly did before."""

    names: list[str]
    parts: list[Array] = field(default_factory=list)
    """[response, column] of each group, without its mean; a missing score counts 0, as in the sum."""
    wanted: list[Array] = field(default_factory=list)
    spreads: list[Array] = field(default_factory=list)
    """[column]: the usual standard deviation inside the groups of each batch; NaN where it is 0."""

    @np.errstate(all="ignore")  # of numbers near the end of the range the spread is infinite
    def add(self, columns: dict[str, Array], advantage: Array | None, start: NDArray[np.int64]) -> None:
        """Takes some groups of a batch; group k holds rows start[k] .. start[k+1] - 1."""
        values = np.stack([columns[name] for name in self.names], -1)
        values = np.where(np.isnan(values), 0.0, values)
        groups = [slice(a, z) for a, z in zip(start[:-1].tolist(), start[1:].tolist(), strict=True) if z - a > 1]
        groups = [g for g in groups if np.isfinite(values[g]).all()]
        if not groups:
            return
        spread = np.stack([values[g].std(0) for g in groups])
        usual = [np.median(column[column > 0]) if (column > 0).any() else np.nan for column in spread.T]
        self.spreads.append(np.array(usual))
        if advantage is None:
            return
        varied, taken = self.varied, 0
        for g, some in zip(groups, spread > 0, strict=True):
            if not np.isfinite(advantage[g]).all() or np.ptp(advantage[g]) <= 1e-6:
                continue
            if taken < PER_BATCH or (varied[some] < PER_COLUMN).any():
                self.parts.append(values[g] - values[g].mean(0))
                self.wanted.append(advantage[g] - advantage[g].mean())
                varied, taken = varied + some, taken + 1

    @property
    def varied(self) -> NDArray[np.int64]:
        """In how many of the groups each column varies."""
        found = [np.abs(part).max(0) > 0 for part in self.parts]
        return np.array(found, dtype=np.int64).reshape(-1, len(self.names)).sum(0)

    def overwhelming(self, factor: float) -> list[str]:
        """Columns that vary more than `factor` times as much as another one: in a plain sum they alone would count."""
        if not self.spreads:
            return []
        seen = [column[np.isfinite(column)] for column in np.stack(self.spreads).T]
        usual = np.array([np.median(column) if len(column) else np.nan for column in seen])
        least = np.nanmin(usual) if np.isfinite(usual).any() else np.nan
        return [name for name, spread in zip(self.names, usual, strict=True) if spread > factor * least]


@np.errstate(all="ignore")  # a sum without spread, or numbers near the end of the range, agree with nothing
def infer_weights(sample: Sample) -> Inferred | None:
    """The columns whose weighted sum explains the advantages; None if none does.

    An advantage is the sum minus its group's mean, over the group's standard deviation, over one number for all, or over
    nothing. Equal weights of some columns are tried first, then weights are fitted.
    """
    free = sum(len(part) - 1 for part in sample.parts)
    if free < LEAST_FREE:
        return None
    parts, wanted = _padded(sample.parts), _padded([target[:, None] for target in sample.wanted])[..., 0]
    varies = np.flatnonzero(sample.varied)
    parts = parts[..., varies]
    names = [sample.names[k] for k in varies]
    weight = _equal(parts, wanted)
    if weight is None and free >= 3 * len(names):
        sizes = np.array([len(part) for part in sample.parts])
        weight = _fitted(parts, wanted, sizes)
    if weight is None:
        return None
    alone = np.eye(len(names))
    alike = [name for k, name in enumerate(names) if not weight[k] and _agrees(parts, wanted, weight + alone[k])]
    weights = {name: float(f"{w:.3g}") for name, w in zip(names, weight.tolist(), strict=True) if w}
    return Inferred(weights, [name for name in sample.names if name not in names], alike)


def _padded(groups: list[Array]) -> Array:
    """[group, response, column], with zeros after the last response of a small group: they change no sum."""
    longest = max(map(len, groups))
    return np.stack([np.pad(group, ((0, longest - len(group)), (0, 0))) for group in groups])


def _equal(parts: Array, wanted: Array) -> Array | None:
    """Weights of 0 and 1 that agree, with as few columns as possible; None if there are none, or too many to try."""
    columns, tried = parts.shape[-1], 0
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            weight = np.isin(np.arange(columns), chosen).astype(float)
            if _agrees(parts, wanted, weight):
                return weight
            tried += 1
            if tried >= MOST_SUMS:
                return None
    return None


def _agrees(parts: Array, wanted: Array, weight: Array) -> bool:
    """Whether the sums are proportional to the advantages in nine of ten groups, and of those in which one column varies."""
    total = parts @ weight
    square = (total**2).sum(-1)
    scale = (total * wanted).sum(-1) / square
    error = np.abs(scale[:, None] * total - wanted).max(-1) / np.abs(wanted).max(-1)
    error = np.where((square > 0) & (scale > 0) & np.isfinite(error), error, np.inf)
    if np.quantile(error, 0.9, method="lower") >= AGREES:
        return False
    varies = np.abs(parts).max(1) > 0
    return all(np.quantile(error[some], 0.9, method="lower") < AGREES for some in varies.T)


def _fitted(parts: Array, wanted: Array, sizes: NDArray[np.int64]) -> Array | None:
    """Weights by least squares, with the divisor of each group taken from the weights before, if they agree; the largest is 1.

    Columns are measured in their own spread: a column of tokens may have a weight of a thousandth.
    """
    unit = np.sqrt((parts**2).mean((0, 1)))
    parts = parts / unit
    if not np.isfinite(parts).all():
        return None
    weight = np.ones(parts.shape[-1])
    for _ in range(ROUNDS):
        divisor = np.sqrt(((parts @ weight) ** 2).sum(-1) / (sizes - 1)) + EPSILON
        left = (parts / divisor[:, None, None]).reshape(-1, len(weight))
        solved = np.linalg.lstsq(left, wanted.ravel(), rcond=None)[0]
        largest = np.abs(solved).max()
        if not np.isfinite(largest) or largest == 0:
            return None
        done = np.abs(solved / largest - weight).max() < 1e-7
        weight = solved / largest
        if done:
            break
    weight = np.where(np.abs(weight) < 1e-3, 0.0, weight)
    if not _agrees(parts, wanted, weight):
        return None
    return weight / unit / np.abs(weight / unit).max()
