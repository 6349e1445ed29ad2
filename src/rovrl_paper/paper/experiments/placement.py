"""tab:placement_ablation, fig:placement_ablation: each channel alone and both, on the embedded task instead of MATH.

The runs are those of the evidence sweep (`rovrl train --sweep evidence --out results/embedded`); where none are finished, its
main rows are trained first: fifty runs, about an hour on two cores, resumable. The columns are the worlds of the sweep in place
of the paper's benchmarks; a column counts only the seeds that all its methods have finished.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rovrl.errors import require
from rovrl_paper.paper.item import Check, Progress, Row, Table, expected
from rovrl_paper.paper.plot import axes

PAPER = ("gspo", "rovr-adv", "softrovr", "rovr-gspo")
"""The four rows of the published table."""
SHOWN = (*PAPER, "rovr-gspo-adaptive")
SMOOTH = 2
"""Generations averaged for one point of a curve."""


def collect(evidence: str, seeds: int, tiny: bool, progress: Progress) -> list[Row]:
    """Rows of the finished runs in `evidence`; trains the main rows of the sweep where the four methods share no seed."""
    for package in ("trl", "datasets", "pyarrow"):
        require(package, extra="train")
    orders = list(_orders(Path(evidence), seeds, tiny))
    if not _shared(_results(orders), "spiked"):
        _train(orders, tiny, progress)
    results = _results(orders)
    rows = [row for world in dict.fromkeys(r["world"] for r in results) for row in _rows(results, world)]
    progress(len(results), len(results))
    return rows


def _orders(evidence: Path, seeds: int, tiny: bool) -> Iterator[tuple[str, str, Any, Path]]:
    """(world, title, job, directory) of the sweep's runs with the table's methods, as the sweep itself lays them out."""
    from rovrl_paper.lab.evidence.plan import FIVE, FURTHER, MAIN, MISMATCH, PLACEMENT, RULE, UPWARD

    further = tuple(t for t in (*MAIN, *FURTHER) if t.setting in (RULE, FIVE, UPWARD, MISMATCH))
    for table in PLACEMENT[:1] if tiny else (*PLACEMENT, *further):
        setting = table.setting
        for seed in range(1, min(seeds, table.seeds) + 1):
            for method in (m for m in table.methods if m in SHOWN):
                job = setting.job.with_(method=method, seed=seed)
                if tiny:
                    recipe = replace(job.warm_up, steps=20)
                    job = job.with_(generations=2, prompts=2, group=16, updates=2, evaluate_every=2, warm_up=recipe)
                yield setting.name, setting.title, job, evidence / "runs" / setting.name / job.label


def _results(orders: Sequence[tuple[str, str, Any, Path]]) -> list[dict[str, Any]]:
    from rovrl_paper.lab.job import finished

    found = [(world, title, where, finished(where)) for world, title, _, where in orders]
    return [{"world": w, "title": t, "where": where} | result for w, t, where, result in found if result]


def _train(orders: Sequence[tuple[str, str, Any, Path]], tiny: bool, progress: Progress) -> None:
    """The missing runs of the main table, in the sweep's own directories; `rovrl train --sweep evidence` goes on from them."""
    from rovrl_paper.lab.embedded import starting_model
    from rovrl_paper.lab.job import prepare
    from rovrl_paper.lab.pool import Order, run_all

    main = [(job, where) for world, _, job, where in orders if world in ("spiked", "clean")]
    warm = {main[0][0].start: starting_model(main[0][0])}
    if tiny:  # in this process: a worker would take longer to start than the runs take
        from rovrl_paper.lab.run import run as train_one

        for done, (job, where) in enumerate(main):
            prepare(job, where, resume=True)
            train_one(job, where, warm[job.start])
            progress(done + 1, len(main))
        return
    print(
        f"no finished runs of the four methods: training {len(main)} of them first, about an hour on two cores.\n"
        "It can be stopped and resumed; `rovrl train --sweep evidence --out results/embedded` does the same\n"
        "and the further rows.",
        flush=True,
    )
    run_all([Order(job, where) for job, where in main], warm, 2, resume=True, title="placement")


def _shared(results: Sequence[dict[str, Any]], world: str) -> set[int]:
    """Seeds that all of the paper's methods planned for the world have finished."""
    seeds: dict[str, set[int]] = {}
    for r in results:
        if r["world"] == world:
            seeds.setdefault(r["job"]["method"], set()).add(r["job"]["seed"])
    wanted = PAPER if world in ("spiked", "clean") else ("gspo", "rovr-gspo")
    return set.intersection(*(seeds.get(method, set()) for method in wanted))


def _rows(results: Sequence[dict[str, Any]], world: str) -> Iterator[Row]:
    """The rows of one world, over the seeds that its methods share; a further method counts once it has all of them."""
    from rovrl_paper.lab.accuracy import final_verdicts, paired_difference

    shared = _shared(results, world)
    mine: dict[str, list[dict[str, Any]]] = {}
    for r in results:
        if r["world"] == world and r["job"]["seed"] in shared:
            mine.setdefault(r["job"]["method"], []).append(r)
    complete = {m: runs for m, runs in mine.items() if len(runs) == len(shared)} if shared else {}
    for method, runs in complete.items():
        for r in runs:
            yield {
                "kind": "final", "world": world, "title": r["title"], "method": method, "seed": r["job"]["seed"],
                "accuracy": r["evaluations"][-1]["accuracy"], "before": r["evaluations"][0]["accuracy"],
            }  # fmt: skip
    if "rovr-gspo" in complete:
        ours = final_verdicts(complete["rovr-gspo"])
        for method, runs in complete.items():
            if method != "rovr-gspo":
                d = paired_difference(ours, final_verdicts(runs))
                yield {
                    "kind": "difference", "world": world, "method": method, "seed": len(shared),
                    "difference": 100 * d.value, "low": 100 * d.low, "high": 100 * d.high,
                }  # fmt: skip
    if world in ("spiked", "clean"):
        for method, runs in complete.items():
            yield from _curve(world, method, runs)


