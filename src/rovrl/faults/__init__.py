"""Which rewards are faults? A fault hits anyone; merit depends on the prompt. docs/faults.md has the argument and its limits.

A crashed grader or a unit error strikes responses at a rate that does not depend on the prompt, so the strikes are spread
over the groups by chance. Right answers are not: some prompts are easy. So every layer of rewards that is parted from the rest
by a gap has a posterior probability of being made of faults:

    rovrl.robust.outliers.bulk        each group's center, which a majority of faults must not take over
    rovrl.robust.outliers.gaps        the gaps that no honest tail would leave
    rovrl.robust.outliers.evidence    how likely a layer's hits per group are, by chance and by merit
    posterior                         what a layer is, by that, by its distance and by the other layers
    find                              centers and layers by turns, over the batch and the steps before it (window)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time each name is imported when it is first asked for: the test itself needs no torch
    from rovrl.faults.find import Faults, Side, find_faults
    from rovrl.faults.window import FaultWindow

__all__ = ["FaultWindow", "Faults", "Side", "find_faults"]

_HOMES = {"FaultWindow": "window", "Faults": "find", "Side": "find", "find_faults": "find"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"rovrl.faults.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
