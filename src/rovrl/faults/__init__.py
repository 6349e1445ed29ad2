"""Which rewards are faults? A fault hits anyone; merit depends on the prompt. docs/faults.md has the argument and its limits.

A crashed grader or a unit error strikes responses at a rate that does not depend on the prompt, so the strikes are spread
over the groups by chance. Right answers are not: some prompts are easy. On each side, rewards beyond a threshold are
shown to be faults if

1. there is a gap below the threshold that no honest tail would leave (`rovrl.robust.outliers.gaps`);
2. their number per group is no more dispersed than chance spreads it (`rovrl.robust.outliers.dispersion`);
3. it would have been seen, had they followed their prompts as ordinary verdicts do.

Then the centers are computed again without them, until nothing changes. Where nothing can be shown, nothing is rejected.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time each name is imported when it is first asked for: the test itself needs no torch
    from rovrl.faults.candidates import Side
    from rovrl.faults.find import Faults, find_faults
    from rovrl.faults.window import FaultWindow

__all__ = ["FaultWindow", "Faults", "Side", "find_faults"]

_HOMES = {"FaultWindow": "window", "Faults": "find", "Side": "candidates", "find_faults": "find"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"rovrl.faults.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
