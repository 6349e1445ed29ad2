"""`rovrl audit`: what did the group statistics do to my run?"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from rovrl.audit.judge.findings import CODES
from rovrl.config import RatioChannel, RewardChannel
from rovrl.errors import RovrlError
from rovrl.output.progress import progress_bar
from rovrl.output.terminal import say, visible

CRASHED = 3
"""The exit status of a crash: 1 means that the run has findings."""
COLUMNS = (
    "reward", "group", "step", "prompt", "completion", "advantage", "log_ratios", "logp_new", "logp_old", "mask",
)  # fmt: skip
"""The fields of `Columns` that name a column of the dump, each with an option of its own."""
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
    """Declares the options, by what they decide."""
    parser.add_argument("path", nargs="?", help="a run directory, a folder of rollouts, or one file")
    _add_other_audits(parser.add_argument_group("instead of one audit"))
    _add_output(parser.add_argument_group("what is written"))
    _add_judging(parser.add_argument_group("judging"))
    _add_reading(parser.add_argument_group("reading"))


def _add_other_audits(group: Any) -> None:
    group.add_argument(
        "--compare",
        nargs="+",
        metavar="RUN",
        help="compare these runs with PATH, or with the first of them; --out writes a page",
    )
    group.add_argument(
        "--follow",
        type=float,
        nargs="?",
        const=30.0,
        metavar="SECONDS",
        help="audit again whenever the run has grown (30)",
    )
    group.add_argument(
        "--stop-on",
        action="append",
        default=[],
        metavar="CODE",
        help="with --follow: end with status 1 at this finding",
    )


def _add_output(group: Any) -> None:
    group.add_argument(
        "--out", metavar="DIR", help="write audit.html and audit.json here (default: audit/ beside the input)"
    )
    group.add_argument("--no-page", action="store_true", help="only the summary: write nothing")
    group.add_argument("--json", action="store_true", help="print the result as JSON instead of the summary")
    group.add_argument("--flagged", metavar="FILE", help="write the flagged responses to FILE, .csv or .parquet")
    group.add_argument(
        "--groups", type=int, default=5000, metavar="N", help="groups in page and JSON, the worst first (5000)"
    )


def _add_judging(group: Any) -> None:
    group.add_argument(
        "--threshold", action="append", default=[], metavar="CODE=X", help="when a value becomes a finding"
    )
    group.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="WHAT",
        help="what the reward is meant to be: rare-bonus, rare-penalty, range=LOW:HIGH (may be repeated)",
    )
    group.add_argument("--reward", action="append", default=[], metavar="FIELD=X", help="a field of RewardChannel")
    group.add_argument("--ratio", action="append", default=[], metavar="FIELD=X", help="a field of RatioChannel")
    group.add_argument(
        "--clip", metavar="LOW,HIGH", help="the clip band of the weight (records: the run's own; else 3e-4,4e-4)"
    )


def _add_reading(group: Any) -> None:
    group.add_argument(
        "--format", default="auto", choices=("auto", "records", "trl", "swift", "nemo", "prime", "verl", "table")
    )
    group.add_argument(
        "--group-size", type=int, metavar="G", help="where no group ids were saved: responses per prompt"
    )
    group.add_argument("--keep-evaluation", action="store_true", help="keep rows of evaluation (TRL, ms-swift)")
    group.add_argument(
        "--reward-weight",
        action="append",
        default=[],
        metavar="NAME=W",
        help="weight of a reward column (TRL, ms-swift)",
    )
    for name in COLUMNS:
        group.add_argument(f"--{name.replace('_', '-')}-column", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
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
    _check(args)
    if args.compare:
        return _compare(args)
    if args.follow is not None:
        return _follow(args)
    from rovrl.audit.read.find import find_runs

    options = options_of(args)
    several = len(find_runs(Path(args.path), args.format, options["columns"])) > 1
    return _several(args, options) if several else _one(args, options)


def _check(args: argparse.Namespace) -> None:
    """A RovrlError for words that would do nothing, or could not be done after a long read."""
    if args.stop_on and args.follow is None:
        raise RovrlError("--stop-on ends a run that is being followed: give --follow too")
    if args.flagged is not None and (args.compare or args.follow is not None):
        raise RovrlError("--flagged writes the responses of one finished run: leave out --compare and --follow")
    if args.out is not None and not args.no_page and os.path.exists(args.out) and not os.path.isdir(args.out):
        raise RovrlError(f"cannot write the audit into {args.out}: it is a file; name a folder with --out")
    if (
        not args.path and not args.compare
    ):  # also "", from a script whose variable is not set: it would be this directory
        raise RovrlError("name what to audit: rovrl audit PATH (or --compare A B)")
    if args.flagged is not None:
        from rovrl.audit.show.export import check_flagged

        check_flagged(Path(args.flagged))
    if args.groups < 1:
        raise RovrlError(f"--groups must be at least 1, not {args.groups}")


def _one(args: argparse.Namespace, options: dict[str, Any]) -> int:
    """A single run: its summary, and its page unless none is wanted."""
    from rovrl.audit.run import audit
    from rovrl.audit.show.summary import tolerance

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
    where = sys.stderr if args.json else sys.stdout
    if args.flagged is not None:
        say(f"\nFlagged: {result.write_flagged(args.flagged)}", where)
    if not args.no_page and not (args.json and args.out is None):
        html, data = result.write(args.out or _beside(args.path), args.groups)
        say(f"\nPage: {html}\nJSON: {data}", where)
    return result.status


def _follow(args: argparse.Namespace) -> int:
    from rovrl.audit.live import LiveAudit, follow

    if args.json:
        raise RovrlError("--json prints one finished audit: with --follow, read the audit.json beside its page")
    if not args.follow > 0:
        raise RovrlError(f"--follow needs a number of seconds above 0, not {args.follow:g}")
    if not Path(args.path).exists():
        raise RovrlError(f"{args.path} does not exist: name the directory that the run writes its rollouts into")
    out = None if args.no_page else Path(args.out or _beside(args.path))
    try:
        live = LiveAudit(Path(args.path), out, args.stop_on, args.groups, **options_of(args))
    except ValueError as error:
        raise RovrlError(f"--stop-on: {error}") from None
    return follow(live, every=args.follow, say=lambda line: print(visible(line), flush=True))


def _several(args: argparse.Namespace, options: dict[str, Any]) -> int:
    """Every run below the path on its own: an index in the terminal and as a page, a page each; the worst status."""
    from rovrl.audit.result import AuditResult
    from rovrl.audit.run import audit_all
    from rovrl.audit.show.page import write_index
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


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options of an audit, or a RovrlError that says which word is wrong."""
    from rovrl.audit.read.rows import Columns

    given = {name: getattr(args, f"{name}_column") for name in COLUMNS}
    weights = tuple(
        (name, _number(value, "--reward-weight")) for name, value in _pairs(args.reward_weight, "--reward-weight")
    )
    if strange := [f"{name}={weight}" for name, weight in weights if not math.isfinite(weight)]:
        raise RovrlError(f"--reward-weight needs a finite number, not {strange[0]}")
    return {
        "format": args.format,
        "columns": Columns(**given, reward_weights=weights),
        "group_size": args.group_size,
        "keep_evaluation": args.keep_evaluation,
        "reward_channel": _channel(RewardChannel, args.reward, "--reward") if args.reward else None,
        "ratio_channel": _channel(RatioChannel, args.ratio, "--ratio"),
        "clip": _clip(args.clip),
        "expect": _expected(args.expect),
        "threshold": {code: _number(value, "--threshold") for code, value in _pairs(args.threshold, "--threshold")},
    }


