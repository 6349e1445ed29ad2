"""The evidence: the placement ablation and its rivals on the embedded task, about a hundred runs, resumable.

    rovrl train --sweep evidence --out results/embedded

The main table comes first, seed by seed, then the further rows. Runs live in OUT/runs; what a reader needs of them (settings,
learning curve, verdict on every held-out problem, averages of the diagnostics, versions) is collected in OUT/runs.jsonl.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.train.embedded import require_packages, starting_model
from rovrl.train.job import Job, finished
from rovrl.train.pool import Order, run_all
from rovrl.train.sweep_settings import FURTHER, MAIN

SWEEPS = {"evidence": (MAIN, FURTHER)}
RESULTS, PAGE = Path("results/embedded"), Path("docs/evidence.md")
"""In the repository, the page that explains the results is kept in step with them."""


def run(args: argparse.Namespace) -> int:
    """Trains what is missing of a sweep, then collects and writes its report."""
    if args.sweep not in SWEEPS:
        raise RovrlError(f"--sweep {args.sweep!r} is not known; there is {', '.join(SWEEPS)}")
    require_packages()
    out = Path(args.out) if args.out else RESULTS
    orders = [Order(job, out / "runs" / place) for place, job in planned(args.sweep)]
    print(f"{sum(bool(finished(o.directory)) for o in orders)} of {len(orders)} runs are finished in {out}", flush=True)
    warm = {job.warm_up.seed: starting_model(job) for job in {o.job.warm_up: o.job for o in orders}.values()}
    run_all(orders, warm, args.workers, resume=True, title="evidence", after_each=lambda: collect(out, orders))
    collect(out, orders)
    return 0


def planned(sweep: str) -> Iterator[tuple[str, Job]]:
    """(place, job) of a sweep in the order of running: seed by seed, so that an unfinished sweep is a balanced one."""
    for stage in SWEEPS[sweep]:
        for seed in range(1, max(setting.seeds for setting in stage) + 1):
            for setting in stage:
                for method in setting.methods if seed <= setting.seeds else ():
                    job = setting.job.with_(method=method, seed=seed)
                    yield f"{setting.name}/{job.label}", job


def collect(out: Path, orders: Sequence[Order]) -> list[dict[str, Any]]:
    """Writes the finished runs of a sweep as lines of OUT/runs.jsonl, and the report that they allow."""
    from rovrl.train.evidence import update_page, write_report

    rows = []
    for order in orders:
        result = finished(order.directory)
        if result:
            versions = json.loads((order.directory / "config.json").read_text())["versions"]
            rows.append({"setting": order.directory.parent.name} | result | {"versions": versions})
    out.mkdir(parents=True, exist_ok=True)
    (out / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_report(out, rows)
    if out == RESULTS and PAGE.exists():
        PAGE.write_text(update_page(PAGE, rows))
    return rows
