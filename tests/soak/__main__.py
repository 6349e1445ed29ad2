"""`PYTHONPATH=tests python -m soak [PART ...]`: the long forms of tests, piece by piece.

Interrupted, it goes on with the next piece. Exit code 1 if something went wrong that must not, or is not finished.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from soak import page
from soak.parts import PARTS
from soak.results import ROOT, Results

RESULTS = ROOT / "build" / "soak.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is named, or everything."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of every count (default: 1)")
    parser.add_argument("--minutes", type=float, help="start no further piece after this time")
    parser.add_argument("--write", action="store_true", help="write the table of docs/reliability.md")
    args = parser.parse_args(arguments)
    unknown = set(args.part) - set(PARTS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    results, chosen = Results(RESULTS), args.part or list(PARTS)
    until = time.monotonic() + 60 * args.minutes if args.minutes else float("inf")
    for name in chosen:
        _run(name, results, args.scale, until)
    if args.write:
        page.write(ROOT / "docs" / "reliability.md", results)
    missed = [_shown(name, results, args.scale) for name in chosen]
    return int(any(missed))


def _run(name: str, results: Results, scale: float, until: float) -> None:
    part, sizes = PARTS[name], PARTS[name].pieces(scale)
    for piece, count in enumerate(sizes):
        if results.of_piece(name, part, piece, count) is None and time.monotonic() < until:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as directory:
                found = part.run(count, piece, Path(directory))
            results.add(name, part, piece, count, found)
            print(f"{name} {piece + 1} of {len(sizes)} ({time.monotonic() - start:.0f} s): {found}", flush=True)


def _shown(name: str, results: Results, scale: float) -> bool:
    """Prints what a part found; True if something is missing or not as it must be."""
    part, found = PARTS[name], results.of(name, PARTS[name], scale)
    if found is None:
        print(f"\n{name}: not finished")
        return True
    missed = part.missed(found)
    print(f"\n{name}: {page.told(part.line, found)}{', MISSED: ' + ', '.join(missed) if missed else ''}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
