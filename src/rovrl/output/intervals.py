"""95 % percentile intervals by the bootstrap: units drawn again with replacement, a statistic of each sample, its quantiles.

The unit is what was sampled independently: a problem, a prompt with all its responses (a cluster), a simulated trial. Of a
paired comparison it is the pair: pass the differences. Draws that are shared make several intervals comparable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

TAIL = 0.025
"""The share of replicates on each side of a 95 % interval."""
AT_A_TIME = 2_000_000
"""Drawn values held in memory together."""
Statistic = Callable[[Any], Any]
"""Of samples [replicate, unit] -> [replicate]."""


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def limits(replicates: Any, tail: float = TAIL) -> tuple[float, float]:
    """The quantiles `tail` and 1 - `tail` of a statistic's replicates; NaN among them are left out, NaN alone give NaN."""
    values = torch.as_tensor(replicates, dtype=torch.float64)
    low, high = values.nanquantile(values.new_tensor((tail, 1 - tail))).tolist()
    return low, high


def draws(units: int, replicates: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Numbers of the drawn units, [some, unit] at a time, `replicates` rows in all."""
    for some in _portions(units, replicates):
        yield generator.integers(0, units, (some, units))


def shared_draws(units: int, replicates: int, generator: torch.Generator) -> torch.Tensor:
    """Numbers of the drawn units [replicate, unit], to be held: one set for every method and condition that is compared."""
    return torch.randint(units, (replicates, units), generator=generator)


def mean(samples: Any) -> Any:
    """The mean of each sample."""
    return samples.mean(-1)


def bootstrap(values: Any, drawn: Iterable[Any], statistic: Statistic = mean) -> Estimate:
    """The statistic of `values` [unit] (array or tensor) with its interval over the samples `drawn`."""
    return Estimate(float(statistic(values[None])[0]), *limits(resampled(values, drawn, statistic)))


def resampled(values: Any, drawn: Iterable[Any], statistic: Statistic = mean) -> NDArray[np.float64]:
    """The statistic of every sample [replicate]; `drawn` are rows of unit numbers, in one tensor or some at a time."""
    portions = drawn.split(max(1, AT_A_TIME // len(values))) if isinstance(drawn, torch.Tensor) else drawn
    return np.concatenate([np.asarray(statistic(values[some])) for some in portions])


def crossed(values: NDArray[np.float64], replicates: int = 10_000, seed: int = 20250904) -> Estimate:
    """The mean of [run, problem] `values` with its interval over both axes, each drawn on its own.

    It holds the differences between runs and the choice of problems. One run: only the problems vary.
    """
    by_run, by_problem = _crossed_weights(*values.shape, replicates, seed)
    means = np.einsum("rs,rs->r", by_run, by_problem @ values.T)
    return Estimate(float(values.mean()), *limits(means))


def differences(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.float64]:
    """ours - theirs, unit by unit: what a paired interval is made of. ValueError where they are not pairs."""
    if ours.shape != theirs.shape:
        raise ValueError(f"paired values must have the same shape, not {ours.shape} and {theirs.shape}")
    return ours.astype(np.float64) - theirs.astype(np.float64)


def proportion(right: NDArray[np.bool_]) -> Estimate:
    """The share of True with Wilson's 95 % interval: the error of having asked these problems only."""
    n, p, z = right.size, float(right.mean()), 1.959964
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(p, center - half, center + half)


@lru_cache(maxsize=4)
def _crossed_weights(runs: int, problems: int, replicates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of runs and of problems in each replicate: the same for every table cell of one shape, and slow to draw."""
    generator = np.random.default_rng(seed)
    by_run = generator.multinomial(runs, np.full(runs, 1 / runs), replicates) / runs
    by_problem = generator.multinomial(problems, np.full(problems, 1 / problems), replicates) / problems
    return by_run, by_problem


def _portions(units: int, replicates: int) -> Iterator[int]:
    """How many replicates at a time, so that not all draws of a large run are in memory together."""
    most = max(1, AT_A_TIME // units)
    for start in range(0, replicates, most):
        yield min(most, replicates - start)
