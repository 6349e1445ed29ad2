"""Which logged columns are reward functions, and with which weights? The advantages that were logged with them show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

AGREES = 0.01
"""Relative error, in nine of ten groups, up to which advantages agree: logged in float32, with epsilons of other sizes."""
PER_BATCH, PER_COLUMN = 8, 8
"""Groups that are kept of each batch, and groups in which each column should vary."""
MOST_SUMS = 2000
"""Sums of columns that are tried with equal weights before weights are fitted; of eight columns that is all of them."""
LEAST_FREE = 6
"""Free numbers (responses without one per group) below which any column may agree by chance."""
ROUNDS = 50
EPSILON = 1e-4

Array = NDArray[np.float64]


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
