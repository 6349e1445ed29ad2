"""`rovrl audit`: what did the group statistics do to my run?"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from rovrl.audit.judge.codes import CODES
from rovrl.audit.options import COLUMNS, check_flagged, check_out, options_of
from rovrl.errors import RovrlError
from rovrl.output.progress import progress_bar
from rovrl.output.terminal import say, visible

CRASHED = 3
EXAMPLE = """\
examples:
  rovrl audit outputs/run                     # TRL completions, verl rollouts, rovrl records or a table, found by itself
  rovrl audit rollouts.parquet --reward-column score --group-column prompt_id --out audit
  rovrl audit outputs/run --threshold tied_groups=0.5 --threshold contrast_lost=0.01     # for CI: exit status 1 above them
  rovrl audit outputs/run --expect range=0:1  # what the reward is meant to be, so that the audit need not guess
  rovrl audit --compare outputs/a outputs/b --out compared     # runs side by side; exit status 1 if one is clearly worse
  rovrl audit outputs/run --follow --stop-on stuck_grader     # while it trains; reload the page for newer numbers
  rovrl audit outputs/run --flagged flagged.csv               # the responses to look at, with their texts

exit status: 0 healthy or to decide, 1 findings above thresholds, 2 unusable input, 3 a crash or not enough memory.
thresholds:
""" + "\n".join(f"  {name:<20} {code.threshold:<6g} {code.compares}" for name, code in CODES.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("path", nargs="?", help="a run directory, a folder of rollouts, or one file")
    parser.add_argument(
        "--out", metavar="DIR", help="write audit.html and audit.json here (default: audit/ beside the input)"
    )
    parser.add_argument("--no-page", action="store_true", help="only the summary: write nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the summary")
    parser.add_argument(
        "--follow",
        type=float,
        nargs="?",
        const=30.0,
        metavar="SECONDS",
        help="audit again whenever the run has grown (30)",
    )
    parser.add_argument(
        "--stop-on",
        action="append",
        default=[],
        metavar="CODE",
        help="with --follow: end with status 1 at this finding",
    )
    parser.add_argument("--flagged", metavar="FILE", help="write the flagged responses to FILE, .csv or .parquet")
    parser.add_argument(
        "--groups", type=int, default=5000, metavar="N", help="groups in page and JSON, the worst first (5000)"
    )
    parser.add_argument(
        "--threshold", action="append", default=[], metavar="CODE=X", help="when a value becomes a finding"
    )
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="WHAT",
        help="what the reward is meant to be: rare-bonus, rare-penalty, range=LOW:HIGH (may be repeated)",
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        metavar="RUN",
        help="compare these runs with PATH, or with the first of them, instead; --out writes a page",
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--format", default="auto", choices=("auto", "records", "trl", "swift", "nemo", "prime", "verl", "table")
    )
    reading.add_argument(
        "--group-size", type=int, metavar="G", help="where no group ids were saved: responses per prompt"
    )
    reading.add_argument("--keep-evaluation", action="store_true", help="keep rows of evaluation (TRL, ms-swift)")
    reading.add_argument(
        "--reward-weight",
        action="append",
        default=[],
        metavar="NAME=W",
        help="weight of a reward column (TRL, ms-swift)",
    )
    for name in COLUMNS:
        reading.add_argument(f"--{name.replace('_', '-')}-column", metavar="NAME")
    estimators = parser.add_argument_group("estimators")
    estimators.add_argument("--reward", action="append", default=[], metavar="FIELD=X", help="a field of RewardChannel")
    estimators.add_argument("--ratio", action="append", default=[], metavar="FIELD=X", help="a field of RatioChannel")
    estimators.add_argument(
        "--clip", metavar="LOW,HIGH", help="the clip band of the weight (records: the run's own; else 3e-4,4e-4)"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status. A crash has a status of its own: 1 means that the run has findings."""
    try:
        return _run(args)
    except MemoryError:
        print("rovrl: not enough memory for this dump: audit fewer files at a time", file=sys.stderr)
    except (RovrlError, BrokenPipeError):
        raise
    except Exception:
        traceback.print_exc()
        print("rovrl: the audit crashed; this is a mistake in rovrl, not a finding about the run", file=sys.stderr)
    return CRASHED


