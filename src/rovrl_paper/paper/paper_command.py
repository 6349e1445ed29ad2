"""`rovrl paper list | run LABEL | check [LABEL] [--json]`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rovrl.errors import RovrlError, did_you_mean
from rovrl.output.files import write_text
from rovrl.output.progress import progress_bar
from rovrl_paper.paper import own_runs
from rovrl_paper.paper.checking import reproduce_page, result
from rovrl_paper.paper.item import Item
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import RESULTS, draw, load, make

SMOKE_RESULTS = RESULTS.with_name("paper-smoke")
EXAMPLE = """\
examples:
  rovrl paper list                       every table and figure, and what it needs
  rovrl paper run tab:sim_rmse           makes it (CSV, Markdown, LaTeX, SVG, PNG)
  rovrl paper run all --smoke            a quick look at everything
  rovrl paper draw all                   tables and figures again from the saved rows; nothing is run
  rovrl paper check                      ours beside the published numbers
  rovrl paper check tab:reward_contamination --json
  rovrl paper check --markdown docs/reproduce.md
  rovrl paper check tab:math_main --runs evals/math/qwen3-4b-base/rule/*      your own runs beside the published numbers
  rovrl paper draw fig:govreport_curves --runs outputs/govreport/*            rewards by step of your own runs
  rovrl report                           all of it as one HTML file
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl paper`."""
    parser.add_argument("action", choices=["list", "run", "draw", "check"])
    parser.add_argument("label", nargs="?", help="a label of the paper, such as tab:sim_rmse; `all` with run")
    where = f"results directory (default: {RESULTS}; with --smoke {SMOKE_RESULTS}, so that full results stay)"
    parser.add_argument("--out", type=Path, help=where)
    parser.add_argument(
        "--smoke", action="store_true", help="run: a small setting, in seconds; draw, check: those results"
    )
    parser.add_argument("--json", action="store_true", help="list, check: as JSON")
    parser.add_argument(
        "--runs",
        nargs="+",
        metavar="DIR",
        help="check, draw: runs of your own for what needs GPUs; DIR, or MODEL/REWARD/METHOD=DIR",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="check: also write the page of all labels there")


def run(args: argparse.Namespace) -> int:
    """0; check: 1 if a number disagrees."""
    args.out = args.out or (SMOKE_RESULTS if args.smoke else RESULTS)
    return {"list": show_list, "run": run_label, "draw": draw_label, "check": check}[args.action](args)


def show_list(args: argparse.Namespace) -> int:
    """Every label, what it shows, and what makes it or what it needs."""
    if args.json:
        print(json.dumps([asdict(i) | {"available": i.experiment is not None} for i in ITEMS.values()], indent=1))
        return 0
    for item in ITEMS.values():
        how = f"{item.minutes:g} min" if item.experiment else "needs GPUs"
        print(f"{item.label:30} {how:>11}  {item.title}")
        if item.stand_in:
            print(f"{'':44}stand-in: {item.stand_in}")
        if not item.experiment:
            print(f"{'':44}published: {'; '.join(item.published)}")
            print(f"{'':44}would be made by: {item.recipe}")
    return 0


def find(label: str) -> Item:
    """The item of a label (or of an experiment's name)."""
    if label in ITEMS:
        return ITEMS[label]
    for item in ITEMS.values():
        if item.experiment == label:
            return item
    near = did_you_mean(label, ITEMS)
    raise RovrlError(f"{label!r} is not a table or figure of the paper{near}; `rovrl paper list` shows all labels")


def run_label(args: argparse.Namespace) -> int:
    """Makes one label, or all that one machine can."""
    for name in wanted(args):
        with progress_bar(name) as progress:
            make(name, args.out, args.smoke, progress)
        print(f"{name}: {args.out / name}")
    return 0


def draw_label(args: argparse.Namespace) -> int:
    """Makes tables and figures again from the saved rows, or a figure of runs of the reader's own."""
    if args.runs:
        if args.label != own_runs.CURVES:
            raise RovrlError(f"draw --runs is for {own_runs.CURVES}; other labels are drawn from `rovrl paper run`")
        print(f"{args.label}: {own_runs.draw_curves(args.runs, args.out)}")
        return 0
    for name in wanted(args):
        draw(name, load(name, args.out)[0], args.out / name)
        print(f"{name}: {args.out / name}")
    return 0


def wanted(args: argparse.Namespace) -> list[str]:
    """The experiments behind the label of the command line."""
    if args.label is None:
        raise RovrlError(
            f"which one? rovrl paper {args.action} LABEL, or `rovrl paper {args.action} all`; "
            "`rovrl paper list` shows all labels"
        )
    items = list(ITEMS.values()) if args.label == "all" else [find(args.label)]
    if len(items) == 1 and items[0].experiment is None:
        raise RovrlError(f"{items[0].label} needs GPUs and the paper's models; with them: {items[0].recipe}")
    return list(dict.fromkeys(i.experiment for i in items if i.experiment))


def check(args: argparse.Namespace) -> int:
    """Prints ours | published | tolerance | agrees, for one label or all."""
    items = [find(args.label)] if args.label else list(ITEMS.values())
    results = _of_own_runs(args, items) if args.runs else [result(item, args.out) for item in items]
    if args.markdown:
        every = results if len(items) == len(ITEMS) else [result(item, args.out) for item in ITEMS.values()]
        try:
            write_text(args.markdown, reproduce_page(every, args.out))
        except OSError as error:
            raise RovrlError(f"cannot write {args.markdown}: {error.strerror}; choose another --markdown") from None
    if args.json:
        print(json.dumps({"results": results}, indent=1))
    else:
        for r in results:
            _print(r)
    return 1 if any(r["agrees"] is False for r in results) else 0


def _of_own_runs(args: argparse.Namespace, items: list[Item]) -> list[dict]:
    if not args.label:
        raise RovrlError(f"--runs needs a label: one of {', '.join(own_runs.CHECKS)}")
    return [own_runs.result(items[0].label, items[0].title, args.runs)]


def _print(r: dict) -> None:
    word = {True: "agrees", False: "DISAGREES", None: r["status"]}[r["agrees"]]
    print(f"\n{r['id']}: {word}" + (f"  ({r['status']})" if r["agrees"] is not None else ""))
    if r["stand_in"]:
        print(f"  stand-in: {r['stand_in']}")
    if r["cells"]:
        print(f"  {'':62} {'ours':>11} {'published':>11}  tolerance")
    for c in r["cells"]:
        mark = " " if c["agrees"] else "!"
        print(f"{mark} {c['cell'][:62]:62} {c['ours']:11.5g} {c['published']:11.5g}  {c['tolerance']}")
        if c["note"]:
            print(f"    note: {c['note']}")
