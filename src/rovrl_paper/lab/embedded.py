"""The embedded job as a command: warm up (or take it from the cache), train side by side, compare, write the page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.output.files import write_json
from rovrl.output.progress import progress_bar
from rovrl_paper.lab.accuracy import Row, as_json, pairs, percent, points, table, title
from rovrl_paper.lab.job import SPIKES, Job, command, finished, preamble, prepare
from rovrl_paper.lab.methods import METHODS, chosen
from rovrl_paper.lab.models.warmup import WarmUp
from rovrl_paper.lab.models.worlds import WORLDS
from rovrl_paper.lab.pool import Order, run_all

RUNS = Path("runs")
DEFAULT_METHODS = "gspo,rovr-gspo,rovr-gspo-guarded"


def run(args: argparse.Namespace, default: argparse.Namespace) -> int:
    """The whole command; `default` is what `args` would be if the user gave no options."""
    require_packages()
    out = place(args.out, args.resume)
    planned = plan(args, out, default)
    methods = list(dict.fromkeys(job.method for job in planned))
    orders = [Order(job, out / job.label) for job in planned]
    for order in orders:
        prepare(order.job, order.directory, args.resume)
    print("\n".join(preamble(orders[0].job)), flush=True)
    warm = {orders[0].job.start: starting_model(orders[0].job)}
    runs = f"{len(orders)} run{'s' * (len(orders) != 1)}"
    print(f"training {runs}, {min(args.workers, len(orders))} at a time, in {out}", flush=True)
    run_all(orders, warm, args.workers, resume=True)
    finish(out, orders, methods, args.compare)
    return 0


def require_packages() -> None:
    """A RovrlError that names the extra if something that training needs is not installed."""
    for package in ("trl", "datasets", "pyarrow", "rich", "platformdirs"):
        require(package, extra="train")


def plan(args: argparse.Namespace, out: Path, default: argparse.Namespace) -> list[Job]:
    """The jobs of this command; with `--resume`, those that the directory was started with."""
    wanted, file = jobs(args), out / "plan.json"
    if args.resume and not out.is_dir():
        raise RovrlError(f"there is no run in {out} to go on with; leave out --resume to begin one there")
    if not (args.resume and file.exists()):
        if not args.resume and (file.exists() or any(out.glob("*/config.json"))):
            raise RovrlError(f"{out} already holds runs; go on with --resume or choose another --out")
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_json(file, [job.to_dict() for job in wanted])
        except OSError as error:
            raise RovrlError(f"cannot write to {out} ({error.strerror}); choose another --out") from None
        return wanted
    started = [Job.from_dict(values) for values in json.loads(file.read_text())]
    if wanted not in (started, jobs(default)):
        raise RovrlError(
            f"{out} was started with other settings; resume with --out and --resume alone (they are remembered), "
            "or choose another --out for new ones"
        )
    return started


def jobs(args: argparse.Namespace) -> list[Job]:
    """Every method with every seed."""
    methods = chosen(args.method or DEFAULT_METHODS)
    if args.seeds < 1:
        raise RovrlError(f"--seeds must be at least 1, not {args.seeds}")
    if args.workers < 1:
        raise RovrlError(f"--workers must be at least 1, not {args.workers}")
    if args.clean and args.contaminate:
        raise RovrlError("--clean and --contaminate contradict each other: leave one out")
    names = ("generations", "prompts", "group", "updates", "learning_rate", "clip_low", "clip_high")
    names += ("evaluate_every", "checkpoint_every")
    given: dict[str, Any] = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    changes = dict(WORLDS[args.model].sizes) | given
    recipe = {"steps": args.warm_up_steps, "seed": args.warm_up_seed}
    base = Job(
        model=args.model,
        reward=args.reward,
        contamination=() if args.clean else tuple(args.contaminate or [SPIKES]),
        rollout=args.rollout,
        warm_up=WarmUp(**{name: value for name, value in recipe.items() if value is not None}),
        **changes,
    )
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    return [base.with_(method=method, seed=seed) for seed in seeds for method in methods]


def place(out: str | None, resume: bool) -> Path:
    """Where the runs go: the directory asked for, a new one by the time, or the newest one to resume."""
    if out:
        return Path(out)
    if not resume:
        return RUNS / time.strftime("%Y%m%d-%H%M%S")
    newest = max(RUNS.glob("*/*/config.json"), key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise RovrlError("there is no run to resume in runs/; name its directory with --out")
    return newest.parent.parent


def starting_model(job: Job) -> Path:
    """The model of the job's world from the cache, or made now with a bar that says how long it takes."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one thread: the same weights on every machine with the same torch
    try:
        with progress_bar("warming up (once; later runs take it from the cache)") as progress:
            return job.world.model(job.warm_up, progress)
    finally:
        torch.set_num_threads(threads)


def finish(out: Path, orders: Sequence[Order], methods: Sequence[str], compare: bool) -> None:
    """Table, comparisons, page."""
    from rovrl_paper.lab.page import write_page

    results = [result for order in orders if (result := finished(order.directory))]
    rows, comparisons = table(results, methods), pairs(results, methods)
    write_json(out / "comparison.json", as_json(rows, comparisons) | {"command": command()})
    print_table(rows)
    print_labels(rows)
    if compare:
        for c in comparisons:
            print(f"{title(c.ours)} - {title(c.theirs)}: {points(c.difference)} points")
    page = write_page(out, orders, rows, comparisons)
    print(f"page: {page}")


def print_table(rows: Sequence[Row]) -> None:
    """Accuracy before and after with 95 % intervals, on the terminal."""
    from rich.console import Console
    from rich.table import Table

    seeds = len(rows[0].seeds)
    shown = Table(title=f"greedy accuracy on the held-out problems, %, {seeds} seed{'s' * (seeds > 1)} [95 % interval]")
    for name in ("method", "before", "after", "sd of seeds", f"minus {title(rows[0].method)}, points"):
        shown.add_column(name, justify="left" if name == "method" else "right")
    for row in rows:
        sd = "-" if row.sd != row.sd else f"{100 * row.sd:.1f}"
        difference = points(row.difference) if row.difference else "-"
        shown.add_row(title(row.method), percent(row.before), percent(row.after), sd, difference)
    Console(width=None if sys.stdout.isatty() else 120).print(shown, markup=False)
    if seeds == 1:
        print("One seed: the intervals hold the choice of problems, not the spread between runs (--seeds 3 shows it).")


def print_labels(rows: Sequence[Row]) -> None:
    """Says which methods go beyond the paper."""
    beyond = [title(row.method) for row in rows if METHODS[row.method].beyond_paper]
    if beyond:
        print(
            f"Beyond the paper, whose own settings are RoVR-GSPO's: {'; '.join(beyond)} "
            "(docs/faults.md, docs/adaptive.md, docs/rollouts.md)."
        )
