"""Means with their uncertainty: standard deviation over runs, bootstrap over problems, paired differences."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from rovrl.output.intervals import crossed, differences

Values = NDArray[np.float64]
"""[run, problem, sample]"""


def interval(per_problem: NDArray[np.float64]) -> list[float]:
    """The 95 % interval of the mean of `per_problem` [problem] over the choice of problems."""
    found = crossed(per_problem[None], seed=0)
    return [found.low, found.high]


def summarize(values: Values, *, binary: bool) -> dict[str, object]:
    """The mean over everything, each run's mean, their standard deviation, and the interval over problems.

    `sd` divides by runs - 1 (as `tab:placement_ablation` does), `sd_population` by runs (as `tab:math_main` does); both are
    None for one run. For a 0/1 metric, pass@1 is its expectation, which mean@k estimates with k samples per problem.
    """
    runs, _, samples = values.shape
    means = values.mean(axis=(1, 2))
    summary: dict[str, object] = {
        "mean": float(values.mean()),
        "runs": means.tolist(),
        "sd": float(means.std(ddof=1)) if runs > 1 else None,
        "sd_population": float(means.std()) if runs > 1 else None,
        "interval": interval(values.mean(axis=(0, 2))),
        f"mean@{samples}": float(values.mean()),
    }
    if binary:
        summary["pass@1"] = float(values.mean())
        if samples > 1:
            summary[f"pass@{samples}"] = float(pass_at(values, samples).mean())
    return summary


def pass_at(values: Values, k: int) -> NDArray[np.float64]:
    """1 - C(n-c, k) / C(n, k) for each run and problem: the chance that one of k drawn samples is right (Chen et al. 2021)."""
    samples = values.shape[-1]
    if not 1 <= k <= samples:
        raise ValueError(f"k must be between 1 and the number of samples {samples}, not {k}")
    right = np.rint(values.sum(axis=-1)).astype(int)
    table = np.array([1 - comb(samples - c, k) / comb(samples, k) for c in range(samples + 1)])
    return table[right]


def paired(first: NDArray[np.float64], second: NDArray[np.float64]) -> dict[str, object]:
    """second - first over the same problems [problem]: mean difference, its bootstrap interval, and who wins where."""
    difference = differences(second, first)
    return {
        "first": float(first.mean()),
        "second": float(second.mean()),
        "difference": float(difference.mean()),
        "interval": interval(difference),
        "better": int((difference > 0).sum()),
        "worse": int((difference < 0).sum()),
        "equal": int((difference == 0).sum()),
    }
