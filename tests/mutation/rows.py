"""The paper's map, tried row by row: what is planted in a row's functions, before the row's tests alone.

A row that has tests and functions promises that these tests see a wrong formula in these functions. The mutants are those
of the table that lie inside the functions which the row names; their own tests are left aside. A row that names a whole
module (a table, a figure) promises published numbers instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from mutation import paper_map
from mutation.mutant import Mutant
from mutation.results import Results
from mutation.run import KILLED, SOURCE
from mutation.table import TABLE


@cache
def line_of(mutant: Mutant) -> int:
    """The first line of its fragment."""
    text = mutant.path(SOURCE).read_text()
    return text[: text.index(mutant.fragment)].count("\n") + 1


def planted_in(function: str) -> Iterator[Mutant]:
    """The mutants of the table that lie inside a function of the map."""
    path, lines = paper_map.lines_of(function)
    yield from (mutant for mutant in TABLE if mutant.path(SOURCE) == path and line_of(mutant) in lines)


def by_row() -> dict[str, list[Mutant]]:
    """label -> the mutants in its functions, each with the tests of the row instead of its own."""
    return {
        row.label: [
            replace(mutant, tests=tuple(f"tests/{test}" for test in row.tests))
            for function in row.functions
            for mutant in planted_in(function)
        ]
        for row in paper_map.rows()
        if row.tests and row.functions
    }


def summary_by_row(rows: Mapping[str, Sequence[Mutant]], results: Results) -> str:
    """How many of the wrong formulas in its functions each row sees; those that it does not are named."""
    lines = ["| row | killed | planted |", "|---|---|---|"]
    survived = []
    for label, planted in ((label, planted) for label, planted in rows.items() if planted):
        verdicts = {mutant: results[mutant] for mutant in planted}
        killed = sum(verdict is not None and verdict.word == KILLED for verdict in verdicts.values())
        lines.append(f"| `{label}` | {killed} | {len(planted)} |")
        for mutant, verdict in verdicts.items():
            if verdict is not None and verdict.word != KILLED:
                survived.append(f"Survived the tests of `{label}`: `{mutant.name}`. {mutant.why or 'Not explained.'}")
    return "\n".join([*lines, "", *survived])
