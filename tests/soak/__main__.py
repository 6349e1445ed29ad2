"""`PYTHONPATH=tests python -m soak [WHAT ...]`: the long forms, a line per number as each is done."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from soak import chaos, generations, kills, verifier


def main() -> int:
    """Runs what is named, or everything; 1 if something went wrong that must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help="chaos, deadline, verifier, eval, train, generations")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of every count (default: 1)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        runs = _runs(Path(directory), lambda count: max(1, round(args.scale * count)))
        chosen = args.what or list(runs)
        unknown = set(chosen) - set(runs)
        if unknown:
            parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(runs)}")
        missed = [_shown(name, *runs[name]) for name in chosen]
        return int(any(missed))


def _runs(home: Path, scaled):
    made = {name: home / name for name in ("eval", "train", "generations")}
    for place in made.values():
        place.mkdir()
    return {
        "chaos": (lambda: chaos.run(scaled(10_000), 300.0), {"wrong": 0}),
        "deadline": (lambda: chaos.run(scaled(10_000), 3.0), {"wrong": 0, "seconds beyond the deadline": 1.0}),
        "verifier": (
            lambda: verifier.run(scaled(10_000), scaled(30), scaled(30), scaled(60)),
            {"wrong": 0, "zombies": 0, "processes left": 0},
        ),
        "eval": (lambda: kills.evaluation(made["eval"], scaled(20)), {"responses that differ": 0}),
        "train": (lambda: kills.training(made["train"], scaled(20)), {"files that differ": 0}),
        "generations": (
            lambda: generations.run(made["generations"], scaled(2_000)),
            {"megabytes grown in the second half": 20.0, "descriptors grown in the second half": 8},
        ),
    }


def _shown(name: str, run, most: dict[str, float]) -> bool:
    """Prints what a run found; True if a number is above the most it may be."""
    start = time.monotonic()
    found = run()
    print(f"\n{name} ({time.monotonic() - start:.0f} s)")
    for what, value in found.items():
        bound = f"   (at most {most[what]:g})" if what in most else ""
        print(f"  {what:<40} {value:>12.6g}{bound}", flush=True)
    return any(found[what] > bound for what, bound in most.items())


if __name__ == "__main__":
    sys.exit(main())