def _expected(words: list[str]) -> tuple[str, ...]:
    """The declarations; a range without an end is refused, since it would allow every reward."""
    from rovrl.audit.judge.expect import Expectations

    for word in words:
        if word.startswith("range=") and not Expectations.of([word]).has_range:
            raise RovrlError(f"--expect {word} allows every reward: give LOW:HIGH or one of the two, such as range=0:")
    return tuple(words)


def _pairs(words: list[str], option: str) -> list[tuple[str, str]]:
    for word in words:
        if "=" not in word:
            raise RovrlError(f"{option} takes NAME=VALUE, not {word!r}")
    return [(word.split("=", 1)[0], word.split("=", 1)[1]) for word in words]


def _number(value: str, option: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise RovrlError(f"{option} needs a number, not {value!r}") from None


def _channel(kind: type[RewardChannel] | type[RatioChannel], words: list[str], option: str) -> Any:
    fields = {}
    for name, value in _pairs(words, option):
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    try:
        return kind.from_dict(fields)
    except ValueError as error:
        raise RovrlError(f"{option}: {error}") from None


def _clip(words: str | None) -> tuple[float, float] | None:
    if words is None:
        return None
    parts = words.split(",")
    if len(parts) != 2:
        raise RovrlError(f"--clip takes LOW,HIGH such as 3e-4,4e-4, not {words!r}")
    low, high = (_number(part, "--clip") for part in parts)
    if not (0 <= low < 1 and 0 <= high < float("inf")):
        raise RovrlError(f"--clip needs 0 <= LOW < 1 and HIGH >= 0, not {words!r}")
    return low, high
