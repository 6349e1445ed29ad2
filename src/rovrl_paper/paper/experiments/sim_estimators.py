"""tab:sim_variance, fig:sim_variance, tab:sim_rmse, fig:sim_contamination_rmse: six estimators in four scenarios.

All published cells of a scenario are checked at once as well: its estimators see the same data, so that a wrong one stands out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rovrl.output.intervals import limits, shared_draws
from rovrl_paper.paper.experiments.simulation import (
    COLOURS,
    SCENARIOS,
    SHIFT,
    TITLES,
    coherent,
    dispersed,
    estimates,
    gaussian,
    resampled_moments,
    student_t3,
)
from rovrl_paper.paper.item import Bootstrapped, Check, Progress, Row, Table, expected, within
from rovrl_paper.paper.plot import axes


@dataclass(frozen=True)
class Setting(Bootstrapped):
    """3,000 trials of N = 128 observations in B = 8 blocks; 16 of them shifted by +8 where contaminated."""

    trials: int = 3_000
    replicates: int = 1_000


FULL = Setting()
BASE = "global_m"
"""The estimator that ratios are taken to: it has neither blocks nor a correction."""
SMOKE = Setting(trials=200, replicates=50)


def run(setting: Setting, progress: Progress) -> list[Row]:
    """Variance and RMSE with intervals, a row for each scenario and estimator; contamination hits the Gaussian data."""
    generator = torch.Generator().manual_seed(setting.seed)
    clean = gaussian(setting.trials, generator)
    data = {
        "gaussian": clean,
        "student_t3": student_t3(setting.trials, generator),
        "point": dispersed(clean, SHIFT),
        "block": coherent(clean, SHIFT),
    }
    rows = []
    for done, (scenario, x) in enumerate(data.items()):
        every = estimates(x)
        ratios, together = _ratios(every, setting), covariances(every)
        for name, values in every.items():
            moments = resampled_moments(values, setting.replicates, generator)
            first, second = moments.unbind(-1)
            n = len(values)
            rows.append(
                {
                    "scenario": scenario,
                    "estimator": name,
                    "variance": float(values.var()),
                    **_limits("variance", (second - first.square()) * n / (n - 1)),
                    "rmse": float(values.square().mean().sqrt()),
                    **_limits("rmse", second.sqrt()),
                    **ratios[name],
                    **together[name],
                }
            )
        progress(done + 1, len(data))
    return rows


def _ratios(every: dict[str, torch.Tensor], setting: Setting) -> dict[str, dict[str, float]]:
    """Each estimator's variance and mean square over those of `BASE`, with the standard error of the logarithm.

    All estimators see the same data, so that a ratio errs far less than its parts: paired replicates from a generator of
    their own.
    """
    draws = shared_draws(setting.trials, setting.replicates, torch.Generator().manual_seed(setting.seed + 1))
    values = torch.stack(list(every.values()))
    samples = torch.stack([values, values.square()])  # [moment, estimator, trial]
    first, second = torch.stack([samples[..., some].mean(-1) for some in draws], -1)  # [estimator, replicate]
    base = list(every).index(BASE)
    found = {name: {} for name in every}
    for measure, replicates in (("variance", second - first.square()), ("rmse", second)):
        now = values.var(-1) if measure == "variance" else values.square().mean(-1)
        spread = (replicates / replicates[base]).log().std(-1)
        for place, name in enumerate(every):
            found[name] |= {
                f"{measure}_ratio": float(now[place] / now[base]),
                f"{measure}_ratio_error": float(spread[place]),
            }
    return found


def _limits(name: str, replicates: torch.Tensor) -> dict[str, float]:
    low, high = limits(replicates)
    return {f"{name}_low": low, f"{name}_high": high}


def tables(rows: list[Row]) -> dict[str, Table]:
    """Both tables in the paper's layout."""
    return {
        "tab:sim_variance": _table(rows, "variance", tuple(SCENARIOS), 6, "Sampling variance of the six references."),
        "tab:sim_rmse": _table(rows, "rmse", ("point", "block"), 4, "RMSE to the uncontaminated center 0, shift +8."),
    }


