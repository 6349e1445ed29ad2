"""All published cells of a scenario at once: its estimators see the same data, so that a wrong one stands out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rovrl_paper.paper.item import Check, Row

LABELS = {"variance": ("tab:sim_variance", 1, 1e-6), "rmse": ("tab:sim_rmse", 2, 1e-4)}
"""Measure -> its table, the power of the published number that is a mean square, and the unit of its last digit."""
LEAST_CHANCE = 1e-4


def covariances(every: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """By estimator, columns `MEASURE_with_MEASURE_of_ESTIMATOR`: covariances of the logarithms of all measures.

    The logarithm of a mean square errs by the mean over trials of T²/mean T² − 1, that of a variance likewise.
    """
    cells, parts = [], []
    for name, values in every.items():
        for measure, square in (("variance", (values - values.mean()).square()), ("rmse", values.square())):
            cells.append((measure, name))
            parts.append(square / square.mean() - 1)
    together = (torch.cov(torch.stack(parts)) / parts[0].shape[-1]).tolist()
    found: dict[str, dict[str, float]] = {name: {} for name in every}
    for (measure, name), line in zip(cells, together, strict=True):
        found[name] |= {_column(measure, *cell): value for cell, value in zip(cells, line, strict=True)}
    return found


def joint_checks(rows: list[Row], published: Mapping[str, Any], measure: str) -> list[Check]:
    """The squared distance of all published cells from ours per scenario of a measure's table, within what chance allows.

    Σ = 2 × the covariance of ours (the published trials are as many) + that of rounding. The distance d'Σ⁻¹d of the logarithms
    has a χ² law with as many degrees of freedom as there are cells.
    """
    return [_joint(rows, published, scenario) for scenario in published[LABELS[measure][0]]]


def _joint(rows: list[Row], published: Mapping[str, Any], scenario: str) -> Check:
    mine = {row["estimator"]: row for row in rows if row["scenario"] == scenario}
    cells, gaps, rounding = [], [], []
    for measure, (label, power, unit) in LABELS.items():
        for name, cell in zip(published["estimators"], published[label].get(scenario, ()), strict=False):
            cells.append((measure, name))
            gaps.append(power * math.log(cell / mine[name][measure]))
            rounding.append((power * unit / cell) ** 2 / 12)
    covariance = [[2 * mine[name][_column(measure, *other)] for other in cells] for measure, name in cells]
    gap, noise = (torch.tensor(part, dtype=torch.float64) for part in (gaps, rounding))
    total = torch.tensor(covariance, dtype=torch.float64) + noise.diag()
    distance = float(gap @ torch.linalg.solve(total, gap))
    half = torch.tensor([len(cells) / 2, distance / 2], dtype=torch.float64)
    chance = float(torch.special.gammaincc(*half))
    return Check(
        f"{scenario}: all {len(cells)} cells together, squared distance",
        distance,
        len(cells),
        f"chance of a larger one {chance:.2g}, at least {LEAST_CHANCE:g}",
        chance >= LEAST_CHANCE,
    )


def _column(measure: str, other: str, name: str) -> str:
    return f"{measure}_with_{other}_of_{name}"
