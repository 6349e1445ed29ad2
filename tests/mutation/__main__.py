"""`PYTHONPATH=tests python -m mutation`: plants every mutant of the table and says which ones the tests see.

Interrupted, it goes on where it was. Exit code 1 if fewer than 95 % are killed, 2 if nothing can be said: a fragment no
longer occurs exactly once, or the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from mutation.mutant import Mutant
from mutation.run import KILLED, ROOT, SOURCE, SURVIVED, Broken, Copy, Results, copied
from mutation.table import TABLE

LEAST = 0.95
RESULTS = ROOT / "build" / "mutation.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the table or a sample of it."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--minutes", type=float, help="start no further mutant after this time")
    parser.add_argument("--unchecked", action="store_true", help="trust that the tests pass without a mutant")
    args = parser.parse_args(arguments)
    chosen = TABLE if args.sample is None else random.Random(args.seed).sample(TABLE, min(args.sample, len(TABLE)))
    results = Results(RESULTS)
    try:
        for mutant in TABLE:
            mutant.planted((SOURCE / "rovrl" / mutant.file).read_text())
        with copied() as copy:
            _run(chosen, results, copy, args.minutes, args.unchecked)
    except (Broken, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return _summary(chosen, results)


def _run(chosen: Sequence[Mutant], results: Results, copy: Copy, minutes: float | None, unchecked: bool) -> None:
    start, left = time.monotonic(), [mutant for mutant in chosen if results[mutant] is None]
    if left and not unchecked:
        print(f"the tests without a mutant, for {len(left)} mutants", flush=True)
        copy.check(left)
    for number, mutant in enumerate(left, start=1):
        if minutes is not None and time.monotonic() - start > 60 * minutes:
            return
        verdict = copy.try_out(mutant)
        results.add(mutant, verdict)
        print(f"[{number}/{len(left)}, {time.monotonic() - start:.0f} s] {verdict:<8} {mutant.name}", flush=True)


def _summary(chosen: Sequence[Mutant], results: Results) -> int:
    """Prints the numbers and the survivors; 1 if too few are killed, or not all were tried."""
    rooms = list(dict.fromkeys(_room(mutant) for mutant in chosen))
    print("\n| where | killed | survived | not run |\n|---|---|---|---|")
    for room in [*rooms, "all"]:
        of = [results[mutant] for mutant in chosen if room in (_room(mutant), "all")]
        print(f"| {room} | {of.count(KILLED)} | {of.count(SURVIVED)} | {of.count(None)} |")
    for mutant in chosen:
        if results[mutant] == SURVIVED:
            print(f"survived: {mutant.name}")
    killed = sum(results[mutant] == KILLED for mutant in chosen)
    tried = sum(results[mutant] is not None for mutant in chosen)
    print(f"{killed} of {tried} killed ({killed / max(tried, 1):.1%}), {len(chosen) - tried} of {len(chosen)} not run")
    return int(tried < len(chosen) or killed < LEAST * tried)


def _room(mutant: Mutant) -> str:
    parts = mutant.file.split("/")
    return parts[0] if len(parts) == 1 else "/".join(parts[:2] if parts[0] == "integrations" else parts[:1])


if __name__ == "__main__":
    sys.exit(main())
