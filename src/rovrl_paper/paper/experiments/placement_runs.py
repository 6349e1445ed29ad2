"""The embedded runs behind tab:placement_ablation: found or trained, then turned into rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rovrl.errors import require
from rovrl_paper.paper.item import Progress, Row

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
    from rovrl_paper.lab.accuracy import paired_difference
    from rovrl_paper.lab.compare import final_verdicts

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