def _curve(world: str, method: str, runs: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """Mean and standard deviation over seeds, a point for every two generations."""
    from rovrl.output.files import read_lines

    logs = [read_lines(r["where"] / "metrics.jsonl") for r in runs]
    updates, generations = runs[0]["job"]["updates"], runs[0]["job"]["generations"]
    for last in range(min(SMOOTH, generations), generations + 1, SMOOTH):
        first = max(1, last - SMOOTH + 1)
        row: Row = {"kind": "curve", "world": world, "method": method, "generation": last}
        for name, key in (("sampled_accuracy", "true_accuracy"), ("entropy", "entropy"), ("grad_norm", "grad_norm")):
            window = [
                [m[key] for m in log if key in m and first <= (m["step"] - 1) // updates + 1 <= last] for log in logs
            ]
            values = [statistics.mean(w) for w in window if w]
            if not values:
                continue
            row[name] = statistics.mean(values)
            row[f"{name}_sd"] = statistics.stdev(values) if len(values) > 1 else 0.0
        yield row


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
SPIKED, CLEAN = "spiked", "clean"
"""The paper plants nothing in its ablation, so the clean world decides; the spiked one is shown beside it."""
LATE = 5
"""Points at the end of a curve that count as late: two generations each."""


@dataclass(frozen=True)
class Setting:
    """Where the sweep's runs are; a job of another size makes its own in `evidence` first."""

    evidence: str = "results/embedded"
    seeds: int = 5
    tiny: bool = False
    """Runs of two generations from a barely warmed-up model: they show that everything runs, and nothing else."""


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
    ours, base = _finals(rows, SPIKED, method), _finals(rows, SPIKED, "gspo")
    return f"{statistics.mean(ours) - statistics.mean(base):+.2f}" if ours and base and method != "gspo" else ""


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Another model and task, so only directions: both channels above each other method, and lower entropy late in the runs."""
    means = [_difference_check(rows, r) for r in rows if r["kind"] == "difference" and r["method"] in PAPER]
    table = [c for c in means if c is not None]
    return {"tab:placement_ablation": table, "fig:placement_ablation": table + _entropy_checks(rows)}


def _difference_check(rows: list[Row], r: Row) -> Check | None:
    """RoVR-GSPO minus another method in one of the two worlds; it disagrees where the difference is not above 0."""
    if r["world"] not in (CLEAN, SPIKED):
        return None
    gain = {"GSPO": 0.0} | expected("training")["tab:placement_ablation"]["macro_gain"]
    name = TITLES[r["method"]]
    interval = f"95 % interval [{r['low']:+.1f}, {r['high']:+.1f}] over seeds and problems, {_seeds(rows, r['world'])}"
    sure = "" if r["low"] > 0 or r["high"] < 0 else ": holds 0"
    planted = "" if r["world"] == CLEAN else "; the paper plants no spikes, so this is beside its claim"
    cell = f"{r['world']} rewards, RoVR-GSPO - {name} (points)"
    published = round(gain["RoVR-GSPO"] - gain[name], 2)
    note = interval + sure + planted
    return Check(cell, r["difference"], published, "direction: above 0", r["difference"] > 0, note)


def _entropy_checks(rows: list[Row]) -> list[Check]:
    """The published claim of the figure: the robust variants show lower late entropy than GSPO."""
    curves = {m: [r for r in rows if (r["kind"], r["world"], r["method"]) == ("curve", CLEAN, m)] for m in PAPER}
    late = {m: [r["entropy"] for r in curve[-LATE:]] for m, curve in curves.items() if curve}
    if "gspo" not in late:
        return []
    base = statistics.mean(late["gspo"])
    note = f"mean of the last {2 * LATE} generations; GSPO's own points vary by {max(late['gspo']) - min(late['gspo']):.4f}"
    return [
        Check(
            f"clean rewards, late entropy of {TITLES[method]} - GSPO",
            statistics.mean(values) - base,
            0.0,
            "direction: below 0",
            statistics.mean(values) < base,
            note,
        )
        for method, values in late.items()
        if method != "gspo"
    ]


def findings(rows: list[Row]) -> dict[str, list[str]]:
    """What the clean world says against the paper, and what the spiked one adds."""
    clean = {m: statistics.mean(v) for m in PAPER if (v := _finals(rows, CLEAN, m))}
    if len(clean) < len(PAPER):
        return {}
    best = max(clean, key=lambda m: clean[m])
    found = next(r for r in rows if (r["kind"], r["world"], r["method"]) == ("difference", CLEAN, "softrovr"))
    word = "agrees with" if found["low"] > 0 else "disagrees with" if found["high"] < 0 else "cannot decide about"
    sentence = (
        f"without planted corruption, as in the paper, the four lie within {max(clean.values()) - min(clean.values()):.1f} "
        f"points of each other ({TITLES[best]} highest, {_seeds(rows, CLEAN)}); RoVR-GSPO - SoftRoVR is "
        f"{found['difference']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}] against the published +1.77: it {word} "
        f"the paper. The gain comes under corruption ({_seeds(rows, SPIKED)} of {FULL.seeds} planned). Baselines that a "
        "known range or a clamp allows are in the evidence of `rovrl train --sweep evidence`."
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
