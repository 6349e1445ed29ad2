"""tab:placement_ablation, fig:placement_ablation: each channel alone and both, on the embedded task instead of MATH.

The runs are those of the evidence sweep (`rovrl train --sweep evidence --out results/embedded`); where none are finished, its
main rows are trained first: fifty runs, about an hour on two cores, resumable. The columns are the worlds of the sweep in place
of the paper's benchmarks; a column counts only the seeds that all its methods have finished.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rovrl.paper.experiments.placement_runs import PAPER, collect
from rovrl.paper.item import Check, Progress, Row, Table, expected
from rovrl.paper.plot import axes

TITLES = {
    "gspo": "GSPO", "rovr-adv": "RoVR-Adv", "softrovr": "SoftRoVR", "rovr-gspo": "RoVR-GSPO",
    "rovr-gspo-adaptive": "RoVR-GSPO, adaptive (ours)",
}  # fmt: skip
COLOURS = {
    "gspo": "#0072B2", "rovr-adv": "#E69F00", "softrovr": "#CC79A7", "rovr-gspo": "#D55E00", "rovr-gspo-adaptive": "#009E73",
}  # fmt: skip
CURVES = {
    "sampled_accuracy": "right among sampled responses\n(the reward without its spikes)",
    "entropy": "token entropy",
    "grad_norm": "gradient norm",
}
DECIDING = "spiked"


@dataclass(frozen=True)
class Setting:
    """Where the sweep's runs are; a job of another size makes its own in `evidence` first."""

    evidence: str = "results/embedded"
    seeds: int = 5
    tiny: bool = False
    """Runs of two generations from a barely warmed-up model: they show that the way works, and nothing else."""


FULL = Setting()
SMOKE = Setting(evidence="runs/paper-placement-smoke", seeds=1, tiny=True)


def run(setting: Setting, progress: Progress) -> list[Row]:
    """Rows of three kinds: final (a run's accuracy), difference (RoVR-GSPO minus another, paired), curve (per generation)."""
    return collect(setting.evidence, setting.seeds, setting.tiny, progress)


def tables(rows: list[Row]) -> dict[str, Table]:
    """Methods by worlds, mean ± standard deviation over seeds, in per cent; the last column is the gain over GSPO."""
    worlds = _worlds(rows)
    body = []
    for method, title in TITLES.items():
        cells = [_mean_and_sd(rows, world, method) for world in worlds]
        if any(cell != "-" for cell in cells):
            body.append([title, *cells, _gain(rows, method)])
    header = ["Method", *(f"{title} ({_seeds(rows, w)})" for w, title in worlds.items()), "Gain under spikes"]
    caption = "Held-out accuracy of the embedded addition model (stand-in), %, mean ± sd over seeds."
    return {"tab:placement_ablation": Table(header, body, caption)}


def _worlds(rows: list[Row]) -> dict[str, str]:
    return {r["world"]: r["title"] for r in rows if r["kind"] == "final"}


def _seeds(rows: list[Row], world: str) -> str:
    count = len({r["seed"] for r in rows if r["kind"] == "final" and r["world"] == world})
    return f"{count} seed" + "s" * (count != 1)


def _finals(rows: list[Row], world: str, method: str) -> list[float]:
    return [100 * r["accuracy"] for r in rows if (r["kind"], r["world"], r["method"]) == ("final", world, method)]


def _mean_and_sd(rows: list[Row], world: str, method: str) -> str:
    values = _finals(rows, world, method)
    if not values:
        return "-"
    sd = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{sd}"


def _gain(rows: list[Row], method: str) -> str:
    ours, base = _finals(rows, DECIDING, method), _finals(rows, DECIDING, "gspo")
    return f"{statistics.mean(ours) - statistics.mean(base):+.2f}" if ours and base and method != "gspo" else ""


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Another model and task, so only the order: RoVR-GSPO has the highest mean of the four under spiked score rewards."""
    gain = {"GSPO": 0.0} | expected("training")["tab:placement_ablation"]["macro_gain"]
    found = []
    for r in rows:
        if r["kind"] == "difference" and r["world"] == DECIDING and r["method"] in PAPER:
            name = TITLES[r["method"]]
            note = (
                f"95 % interval [{r['low']:+.1f}, {r['high']:+.1f}] over seeds and problems, {_seeds(rows, DECIDING)}"
            )
            cell = f"spiked rewards, RoVR-GSPO - {name} (points)"
            published = round(gain["RoVR-GSPO"] - gain[name], 2)
            found.append(Check(cell, r["difference"], published, "direction: above 0", r["difference"] > 0, note))
    return {"tab:placement_ablation": found, "fig:placement_ablation": found}


def findings(rows: list[Row]) -> dict[str, list[str]]:
    """What the runs say without corruption, and how many seeds there are of those planned."""
    clean = {m: statistics.mean(v) for m in PAPER if (v := _finals(rows, "clean", m))}
    if len(clean) < len(PAPER):
        return {}
    best = max(clean, key=lambda m: clean[m])
    sentence = (
        f"without corruption the four lie within {max(clean.values()) - min(clean.values()):.1f} points of each other "
        f"({TITLES[best]} highest, {_seeds(rows, 'clean')}), so the gain is one under corruption; spiked rewards have "
        f"{_seeds(rows, DECIDING)} of {FULL.seeds} planned. Baselines that a known range or a clamp allows are in the evidence "
        "of `rovrl train --sweep evidence`."
    )
    return {"tab:placement_ablation": [sentence]}


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """Reward, entropy and gradient norm against the generation."""
    return {"fig:placement_ablation": _figure}


def _figure(rows: list[Row]) -> Any:
    worlds = [w for w in ("spiked", "clean") if any(r["kind"] == "curve" and r["world"] == w for r in rows)]
    figure, panels = axes(10.5, 1.0 + 2.7 * len(worlds), len(worlds), 3, sharex=True, squeeze=False)
    for world, line in zip(worlds, panels, strict=True):
        for (measure, name), axis in zip(CURVES.items(), line, strict=True):
            for method, colour in COLOURS.items():
                mine = [r for r in rows if (r["kind"], r["world"], r["method"]) == ("curve", world, method)]
                x = [r["generation"] for r in mine]
                middle = [r[measure] for r in mine]
                half = [r[f"{measure}_sd"] for r in mine]
                if mine:
                    axis.plot(x, middle, color=colour, lw=1.6, label=TITLES[method])
                    low, high = ([m + s * h for m, h in zip(middle, half, strict=True)] for s in (-1, 1))
                    axis.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
            axis.set_ylabel(name)
        line[0].set_title(_worlds(rows)[world])
    for axis in panels[-1]:
        axis.set_xlabel("generation")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=9)
    return figure
