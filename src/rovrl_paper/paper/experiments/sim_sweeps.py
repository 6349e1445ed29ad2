"""fig:sim_dispersed_sweep, fig:sim_block_sweep: RMSE against the size of the shift, 0 to 16, in both geometries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from rovrl.output.intervals import limits
from rovrl_paper.paper.experiments.simulation import (
    COLOURS,
    TITLES,
    coherent,
    dispersed,
    estimates,
    gaussian,
    resampled_moments,
)
from rovrl_paper.paper.item import Bootstrapped, Check, Progress, Row, Table, expected
from rovrl_paper.paper.plot import axes, plain_ticks

MARKERS = "osD^vPXhp*"
GEOMETRIES = {"dispersed": dispersed, "block": coherent}


@dataclass(frozen=True)
class Setting(Bootstrapped):
    """2,000 trials at each shift."""

    trials: int = 2_000
    shifts: tuple[float, ...] = tuple(float(s) for s in range(17))


FULL = Setting()
SMOKE = Setting(trials=200, shifts=(0.0, 8.0, 16.0), replicates=20)


def run(setting: Setting, progress: Progress) -> list[Row]:
    """A row for each geometry, shift and estimator; every shift draws its own trials."""
    generator = torch.Generator().manual_seed(setting.seed)
    rows = []
    for done, shift in enumerate(setting.shifts):
        clean = gaussian(setting.trials, generator)
        for geometry, corrupt in GEOMETRIES.items():
            for name, values in estimates(corrupt(clean, shift)).items():
                low, high = limits(resampled_moments(values, setting.replicates, generator)[:, 1].sqrt())
                rmse = float(values.square().mean().sqrt())
                rows.append(
                    {"geometry": geometry, "shift": shift, "estimator": name, "rmse": rmse, "low": low, "high": high}
                )
        progress(done + 1, len(setting.shifts))
    return rows


def tables(rows: list[Row]) -> dict[str, Table]:
    """The curves as numbers: RoVR, its neighbours, and the mean."""
    shifts = sorted({r["shift"] for r in rows})
    result = {}
    for geometry, label in (("dispersed", "fig:sim_dispersed_sweep"), ("block", "fig:sim_block_sweep")):
        at = {(r["shift"], r["estimator"]): r["rmse"] for r in rows if r["geometry"] == geometry}
        body = [[f"{s:g}", *(f"{at[s, name]:.4f}" for name in TITLES)] for s in shifts]
        result[label] = Table(["Shift", *TITLES.values()], body, f"RMSE under {geometry} corruption of 16 of 128.")
    return result


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """The figures carry no printed numbers but those of tab:sim_rmse at shift 8; beyond that, what the text claims of them."""
    published = expected("simulation")
    at = {(r["geometry"], r["shift"], r["estimator"]): r for r in rows}
    result = {}
    for geometry, label, scenario in (
        ("dispersed", "fig:sim_dispersed_sweep", "point"),
        ("block", "fig:sim_block_sweep", "block"),
    ):
        found = []
        for name, value in zip(published["estimators"], published["tab:sim_rmse"][scenario], strict=True):
            r = at[geometry, 8.0, name]
            error = 3.5 * (2**0.5) * (r["high"] - r["low"]) / (2 * 1.96)
            found.append(
                Check(
                    f"shift 8, {name}",
                    r["rmse"],
                    value,
                    f"± {error:.3g} (3.5 Monte Carlo errors)",
                    abs(r["rmse"] - value) <= error,
                )
            )
        growth = at[geometry, 16.0, "mean"]["rmse"] / at[geometry, 8.0, "mean"]["rmse"]
        found.append(Check("mean grows linearly: RMSE(16)/RMSE(8)", growth, 2.0, "± 5 %", abs(growth - 2) <= 0.1))
        flat = at[geometry, 16.0, "rovr"]["rmse"] / at[geometry, 8.0, "rovr"]["rmse"]
        found.append(Check("RoVR saturates: RMSE(16)/RMSE(8)", flat, 1.0, "± 10 %", abs(flat - 1) <= 0.1))
        result[label] = found
    return result


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """One figure for each geometry."""
    return {
        "fig:sim_dispersed_sweep": lambda rows: _curves(rows, "dispersed", "point"),
        "fig:sim_block_sweep": lambda rows: _curves(rows, "block", "block"),
    }


def _curves(rows: list[Row], geometry: str, scenario: str) -> Any:
    published = expected("simulation")
    figure, axis = axes(6.4, 4.2)
    for j, (name, title) in enumerate(TITLES.items()):
        mine = sorted(
            (r for r in rows if (r["geometry"], r["estimator"]) == (geometry, name)), key=lambda r: r["shift"]
        )
        shift = [r["shift"] for r in mine]
        # where curves coincide, thin lines lie on thick ones and the markers take turns
        look = {
            "color": COLOURS[name],
            "lw": max(6 - 0.9 * j, 0.6),
            "marker": MARKERS[j % len(MARKERS)],
            "ms": 6,
            "markevery": (j, len(TITLES)),
        }
        axis.plot(shift, [r["rmse"] for r in mine], label=title, mec="white", mew=0.6, **look)
        axis.fill_between(
            shift, [r["low"] for r in mine], [r["high"] for r in mine], color=COLOURS[name], alpha=0.2, lw=0
        )
    values = published["tab:sim_rmse"][scenario]
    axis.plot([8.0] * len(values), values, "x", color="black", ms=7, mew=1.5, label="published", zorder=5)
    axis.set(xlabel="shift of the 16 corrupted observations", ylabel="RMSE to the clean center")
    plain_ticks(axis, "y", (0.1, 0.2, 0.5, 1, 2))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9)
    return figure
