"""`rovrl eval`: a model on the paper's suites or on rows of your own, two evaluations compared, or the scorer checked."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rovrl.errors import RovrlError, require
from rovrl.output.progress import counted, progress_bar
from rovrl.tasks.catalog import SETS, load, parse_columns, read_rows

if TYPE_CHECKING:
    from rovrl.evaluate.engine import Decoding

EXAMPLE = """\
examples:
  rovrl eval runs/rovr-gspo/final --suite math500,aime2025 --samples 8 --temperature 0.6
  rovrl eval seed1/final seed2/final seed3/final --suite math500     three training runs of one method: mean and sd over them
  rovrl eval Qwen/Qwen3-4B-Base --suite rlla_test --data rlla_4k     greedy tool calls, as in the paper
  rovrl eval MODEL --suite math:mine.jsonl --columns problem=question,answer=gold      problems of your own
  rovrl eval MODEL --suite own:mine.jsonl --reward my_rewards.py:correct               prompts and a reward of your own
  rovrl eval MODEL --suite own:mine.jsonl --reward math              your prompts as they are, math-verify on the column answer
  rovrl eval --compare runs/eval/gspo runs/eval/rovr-gspo            paired differences with intervals
  rovrl eval --check-gold data/math500.jsonl                         is every gold answer accepted, every other one refused?
