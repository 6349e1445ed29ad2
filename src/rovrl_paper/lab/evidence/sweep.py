"""Whole sets of runs, resumable: the evidence on the embedded tasks, and a real language model.

    rovrl train --sweep evidence --out results/embedded
    rovrl train --sweep smollm2 --out results/smollm2-words

What the claims rest on comes first, seed by seed, then the further tables. Runs live in OUT/runs; what a reader needs of them
(settings, learning curve, verdict on every held-out problem, averages of the diagnostics, versions) is collected in
OUT/runs.jsonl. A run with a line there counts as finished, even if its directory is gone: another OUT makes all of them again.

The weights from which the runs start are kept in OUT/starts, one directory per warmed-up model: a warm-up differs from one kind
of processor to another, and a sweep that goes on elsewhere starts from these, so that its runs can be compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines, write_lines, write_text
from rovrl_paper.lab.embedded import require_packages, starting_model
from rovrl_paper.lab.evidence.plan import SWEEPS
from rovrl_paper.lab.job import Job, finished
from rovrl_paper.lab.models.cache import MANIFEST, cached, intact
from rovrl_paper.lab.pool import Order, run_all

LARGEST = 8 << 20
"""Bytes: larger models come from packages, where they are the same for everyone."""


def kept_start(job: Job, out: Path) -> Path:
    """The model that a sweep's jobs of this world start from: the one kept in OUT, else the cache's, which is kept now."""
    for kept in (out / "starts").glob("*/"):
        if intact(kept):
            cached(kept.name, lambda draft, kept=kept: _copy(kept, draft))
    place = starting_model(job)
    kept = out / "starts" / place.name
    if not kept.exists() and sum(file.stat().st_size for file in place.iterdir()) <= LARGEST:
        shutil.copytree(place, kept)
    return kept if intact(kept) else place


def _copy(source: Path, target: Path) -> None:
    for file in source.iterdir():
        if file.name != MANIFEST:
            shutil.copyfile(file, target / file.name)


PAGE, ROLLOUTS_PAGE = Path("docs/evidence.md"), Path("docs/rollouts.md")
"""In the repository, the pages that explain the results are kept in step with them."""


def run(args: argparse.Namespace) -> int:
    """Trains what is missing of a sweep, then collects and writes its report."""
    if args.sweep not in SWEEPS:
        raise RovrlError(f"--sweep {args.sweep!r} is not known; choose one of {', '.join(SWEEPS)}")
    require_packages()
    out = Path(args.out) if args.out else SWEEPS[args.sweep].results
    orders = [Order(job, out / "runs" / place) for place, job in planned(args.sweep)]
    kept = _kept(out, orders)
    _set_aside_other_runs(out, len(kept))
    missing = [order for order in orders if order.directory not in kept]
    print(f"{len(kept)} of {len(orders)} runs are finished in {out}", flush=True)
    if missing:
        warm = {job.start: kept_start(job, out) for job in {o.job.start: o.job for o in missing}.values()}
        run_all(missing, warm, args.workers, True, args.sweep, after_each=partial(collect, out, orders, kept))
    report(args.sweep, out, collect(out, orders, kept))
    return 0


def planned(sweep: str) -> Iterator[tuple[str, Job]]:
    """(place, job) of a sweep in the order of running: seed by seed, so that an unfinished sweep is a balanced one."""
    told = set()
    for stage in SWEEPS[sweep].stages:
        for seed in range(1, max(table.seeds for table in stage) + 1):
            for table in stage:
                for method in table.methods if seed <= table.seeds else ():
                    job = table.setting.job.with_(method=method, seed=seed)
                    place = f"{table.setting.name}/{job.label}"
                    if place not in told:  # two tables of one setting share their runs
                        told.add(place)
                        yield place, job


def collect(out: Path, orders: Sequence[Order], kept: dict[Path, dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Writes the finished runs of a sweep as lines of OUT/runs.jsonl; `kept` are lines of runs that have no directory."""
    rows = []
    for order in orders:
        row = _row(order) or (kept or {}).get(order.directory)
        if row:
            rows.append(row)
    out.mkdir(parents=True, exist_ok=True)
    write_lines(out / "runs.jsonl", rows)
    return rows


def report(name: str, out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes the tables and curves that the runs allow; in the repository also the page that explains them."""
    from rovrl_paper.lab.evidence.report import update_page, update_rollouts, write_report

    write_report(name, out, rows)
    if out == SWEEPS[name].results and PAGE.exists():
        write_text(PAGE, update_page(name, PAGE, rows))
        if name == "evidence" and ROLLOUTS_PAGE.exists():
            write_text(ROLLOUTS_PAGE, update_rollouts(ROLLOUTS_PAGE, rows))


def _row(order: Order) -> dict[str, Any] | None:
    result = finished(order.directory)
    if not result:
        return None
    versions = json.loads((order.directory / "config.json").read_text())["versions"]
    return {"setting": order.directory.parent.name} | result | {"versions": versions}


def _set_aside_other_runs(out: Path, kept: int) -> None:
    """Copies OUT/runs.jsonl before it is rewritten, if it holds lines that the sweep would not write again."""
    path, aside = out / "runs.jsonl", out / "runs.before.jsonl"
    if path.exists() and len(path.read_text().splitlines()) > kept:
        shutil.copyfile(path, aside)
        print(f"{path} holds lines of other runs, which stay in {aside}", flush=True)


def _kept(out: Path, orders: Sequence[Order]) -> dict[Path, dict[str, Any]]:
    """The finished runs by directory, from the directories or from OUT/runs.jsonl, where the job is still the planned one."""
    written: dict[tuple[str, Job], dict[str, Any]] = {}
    for row in read_lines(out / "runs.jsonl"):
        with suppress(KeyError, TypeError, RovrlError):  # a job of another version, or no run at all
            written[row["setting"], Job.from_dict(row["job"])] = row
    found = {}
    for order in orders:
        row = _row(order) or written.get((order.directory.parent.name, order.job))
        if row:
            found[order.directory] = row
    return found
