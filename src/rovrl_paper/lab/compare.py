"""What finished runs say together: accuracy per method with intervals, and paired differences between methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rovrl.errors import RovrlError
from rovrl.output.intervals import Estimate, crossed, proportion
from rovrl_paper.lab.accuracy import from_row, paired_difference
from rovrl_paper.lab.methods import METHODS

Result = Mapping[str, Any]


class Row(NamedTuple):
    """One method over its seeds."""

    method: str
    seeds: tuple[int, ...]
    before: Estimate
    after: Estimate
    sd: float
    """Standard deviation of the final accuracy between seeds; nan with one seed."""
    difference: Estimate | None
    """To the first method, paired over seeds and problems; None for the first itself."""


class Comparison(NamedTuple):
    """Accuracy of `ours` minus `theirs`."""

    ours: str
    theirs: str
    difference: Estimate


def title(method: str) -> str:
    """A method's name for people."""
    return METHODS[method].title


def final_verdicts(results: Sequence[Result], evaluation: int = -1) -> np.ndarray:
    """[seed, problem] whether the greedy response was right (in a graded world: its score), at that evaluation of each run."""
    return np.stack([from_row(result["evaluations"][evaluation]) for result in results])


def by_method(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results of each method in the order of seeds; every method must have the same seeds, or there are no pairs."""
    found: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: r["job"]["seed"]):
        found.setdefault(result["job"]["method"], []).append(result)
    seeds = {method: [r["job"]["seed"] for r in runs] for method, runs in found.items()}
    if len({tuple(s) for s in seeds.values()}) > 1:
        raise RovrlError(f"methods cannot be paired, they have different seeds: {seeds}")
    return found


def table(results: Sequence[Result], order: Sequence[str]) -> list[Row]:
    """One row per method; the differences are to the first one of `order`."""
    runs, rows = by_method(results), []
    first = final_verdicts(runs[order[0]])
    for method in order:
        before, after = final_verdicts(runs[method], 0), final_verdicts(runs[method])
        finals = after.mean(1)
        rows.append(
            Row(
                method,
                tuple(r["job"]["seed"] for r in runs[method]),
                proportion(before[0]) if before.dtype == bool else crossed(before[:1]),
                crossed(after.astype(float)),
                float(finals.std(ddof=1)) if len(finals) > 1 else float("nan"),
                None if method == order[0] else paired_difference(after, first),
            )
        )
    return rows


def pairs(results: Sequence[Result], order: Sequence[str]) -> list[Comparison]:
    """Every method against every earlier one, by paired bootstrap."""
    runs = by_method(results)
    finals = {method: final_verdicts(runs[method]) for method in order}
    return [
        Comparison(ours, theirs, paired_difference(finals[ours], finals[theirs]))
        for i, ours in enumerate(order)
        for theirs in order[:i]
    ]


def percent(estimate: Estimate) -> str:
    """ "64.6 [60.3, 68.7]": per cent with the interval."""
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def points(estimate: Estimate) -> str:
    """ "+22.8 [+18.0, +27.4]": percentage points with the interval."""
    return f"{100 * estimate.value:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"


def as_json(rows: Sequence[Row], comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Table and comparisons as plain values."""
    plain = [
        row._asdict()
        | {"before": row.before._asdict(), "after": row.after._asdict(), "sd": None if row.sd != row.sd else row.sd}
        | {"difference": row.difference._asdict() if row.difference else None}
        for row in rows
    ]
    return {"table": plain, "pairs": [c._asdict() | {"difference": c.difference._asdict()} for c in comparisons]}
