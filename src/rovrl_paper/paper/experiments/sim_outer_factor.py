"""tab:sim_outer_factor, fig:sim_outer_factor: the outer variance factor V_K, measured with an oracle start and scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from rovrl.guarantees import outer_factor
from rovrl.output.intervals import limits, resampled, shared_draws
from rovrl.robust.correction import composite, mid_indicator, thresholds
from rovrl_paper.paper.item import Bootstrapped, Check, Progress, Row, Table, expected, within
from rovrl_paper.paper.plot import axes, finish

LEVELS = (1, 3, 5, 9, 15, 31)


@dataclass(frozen=True)
class Setting(Bootstrapped):
    """20,000 trials of 101 blocks of 32 standard normal observations."""

    trials: int = 20_000
    blocks: int = 101
    size: int = 32


FULL = Setting()
SMOKE = Setting(trials=1_000, replicates=50)
PIECE = 1_000


def run(setting: Setting, progress: Progress) -> list[Row]:
    """The variance of the correction at the oracle (θ = 0, ν = 1) and of the median, times B·n; one row per K."""
    generator = torch.Generator().manual_seed(setting.seed)
    sizes = torch.full((setting.blocks,), float(setting.size), dtype=torch.float64)
    values: dict[int | str, list[torch.Tensor]] = {k: [] for k in (*LEVELS, "median")}
    for start in range(0, setting.trials, PIECE):
        trials = min(PIECE, setting.trials - start)
        shape = (trials, setting.blocks, setting.size)
        centers = torch.randn(shape, generator=generator, dtype=torch.float64).mean(-1)
        zero, one = centers.new_zeros(trials), centers.new_ones(trials)
        for k in LEVELS:
            steps = mid_indicator(thresholds(centers, zero, one, sizes, k))
            values[k].append(-composite(steps, one, sizes))
        values["median"].append(centers.quantile(0.5, dim=-1))
        progress(start + trials, setting.trials)
    median = _factor(torch.cat(values["median"]), setting, generator)
    return [
        {
            "levels": k,
            "theory": outer_factor(k),
            **{f"oracle{name}": v for name, v in _factor(torch.cat(values[k]), setting, generator).items()},
            **{f"median{name}": v for name, v in median.items()},
        }
        for k in LEVELS
    ]


def _factor(x: torch.Tensor, setting: Setting, generator: torch.Generator) -> dict[str, float]:
    total = setting.blocks * setting.size
    drawn = shared_draws(len(x), setting.replicates, generator)
    variances = resampled(x, drawn, lambda samples: torch.stack([sample.var() for sample in samples]))
    low, high = limits(total * variances)
    return {"": float(total * x.var()), "_low": low, "_high": high}


def tables(rows: list[Row]) -> dict[str, Table]:
    """The table in the paper's layout."""
    body = [
        [
            str(r["levels"]),
            f"{r['theory']:.4f}",
            f"{r['oracle']:.4f} [{r['oracle_low']:.4f}, {r['oracle_high']:.4f}]",
            f"{r['median']:.4f} [{r['median_low']:.4f}, {r['median_high']:.4f}]",
        ]
        for r in rows
    ]
    header = ["K", "V_K (theory)", "Oracle correction (emp.)", "Outer median (emp.)"]
    return {"tab:sim_outer_factor": Table(header, body, "Oracle outer-factor validation, 95 % bootstrap intervals.")}


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Theory to the printed digits; empirical factors within the Monte Carlo error of both."""
    published = expected("simulation")["tab:sim_outer_factor"]
    result = []
    for r, theory, oracle in zip(rows, published["theory"], published["oracle"], strict=True):
        k = r["levels"]
        result.append(within(f"V_K, K={k}", r["theory"], theory, 5.1e-5, "rounding"))
        for name, value in (("oracle", oracle), ("median", published["median"])):
            error = 3.5 * math.sqrt(2) * (r[f"{name}_high"] - r[f"{name}_low"]) / (2 * 1.96)
            result.append(within(f"{name}, K={k}", r[name], value, error, "3.5 Monte Carlo errors of both"))
    return {"tab:sim_outer_factor": result, "fig:sim_outer_factor": result}


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """The figure: measured factors beside V_K, π/2 and π/3."""
    return {"fig:sim_outer_factor": _figure}


def _figure(rows: list[Row]) -> Any:
    figure, axis = axes(6.4, 4.0)
    published = expected("simulation")["tab:sim_outer_factor"]
    k = [r["levels"] for r in rows]
    dense = range(1, 41)
    axis.plot(dense, [outer_factor(d) for d in dense], color="0.6", lw=1.5, label="V_K (theory)", zorder=1)
    for name, colour, label in (("oracle", "#D55E00", "oracle correction"), ("median", "#0072B2", "outer median")):
        middle = [r[name] for r in rows]
        error = [[r[name] - r[f"{name}_low"] for r in rows], [r[f"{name}_high"] - r[name] for r in rows]]
        axis.errorbar(k, middle, error, fmt="o", ms=5, color=colour, capsize=3, label=f"{label}, ours", zorder=3)
    axis.plot(k, published["oracle"], "x", ms=9, mew=1.5, color="black", label="published", zorder=4)
    axis.plot(k, [published["median"]] * len(k), "x", ms=9, mew=1.5, color="black", zorder=4)
    for value, name in ((math.pi / 2, "π/2"), (math.pi / 3, "π/3")):
        axis.axhline(value, color="0.8", lw=1, ls="--", zorder=0)
        axis.annotate(name, (40.5, value + 0.008), va="bottom", color="0.4")
    axis.set(xlabel="quantile levels K", ylabel="variance × B n", xlim=(0, 43), ylim=(1.0, 1.65))
    return finish(figure, axis)