def _run(args: argparse.Namespace) -> int:
    if args.stop_on and args.follow is None:
        raise RovrlError("--stop-on ends a run that is being followed: give --follow too")
    if args.flagged is not None and (args.compare or args.follow is not None):
        raise RovrlError("--flagged writes the responses of one finished run: leave out --compare and --follow")
    if args.out is not None and not args.no_page:
        check_out(Path(args.out))
    if args.compare:
        return _compare(args)
    if not args.path:  # also "", from a script whose variable is not set: it would be this directory
        raise RovrlError("name what to audit: rovrl audit PATH (or --compare A B)")
    if args.flagged is not None:
        check_flagged(Path(args.flagged))
    if args.groups < 1:
        raise RovrlError(f"--groups must be at least 1, not {args.groups}")
    if args.follow is not None:
        return _follow(args)
    from rovrl.audit.read.find import find_runs
    from rovrl.audit.run import audit
    from rovrl.audit.show.summary import tolerance

    options = options_of(args)
    if len(find_runs(Path(args.path), args.format, options["columns"])) > 1:
        return _several(args, options)
    with progress_bar("audit") as progress:
        result = audit(args.path, progress=progress, **options)
    if args.json:
        say(json.dumps(result.to_dict(args.groups), allow_nan=False))
    else:
        if not args.no_page:
            _ = result.description  # the page needs it: the summary shows it too
        say(result.show())
        if not args.no_page and (said := tolerance(result)):
            say("\n" + visible(said))
    if args.flagged is not None:
        say(f"\nFlagged: {result.write_flagged(args.flagged)}", sys.stderr if args.json else sys.stdout)
    if not args.no_page and not (args.json and args.out is None):
        html, data = result.write(args.out or _beside(args.path), args.groups)
        say(f"\nPage: {html}\nJSON: {data}", sys.stderr if args.json else sys.stdout)
    return result.status


def _follow(args: argparse.Namespace) -> int:
    from rovrl.audit.follow import follow

    if args.json:
        raise RovrlError("--json prints one finished audit: with --follow, read the audit.json beside its page")
    if not args.follow > 0:
        raise RovrlError(f"--follow needs a number of seconds above 0, not {args.follow:g}")
    unknown = sorted(set(args.stop_on) - set(CODES))
    if unknown:
        raise RovrlError(f"--stop-on names no finding: {', '.join(unknown)}; the codes are {', '.join(CODES)}")
    if not Path(args.path).exists():
        raise RovrlError(f"{args.path} does not exist: name the directory that the run writes its rollouts into")
    out = None if args.no_page else Path(args.out or _beside(args.path))
    options = options_of(args) | {"every": args.follow, "groups": args.groups, "stop_on": args.stop_on}
    return follow(Path(args.path), out, say=lambda line: print(visible(line), flush=True), **options)


def _several(args: argparse.Namespace, options: dict[str, Any]) -> int:
    """Every run below the path on its own: an index in the terminal and as a page, a page each; the worst status."""
    from rovrl.audit.result import AuditResult
    from rovrl.audit.run import audit_all
    from rovrl.audit.show.index import write_index
    from rovrl.audit.show.summary import index

    if args.flagged is not None:
        raise RovrlError(f"{args.path} holds several runs, and --flagged writes the responses of one: name that run")
    results = audit_all(args.path, **options)
    good = {name: result for name, result in results.items() if isinstance(result, AuditResult)}
    if args.json:
        say(json.dumps({name: result.to_dict(args.groups) for name, result in good.items()}, allow_nan=False))
    say(visible(index(args.path, results)), sys.stderr if args.json else sys.stdout)
    if not args.no_page and not (args.json and args.out is None):
        place = Path(args.out or _beside(args.path))
        for folder in {place / part for name in good for part in (Path(name), *Path(name).parents)} - {place}:
            _refuse_link(folder)
        for name, result in good.items():
            result.write(place / name, args.groups)
        say(f"\nPage: {write_index(args.path, results, place)}", sys.stderr if args.json else sys.stdout)
    return max((result.status for result in good.values()), default=2)


def _compare(args: argparse.Namespace) -> int:
    from rovrl.audit.comparing import compare
    from rovrl.audit.run import SeveralRuns

    paths = [args.path, *args.compare] if args.path else args.compare
    try:
        with progress_bar("audit") as progress:
            result = compare(*paths, progress=progress, **options_of(args))
    except SeveralRuns as error:
        raise RovrlError(f"{error.held}, and --compare compares single runs: name them") from error
    say(json.dumps(result.to_dict(), allow_nan=False) if args.json else visible(result.show()))
    if args.out is not None and not args.no_page:
        html, data = result.write(args.out)
        say(f"\nPage: {html}\nJSON: {data}", sys.stderr if args.json else sys.stdout)
    return result.status


def _beside(path: str) -> str:
    place = Path(path)
    place = (place if place.is_dir() else place.parent) / "audit"
    _refuse_link(place)
    return str(place)


def _refuse_link(place: Path) -> None:
    if place.is_symlink():
        raise RovrlError(f"{place} is a symbolic link, which may lead anywhere: name a place for the audit with --out")
