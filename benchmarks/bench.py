"""Runs the benchmark: every section_*.py beside this file, or --only some; prints a table of ratios, --json writes a file.

    python benchmarks/bench.py                      all sections
    python benchmarks/bench.py --only softrovr reward --json bench.json
    python benchmarks/bench.py --quick              a smoke run: small sizes, few repeats, numbers that mean little

A section is a file with `run(quick) -> list[Row]`; one that has only `measure(quick)` is listed as it comes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from measuring import Row  # noqa: E402

SECTIONS = sorted(path.stem.removeprefix("section_") for path in HERE.glob("section_*.py"))


def rows_of(section: str, quick: bool) -> list[Row]:
    """What a section measures, as rows."""
    module = import_module(f"section_{section}")
    if hasattr(module, "run"):
        return module.run(quick)
    return adapted(module.measure(quick))


def adapted(measured: Any) -> list[Row]:
    """Rows from the plainer forms: a list of dicts with name and value, a dict of dicts with ratio, a dict of numbers."""
    if isinstance(measured, list):
        return [Row(m["name"], m["value"], m.get("low"), m.get("high"), m.get("must")) for m in measured]
    rows = []
    for name, found in measured.items():
        if isinstance(found, dict):
            rows.append(Row(name, found["ratio"], found.get("low"), found.get("high")))
        elif isinstance(found, int | float):
            rows.append(Row(name.replace("_", " "), float(found)))
    return rows


def line(row: Row) -> str:
    """One row of the table as text."""
    sign = ">=" if row.at_least else "<="
    bars = [f"{word} {sign} {bar:g}" for word, bar in (("must", row.must), ("goal", row.goal)) if bar is not None]
    spread = f"[{row.low:.3g}, {row.high:.3g}]" if row.low is not None and row.high is not None else ""
    return f"{row.name:<74.74} {row.value:>9.4g} {spread:<18} {', '.join(bars):<26} {row.verdict:<7}{row.note}"


def main(argv: list[str] | None = None) -> int:
    """Runs the chosen sections; 1 if a number misses what it must be (never in a quick run)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    args = parser.parse_args(argv)
    import torch

    torch.set_num_threads(1)
    found: dict[str, list[Row]] = {}
    for section in args.only or SECTIONS:
        print(f"\n{section}", flush=True)
        found[section] = rows_of(section, args.quick)
        for row in found[section]:
            print("  " + line(row), flush=True)
    if args.json:
        rows = [{"section": s, **asdict(r), "verdict": r.verdict} for s, listed in found.items() for r in listed]
        args.json.write_text(
            json.dumps({"quick": args.quick, "torch": torch.__version__, "rows": rows}, indent=1) + "\n"
        )
    missed = [row for listed in found.values() for row in listed if row.verdict == "MISSED"]
    return 1 if missed and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
