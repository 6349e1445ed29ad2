"""The difference of two runs in one measure, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rovrl.audit.arrays import Array
from rovrl.audit.comparing.measures import MEASURES
from rovrl.output.intervals import TAIL, draws, limits, resampled

REPLICATES = 4000
SEED = 20250904


@dataclass(frozen=True)
class Difference:
    """One measure of a run B against the first run A: both means, B - A with its 95 % interval, over how many units."""

    measure: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    paired: bool
    units: int
    """Prompts of both runs if paired, else groups of both."""
    run: int = 1
    """The number of the run B; A is 0."""
    clear: bool = False
    """Whether 0 lies outside the interval even when all measures of the comparison are judged at once (Bonferroni)."""

    @property
    def worse(self) -> bool:
        """Clearly worse than in A, where it is known which way is better."""
        return self.clear and self.difference * MEASURES[self.measure].better < 0


def paired(measure: str, x: Array, y: Array, run: int = 1, judged: int = 1) -> Difference | None:
    """The mean of y - x over the prompts where both are known; None if there are fewer than two."""
    good = np.isfinite(x) & np.isfinite(y)
    if good.sum() < 2:
        return None
    x, y = x[good], y[good]
    replicates = resampled(y - x, draws(len(x), REPLICATES, np.random.default_rng(SEED)))
    return _difference(measure, x, y, replicates, True, len(x), run, judged)


def unpaired(measure: str, x: Array, y: Array, run: int = 1, judged: int = 1) -> Difference | None:
    """The difference of the means over groups, each run drawn again on its own; None with fewer than two groups."""
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    if len(x) < 2 or len(y) < 2:
        return None
    generator = np.random.default_rng(SEED)
    after, before = (resampled(values, draws(len(values), REPLICATES, generator)) for values in (y, x))
    return _difference(measure, x, y, after - before, False, len(x) + len(y), run, judged)


def by_prompt(values: Array, names: list[str], both: list[str]) -> Array:
    """The mean over each prompt's groups, in the order of `both`; NaN where none is defined."""
    place = {name: k for k, name in enumerate(both)}
    index = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    use = (index >= 0) & np.isfinite(values)
    count = np.bincount(index[use], minlength=len(both))
    total = np.bincount(index[use], weights=values[use], minlength=len(both))
    return np.divide(total, count, out=np.full(len(both), np.nan), where=count > 0)


def _difference(
    measure: str, x: Array, y: Array, replicates: Array, pairs: bool, units: int, run: int, judged: int
) -> Difference:
    low, high = limits(replicates)
    lowest, highest = limits(replicates, TAIL / judged)
    a, b = float(x.mean()), float(y.mean())
    clear = bool(lowest > 0 or highest < 0)
    return Difference(measure, a, b, float(y.mean() - x.mean()), low, high, pairs, units, run, clear)
