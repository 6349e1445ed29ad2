"""The fault matrix: faults planted in simulated runs, which of them are found, and how often an honest run is accused.

Everything happens in memory, on one core; 20 seeds take about two minutes of it. Finished cells are kept on the disk: stopped
with Ctrl-C, the same command goes on where it was, and never with cells of another code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import rovrl
from rovrl.errors import RovrlError
from rovrl.output.files import append_lines, read_lines, write_text
from rovrl.output.progress import Progress, progress_bar
from rovrl_paper.fault_matrix import matrix

Key = tuple[str | int, ...]


class Kept:
    """The finished cells of one file: a line for the code and the seeds, then one for each cell."""

    def __init__(self, path: Path, seeds: range) -> None:
        self.path = path
        head = {"code": code(), "seeds": [seeds[0], len(seeds)]}
        remedy = "delete the file and start again"
        try:
            lines = read_lines(path, remedy, lambda line: "code" in line or {"cell", "row"} <= set(line))
            if not lines:
                path.unlink(missing_ok=True)
                append_lines(path, [head])
        except OSError as error:
            raise RovrlError(
                f"cannot keep finished cells in {path} ({error.strerror or error}): name another file with --keep"
            ) from None
        if lines and lines[0] != head:
            raise RovrlError(
                f"{path} holds cells of other seeds or of another code: delete it, or name another with --keep"
            )
        self.rows: dict[Key, dict[str, Any]] = {tuple(line["cell"]): line["row"] for line in lines[1:]}

    def add(self, cell: Key, row: dict[str, Any]) -> None:
        """Keeps a finished cell."""
        self.rows[cell] = row
        append_lines(self.path, [{"cell": list(cell), "row": row}])

    def remove(self) -> None:
        """Deletes the file: the tables are made."""
        self.path.unlink(missing_ok=True)


def code() -> str:
    """A fingerprint of everything that decides about a cell: the source of both packages."""
    digest = hashlib.sha256()
    for package in (Path(rovrl.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(package.rglob("*.py")):
            digest.update(f"{path.relative_to(package.parent).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


EXAMPLE = """\
examples:
  python -m rovrl_paper.fault_matrix --seeds 2                  # a first look
  python -m rovrl_paper.fault_matrix --seeds 20 --first 41000 --write docs/audit-faults.md     # the page of the documentation
  python -m rovrl_paper.fault_matrix --worlds heavy --seeds 200 --first 43000   # one world, closely
"""
Rows = dict[str, list[dict[str, Any]]]
"""The rows of the table `matrix` (planted faults) and of the table `honest`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints both tables; with --write puts them into the page of the documentation, between their marks."""
    try:
        return run(parser().parse_args(argv))
    except RovrlError as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2


def run(args: argparse.Namespace) -> int:
    """The command; a RovrlError says which word is wrong, before any work is done."""
    if args.seeds < 1:
        raise RovrlError(f"--seeds needs at least 1 run per cell, not {args.seeds}")
    if args.first < 0:
        raise RovrlError(f"--first needs a seed of 0 or more, not {args.first}")
    if args.write is not None and args.worlds is not None:
        raise RovrlError("--write fills whole tables: leave out --worlds")
    worlds, seeds = _worlds(args.worlds), range(args.first, args.first + args.seeds)
    page = None if args.write is None else Page(Path(args.write))
    kept = Kept(Path(args.keep or f"fault-matrix-{args.first}-{args.seeds}.jsonl"), seeds)
    try:
        with progress_bar("fault matrix") as progress:
            rows = tables(worlds, seeds, kept, progress)
    except KeyboardInterrupt:
        print(f"rovrl: interrupted; what is finished is kept in {kept.path}: the same command goes on", file=sys.stderr)
        return 130
    shown = {
        "matrix": matrix.planted_table(rows["matrix"], seeds),
        "honest": matrix.honest_table(rows["honest"], seeds),
    }
    named = {"seeds": list(seeds), "rows": rows["matrix"], "honest": rows["honest"]}
    print(json.dumps(named) if args.json else "\n\n".join(table for name, table in shown.items() if rows[name]))
    if page is not None:
        page.write(shown)
    kept.remove()
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m rovrl_paper.fault_matrix",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--seeds", type=int, default=20, metavar="N", help="runs per cell (20)")
    made.add_argument("--first", type=int, default=0, metavar="N", help="the first seed (0); another for unseen runs")
    made.add_argument("--worlds", metavar="NAME,...", help="only these worlds (all)")
    made.add_argument("--json", action="store_true", help="print the rows as JSON instead of the tables")
    made.add_argument("--write", metavar="FILE", help="replace the tables between their marks in this page")
    made.add_argument("--keep", metavar="FILE", help="finished cells until the end (fault-matrix-FIRST-N.jsonl)")
    return made


def _worlds(names: str | None) -> tuple[str, ...]:
    """The worlds that are asked for; all without a name."""
    named = tuple(matrix.HONEST) if names is None else tuple(name.strip() for name in names.split(","))
    unknown = [name for name in named if name not in matrix.HONEST]
    if unknown:
        raise RovrlError(
            f"--worlds knows no {', '.join(map(repr, unknown))}; the worlds are {', '.join(matrix.HONEST)}"
        )
    return named


def tables(worlds: Sequence[str], seeds: range, kept: Kept, progress: Progress) -> Rows:
    """All rows of both tables; those that are kept are not made again."""
    both: list[tuple[str, Sequence[Key], Callable[..., dict[str, Any]]]] = [
        ("matrix", matrix.planted_cells(), matrix.planted),
        ("honest", matrix.honest_cells(), matrix.accused),
    ]
    cells = [(table, cell, make) for table, every, make in both for cell in every if cell[0] in worlds]
    rows: Rows = {"matrix": [], "honest": []}
    for done, (table, cell, make) in enumerate(cells, 1):
        if (table, *cell) not in kept.rows:
            kept.add((table, *cell), make(*cell, seeds))
        rows[table].append(kept.rows[table, *cell])
        progress(done, len(cells), "planted faults" if table == "matrix" else "honest runs")
    return rows


class Page:
    """A page with two marked places for tables; refused before the work if it is not one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RovrlError(f"--write needs a page that can be read, and {path} is none ({error})") from None
        marks = [mark for name in ("matrix", "honest") for mark in (f"<!-- {name} -->", f"<!-- end of {name} -->")]
        places = [text.find(mark) for mark in marks]
        if min(places) < 0 or places != sorted(places):
            raise RovrlError(
                f"--write puts the tables between the marks {', '.join(marks)}: {path} has not all of them"
            )

    def write(self, shown: dict[str, str]) -> None:
        """Puts the tables into their places."""
        text = self.path.read_text(encoding="utf-8")
        for name, table in shown.items():
            before, _, rest = text.partition(f"<!-- {name} -->")
            after = rest.partition(f"<!-- end of {name} -->")[2]
            text = f"{before}<!-- {name} -->\n{table}\n<!-- end of {name} -->{after}"
        try:
            write_text(self.path, text)
        except OSError as error:
            raise RovrlError(f"cannot write {self.path} ({error.strerror or error})") from None
