"""Which logged columns are reward functions, and with which weights? The advantages that were logged with them show it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MOST_COLUMNS = 8
AGREES = 0.01
"""Relative error, in nine of ten groups, up to which advantages agree: logged in float32, with epsilons of other sizes."""
ROUNDS = 50
EPSILON = 1e-4

Array = NDArray[np.float64]


def infer_weights(columns: dict[str, Array], advantage: Array, start: NDArray[np.int64]) -> dict[str, float] | None:
    """name -> weight of the columns whose weighted sum explains the advantages, the largest being 1; None if none does.

    Group k holds rows start[k] .. start[k+1] - 1. An advantage is the sum minus its group's mean, over the group's standard
    deviation, over one number for all, or over nothing. Equal weights of some columns are tried first, then weights are fitted.
    """
    names = [name for name, values in columns.items() if np.isfinite(values).all()][:MOST_COLUMNS]
    groups = [slice(a, z) for a, z in zip(start[:-1].tolist(), start[1:].tolist(), strict=True) if z - a > 1]
    groups = [g for g in groups if np.isfinite(advantage[g]).all() and np.ptp(advantage[g]) > 1e-6][:64]
    if not names or len(groups) < 2:
        return None
    wanted = [advantage[g] - advantage[g].mean() for g in groups]
    parts = [np.stack([columns[name][g] - columns[name][g].mean() for name in names], -1) for g in groups]
    for size in range(1, len(names) + 1):
        for chosen in combinations(range(len(names)), size):
            weight = np.isin(np.arange(len(names)), chosen).astype(float)
            if _agrees(parts, wanted, weight):
                return {names[k]: 1.0 for k in chosen}
    weight = _fitted(parts, wanted)
    if weight is None or not _agrees(parts, wanted, weight):
        return None
    return {name: float(w) for name, w in zip(names, np.round(weight, 4), strict=True) if w}


def _agrees(parts: list[Array], wanted: list[Array], weight: Array) -> bool:
    """Whether the weighted sums are proportional to the advantages, in nine of ten groups."""
    errors = []
    for part, target in zip(parts, wanted, strict=True):
        total = part @ weight
        square = float(total @ total)
        scale = float(total @ target) / square if square > 0 else 0.0
        errors.append(np.abs(scale * total - target).max() / np.abs(target).max() if scale > 0 else np.inf)
    return bool(np.quantile(errors, 0.9, method="lower") < AGREES)


def _fitted(parts: list[Array], wanted: list[Array]) -> Array | None:
    """Weights by least squares, with the divisor of each group taken from the weights before; the largest is 1."""
    weight = np.ones(parts[0].shape[1])
    for _ in range(ROUNDS):
        divisors = [np.std(part @ weight, ddof=1) + EPSILON for part in parts]
        left = np.concatenate([part / d for part, d in zip(parts, divisors, strict=True)])
        solved = np.linalg.lstsq(left, np.concatenate(wanted), rcond=None)[0]
        largest = np.abs(solved).max()
        if not np.isfinite(largest) or largest == 0:
            return None
        done = np.abs(solved / largest - weight).max() < 1e-7
        weight = solved / largest
        if done:
            break
    return np.where(np.abs(weight) < 1e-3, 0.0, weight)