Repeat the command of a killed evaluation and it goes on where it stopped.
suites: """ + ", ".join(SETS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl eval`."""
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="directory or Hub name; several are runs of one method"
    )
    what = parser.add_argument_group("what")
    what.add_argument("--suite", metavar="A,B", help="suites by name, or TASK:FILE for your own rows; own:FILE")
    what.add_argument(
        "--data", type=Path, metavar="DIR", help="local copies (SUITE.jsonl or .parquet) instead of the Hub"
    )
    what.add_argument(
        "--reward", action="append", default=[], metavar="FUNCTION",
        help="one more metric: module:function, file.py:function, or a verifier: math, toolcall, govreport; repeatable",
    )  # fmt: skip
    what.add_argument("--columns", metavar="OURS=YOURS,...", help="what the files of TASK:FILE call the task's columns")
    what.add_argument("--limit", type=int, metavar="N", help="only the first N problems of each suite")
    what.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="pair two finished evaluations")
    what.add_argument(
        "--check-gold", nargs="+", type=Path, metavar="PATH", help="check the scorer on files of gold answers"
    )
    how = parser.add_argument_group("decoding (equal for every model that is to be compared)")
    how.add_argument("--samples", type=int, default=1, metavar="K", help="responses per problem and run (default: 1)")
    how.add_argument("--runs", type=int, default=1, metavar="N", help="independent repetitions (default: 1)")
    how.add_argument("--temperature", type=float, help="default: 0 (greedy) for one response, else 1")
    how.add_argument("--top-p", type=float, default=1.0, help="default: 1")
    how.add_argument("--max-new-tokens", type=int, help="default: the task's limit (math 8192, others 1024)")
    how.add_argument("--seed", type=int, default=0, help="default: 0")
    how.add_argument(
        "--chunk", type=int, default=8, metavar="N", help="problems generated and saved together (default: 8)"
    )
    run = parser.add_argument_group("running")
    run.add_argument("--out", type=Path, metavar="DIR", help="default: runs/eval/<model's name>")
    run.add_argument("--engine", choices=["auto", "transformers", "vllm"], default="auto", help="default: auto")
    run.add_argument("--batch-size", type=int, default=16, metavar="N", help="sequences per forward pass (default: 16)")
    run.add_argument("--device", default="auto", help="cpu, cuda, ... (default: auto)")
    run.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Does what the arguments ask for."""
    if args.compare:
        return _compare(args)
    if args.check_gold:
        return _check_gold(args)
    if not args.models or not args.suite:
        raise RovrlError(
            "give a MODEL and --suite NAME (or --compare A B, or --check-gold PATH); `rovrl eval --help` has examples"
        )
    return _evaluate(args)


def _evaluate(args: argparse.Namespace) -> int:
    from rovrl.evaluate import engine
    from rovrl.evaluate.metrics import load_rewards
    from rovrl.evaluate.run import evaluate, task_of

    out = args.out or Path("runs/eval") / Path(args.models[0]).name
    if not (out / "settings.json").is_file():  # an evaluation that has begun may need its models no more
        for model in args.models:
            engine.refuse_missing(model)
    decoding = _decoding(args)
    names = [name.strip() for name in args.suite.split(",") if name.strip()]
    columns = parse_columns(args.columns) if args.columns else {}
    suites = {name: load(name, args.data, args.limit, columns) for name in names}
    rewards = load_rewards(args.reward)
    if not rewards and any(task_of(name) == "own" for name in names):
        raise RovrlError(
            "own:FILE needs a metric: --reward file.py:function (called as TRL or verl calls it), or --reward math for "
            "math-verify on the column 'answer'"
        )
    opened = engine.choose(args.engine)
    try:
        with progress_bar("responses") as progress:
            results = evaluate(
                args.models,
                suites,
                decoding,
                out,
                rewards=rewards,
                open_engine=lambda model: opened(model, batch=args.batch_size, device=args.device),
                progress=progress,
            )
    except ValueError as error:
        raise RovrlError(str(error)) from None
    _print(args, results, results_table)
    print(f"every response and results.json are in {out}", file=sys.stderr)
    return 0


def _decoding(args: argparse.Namespace) -> Decoding:
    from rovrl.evaluate.engine import Decoding

    temperature = args.temperature
    if temperature is None:
        temperature = 0.0 if args.samples * args.runs == 1 else 1.0
    try:
        return Decoding(args.samples, args.runs, temperature, args.top_p, args.max_new_tokens, args.seed, args.chunk)
    except ValueError as error:
        raise RovrlError(str(error)) from None


def _compare(args: argparse.Namespace) -> int:
    from rovrl.evaluate.results import compare

    _print(args, compare(*args.compare), comparison_table)
    return 0


def _check_gold(args: argparse.Namespace) -> int:
    from rovrl.evaluate.metrics import checks, run_check

    files = [file for path in args.check_gold for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    found = {}
    for file in files:
        asked = checks(read_rows(file))
        with progress_bar(file.name) as progress:
            on_done = counted(progress, sum(len(check.entries) for check in asked))
            found[str(file)] = [run_check(check, on_done) for check in asked]
        if not args.json:
            gold_table(str(file), found[str(file)])
    if args.json:
        print(json.dumps(found, indent=2))
    return 0


def _print(args: argparse.Namespace, results: dict, table) -> None:
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        table(results)


def results_table(results: dict[str, Any]) -> None:
    """Prints each suite and metric: mean ± sd over runs, the interval over problems, pass@k, the share of cut-off responses."""
    table = _table("suite", "problems", "metric", "mean ± sd over runs", "95 % over problems", "samples", "cut off")
    for suite, entry in results["suites"].items():
        for metric, found in entry["metrics"].items():
            spread = f" ± {found['sd']:.4f}" if found["sd"] is not None else ""
            extra = ", ".join(f"{key} {found[key]:.4f}" for key in found if key.startswith(("pass@", "mean@")))
            low, high = found["interval"]
            table.add_row(
                suite,
                str(entry["problems"]),
                metric,
                f"{found['mean']:.4f}{spread}",
                f"[{low:.4f}, {high:.4f}]",
                extra,
                f"{100 * entry['cut_off']:.1f} %",
            )
    _show(table)


def comparison_table(result: dict[str, Any]) -> None:
    """Prints B - A for each suite and metric."""
    table = _table("suite", "metric", "problems", "A", "B", "B - A", "95 % paired", "B better / worse / equal")
    for suite, metrics in result["suites"].items():
        for metric, found in metrics.items():
            low, high = found["interval"]
            table.add_row(
                suite,
                metric,
                str(found["problems"]),
                f"{found['first']:.4f}",
                f"{found['second']:.4f}",
                f"{found['difference']:+.4f}",
                f"[{low:+.4f}, {high:+.4f}]",
                f"{found['better']} / {found['worse']} / {found['equal']}",
            )
    _show(table)
    print(f"A = {result['first']}\nB = {result['second']}")


def gold_table(path: str, lines: list[dict[str, Any]]) -> None:
    """Prints each check of a file, then every exception with its reason."""
    table = _table(path, "right", "asked", "", "per second")
    for line in lines:
        share = 100 * line["right"] / line["asked"] if line["asked"] else 100.0
        rate = line["asked"] / line["seconds"] if line["seconds"] else 0.0
        table.add_row(line["check"], str(line["right"]), str(line["asked"]), f"{share:.2f} %", f"{rate:.0f}")
    _show(table)
    for line in lines:
        for name, answer, reason in line["exceptions"]:
            print(f"  {line['check']}: not {name} ({answer!r}): {reason}")


def _table(*columns: str) -> Any:
    table = require("rich.table", extra="tasks").Table(box=require("rich.box", extra="tasks").SIMPLE)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    return table


def _show(table: Any) -> None:
    console = require("rich.console", extra="tasks").Console()
    if not console.is_terminal:
        console.width = 140  # a file or a pipe has no width of its own
    console.print(table)
