"""`PYTHONPATH=tests python -m mutation`: plants every mutant of the table and says which ones the tests see.

Interrupted, it goes on where it was. Exit code 1 if a survivor is not explained in the table, if fewer than 95 % of the
whole table are killed, or if not all were tried; 2 if nothing can be said: a fragment no longer occurs exactly once, or
the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Sequence

from mutation.mutant import Mutant
from mutation.results import Results, count, page, summary, unexplained
from mutation.rows import by_row, summary_by_row
from mutation.run import ROOT, SOURCE, Broken, Copy, copied
from mutation.table import TABLE

LEAST = 0.95
RESULTS = ROOT / "build" / "mutation.jsonl"
PAGE = ROOT / "docs" / "mutation.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the table or a sample of it."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--only", metavar="WORD", help="those whose file or formula holds the word")
    parser.add_argument("--rows", action="store_true", help="the map of the paper: before the tests of a row alone")
    parser.add_argument("--minutes", type=float, help="start no further mutant after this time")
    parser.add_argument("--unchecked", action="store_true", help="trust that the tests pass without a mutant")
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(arguments)
    if args.write and (args.sample is not None or args.only or args.rows):
        parser.error("--write is about the whole table, not about some of it")
    rows = by_row() if args.rows else {}
    table = list(dict.fromkeys(itertools.chain(*rows.values()))) if args.rows else TABLE
    chosen = [mutant for mutant in table if (args.only or "") in mutant.name]
    if args.sample is not None:
        chosen = random.Random(args.seed).sample(chosen, min(args.sample, len(chosen)))
    results = Results(RESULTS)
    try:
        for mutant in TABLE:
            mutant.planted(mutant.path(SOURCE).read_text())
        _run(chosen, results, args.minutes, args.unchecked)
    except (Broken, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.write:
        PAGE.write_text(page(PAGE.read_text(), chosen, results))
    print("\n" + (summary_by_row(rows, results) if args.rows else summary(chosen, results)))
    killed, tried = count(chosen, results)
    too_few = len(chosen) == len(table) and killed < LEAST * tried
    return int(tried < len(chosen) or too_few or bool(unexplained(chosen, results)))


def _run(chosen: Sequence[Mutant], results: Results, minutes: float | None, unchecked: bool) -> None:
    left = [mutant for mutant in chosen if results[mutant] is None]
    if not left:
        return
    with copied(engines=any(mutant.file.startswith("integrations/") for mutant in left)) as copy:
        if not unchecked:
            print(f"the tests without a mutant, for {len(left)} mutants", flush=True)
            copy.check(left)
        _try(left, results, copy, minutes)


def _try(left: Sequence[Mutant], results: Results, copy: Copy, minutes: float | None) -> None:
    start = time.monotonic()
    for number, mutant in enumerate(left, start=1):
        if minutes is not None and time.monotonic() - start > 60 * minutes:
            return
        verdict = copy.try_out(mutant)
        results.add(mutant, verdict)
        print(f"[{number}/{len(left)}, {time.monotonic() - start:.0f} s] {verdict.word:<8} {mutant.name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