def _table(rows: list[Row], value: str, scenarios: tuple[str, ...], digits: int, caption: str) -> Table:
    body = [
        [
            SCENARIOS[s],
            *(
                f"{r[value]:.{digits}f} [{r[value + '_low']:.{digits}f}, {r[value + '_high']:.{digits}f}]"
                for r in rows
                if r["scenario"] == s
            ),
        ]
        for s in scenarios
    ]
    return Table(["Scenario", *TITLES.values()], body, caption + " 95 % bootstrap intervals.")


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Every published cell within the Monte Carlo error of both: the authors' random stream is not known."""
    published = expected("simulation")
    result: dict[str, list[Check]] = {}
    for label, value, figure in (
        ("tab:sim_variance", "variance", "fig:sim_variance"),
        ("tab:sim_rmse", "rmse", "fig:sim_contamination_rmse"),
    ):
        cells = {
            (scenario, name): cell
            for scenario, line in published[label].items()
            for name, cell in zip(published["estimators"], line, strict=True)
        }
        found = [
            within(
                f"{r['scenario']}, {r['estimator']}",
                r[value],
                cells[r["scenario"], r["estimator"]],
                3.5 * math.sqrt(2) * (r[f"{value}_high"] - r[f"{value}_low"]) / (2 * 1.96),
                "3.5 Monte Carlo errors of both",
            )
            for r in rows
            if (r["scenario"], r["estimator"]) in cells
        ]
        result[label] = result[figure] = (
            found + _ratio_checks(rows, value, cells) + joint_checks(rows, published, value)
        )
    return result


def _ratio_checks(rows: list[Row], value: str, cells: dict[tuple[str, str], float]) -> list[Check]:
    """Published ratios to `BASE` within 3.5 errors of the logarithm, for the estimators that have blocks.

    A wrong correction hides in the error of a single cell, not in that of a ratio.
    """
    power = 1 if value == "variance" else 2  # the table has roots
    found = []
    for r in rows:
        scenario, name = r["scenario"], r["estimator"]
        if (scenario, name) in cells and name not in (BASE, "mean"):
            published = (cells[scenario, name] / cells[scenario, BASE]) ** power
            ours, error = r[f"{value}_ratio"], 3.5 * math.sqrt(2) * r[f"{value}_ratio_error"]
            agrees = abs(math.log(ours / published)) <= error
            what = "variance" if value == "variance" else "mean square"
            cell = f"{scenario}, {name}: {what} over {BASE}'s"
            found.append(
                Check(cell, ours, published, f"± {error:.2%} (3.5 Monte Carlo errors of both, paired)", agrees)
            )
    return found


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """Variance in all scenarios; RMSE under the two contaminations."""
    return {
        "fig:sim_variance": lambda rows: _bars(rows, "variance", tuple(SCENARIOS), "sampling variance"),
        "fig:sim_contamination_rmse": lambda rows: _bars(rows, "rmse", ("point", "block"), "RMSE to the clean center"),
    }


def _bars(rows: list[Row], value: str, scenarios: tuple[str, ...], ylabel: str) -> Any:
    table = expected("simulation")
    published = table["tab:sim_variance" if value == "variance" else "tab:sim_rmse"]
    cross = None
    figure, axis = axes(2.2 + 1.9 * len(scenarios), 4.2)
    for j, name in enumerate(TITLES):
        place = [i + (j - (len(TITLES) - 1) / 2) * 0.13 for i in range(len(scenarios))]
        mine = [next(r for r in rows if (r["scenario"], r["estimator"]) == (s, name)) for s in scenarios]
        middle = [r[value] for r in mine]
        error = [[r[value] - r[f"{value}_low"] for r in mine], [r[f"{value}_high"] - r[value] for r in mine]]
        axis.bar(
            place, middle, 0.11, yerr=error, color=COLOURS[name], error_kw={"lw": 1, "capsize": 2}, label=TITLES[name]
        )
        if name in table["estimators"]:
            column = table["estimators"].index(name)
            (cross,) = axis.plot(place, [published[s][column] for s in scenarios], "x", color="black", ms=5)
    axis.set(xticks=range(len(scenarios)), xticklabels=[SCENARIOS[s] for s in scenarios], ylabel=ylabel)
    handles, labels = axis.get_legend_handles_labels()
    columns = 7 if len(scenarios) > 2 else 4
    figure.legend([*handles, cross], [*labels, "published"], loc="outside upper center", ncols=columns, fontsize=9)
    return figure


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
