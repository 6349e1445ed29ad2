"""`rovrl lint`: what will this reward function do to my run?"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.output.progress import progress_bar
from rovrl.output.terminal import visible

EXAMPLE = """\
examples:
  rovrl lint my_rewards:accuracy --completions outputs/run        # completions of an earlier run
  rovrl lint my_rewards.py:accuracy my_rewards.py:brevity --completions samples.jsonl --limit 2000

A function (also an asynchronous one, or a class of rewards) is called as TRL calls it (prompts, completions, other columns
of the dump by name) or, if it takes `solution_str`, as verl does. It is your code: it runs here, with your rights.
exit status: 0 nothing found, 1 findings, 2 unusable input.
"""
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("functions", nargs="+", metavar="FUNCTION", help="module:function or file.py:function")
    parser.add_argument(
        "--completions", required=True, metavar="PATH", help="saved rollouts, or any table of completions"
    )
    parser.add_argument("--limit", type=int, default=512, metavar="N", help="responses to try (512)")
    parser.add_argument("--chat", action="store_true", help="give prompts and completions as lists of messages")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    if args.limit < 2:
        raise RovrlError(f"--limit must be at least 2, not {args.limit}")
    from rovrl.lint.calls import load
    from rovrl.lint.checks import lint, shares
    from rovrl.lint.completions import read_completions

    functions = {name: load(name) for name in args.functions}
    rows = read_completions(Path(args.completions), args.limit)
    with progress_bar("lint") as progress:
        found = [lint(name, function, rows, args.chat, progress) for name, function in functions.items()]
    parts = shares(found, rows)
    if args.json:
        print(json.dumps({"functions": [f.to_dict() for f in found], "share_of_variance": parts}, allow_nan=False))
    else:
        print(visible("\n\n".join(show(f) for f in found)))
        if parts:
            print("\nShare of the variance of their plain sum, within groups")
            print(
                "\n".join(
                    f"  {name:<40} {'-' if part is None else f'{100 * part:.0f} %'}" for name, part in parts.items()
                )
            )
    return int(any(f.findings for f in found))


def show(found: Any) -> str:
    """One function as text."""
    from rovrl.audit.show.summary import counted

    lines = [f"{found.name}: {counted(found.responses, 'response')} in {counted(found.groups, 'group')}"]
    if found.values:
        span = (
            "no finite value"
            if found.low is None
            else f"{found.low:.4g} to {found.high:.4g}, {found.distinct:,} distinct"
        )
        lines.append(f"  values   {span}; {found.missing:,} missing")
        lines.append(f"  groups   {100 * found.tied:.0f} % tied, {found.dominated:,} dominated")
        spent = f"{1e3 * found.seconds:.3g}" if found.seconds > 1e-6 else "less than 0.001"
        lines.append(f"  time     {spent} ms per response")
    lines += [_wrap(f"[{code}] {sentence}") for code, sentence in found.findings.items()]
    lines += [_wrap(f"fits: {found.fits}")] if found.fits else []
    return "\n".join(lines if found.findings else [*lines, "  nothing found"])


def _wrap(line: str) -> str:
    return textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ")
