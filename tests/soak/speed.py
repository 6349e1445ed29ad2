"""What the benchmark finds about rates: served rewards beside the model itself, the verifier pool beside math-verify."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))


def served(directory: Path) -> dict[str, float]:
    """Rates of client and server over the model's own."""
    import section_served

    clock, processor, difference = section_served.served(False, directory)
    return {**_numbers([clock, processor]), "difference": difference.value}


def pooled() -> dict[str, float]:
    """Rates of two workers over one process without any."""
    import section_served

    clock, processor, same = section_served.pooled(False)
    return {**_numbers([clock, processor]), "other verdicts": 1.0 - same.value}


def _numbers(rows: Sequence[Any]) -> dict[str, float]:
    named = zip(("by the clock", "by processor time"), rows, strict=True)
    return {f"{name}{end}": getattr(row, key) for name, row in named for end, key in ENDS.items()}


ENDS = {"": "value", ", low": "low", ", high": "high"}
