"""tab:sim_variance, fig:sim_variance, tab:sim_rmse, fig:sim_contamination_rmse: six estimators in four scenarios."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from rovrl.output.intervals import limits, shared_draws
from rovrl_paper.paper.experiments.sim_joint import covariances, joint_checks
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
