"""Rewards in groups, of a batch and of the steps before it -> the ones shown to be faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rovrl.faults.candidates import Side
from rovrl.faults.merit import merit_level
from rovrl.faults.scattered import Scattered
from rovrl.faults.shown import shown
from rovrl.faults.window import FaultWindow, Step
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.spread import core_spread

APART = 8.0
"""Steps whose units differ by this factor are not compared."""


@dataclass(frozen=True)
class Faults:
    """The rewards shown to be faults, and why."""

    rejected: Bool[Tensor, " n"]
    above: Side
    below: Side
    unit: float
    """The robust standard deviation within groups of what was kept."""
    level: float = 0.0
    """The distance between right and wrong answers, where they are a layer far from an even bulk (`faults.merit`); else 0."""
    scattered: Scattered | None = field(default=None, repr=False)
    """Whether what was kept beyond a distance from its group's median is scattered by chance; None: not kept in mind."""

    def measure(self, groups: Sequence[Tensor], witnesses: Sequence[Tensor] | None) -> float:
        """The spread that the credit of what is kept is measured in: what is far and scattered by chance narrows it.

        `witnesses` says what is by chance, as in `units`; None: the batch with the steps before it.
        """
        if witnesses is None and self.scattered:
            return core_spread(groups, self.scattered)
        return core_spread(groups, Scattered.of(groups if witnesses is None else witnesses))


@torch.no_grad()
def find_faults(
    rewards: Tensor, group: Int[Tensor, " n"], num_groups: int, window: FaultWindow | None = None
) -> Faults:
    """The rewards of a batch that are shown to be faults, by its own groups and those of earlier steps in the `window`.

    `group` numbers the groups from 0. Rewards that are not finite are left out and not counted as rejected. The window is
    read, not changed: `window.add` takes the batch in. Each step is a stratum of its own: neither the fault rate nor the
    policy has to stay the same, and steps in another unit are left out. Shifting
    a group, changing the unit or reordering the responses changes nothing.
    """
    values, codes = rewards.detach().double().cpu().numpy(), group.cpu().numpy()
    finite = np.isfinite(values)
    whole = bool(finite.all())
    if not whole:
        values, codes = values[finite], codes[finite]
    if not np.bincount(codes, minlength=num_groups).all():  # a group without a finite reward
        _, codes = np.unique(codes, return_inverse=True)
    earlier = [] if window is None else _comparable(values, codes, window.steps)
    values, codes, strata = _joined(values, codes, earlier)
    rejected = torch.zeros(len(rewards), dtype=torch.bool, device="cpu")
    if not len(values):
        return Faults(rejected, Side(), Side(), 0.0)
    groups = SortedGroups.of(values, codes, len(strata))
    found, above, below, unit = shown(groups, strata)
    kept = groups.without(found) if found.any() else groups
    level = merit_level(kept, unit, strata)
    here = torch.from_numpy(found[: int(finite.sum())])
    if whole:
        rejected = here
    else:
        rejected[torch.from_numpy(finite)] = here
    return Faults(rejected.to(rewards.device), above, below, unit, level, Scattered(kept, strata))


def _comparable(values: np.ndarray, codes: np.ndarray, steps: list[Step]) -> list[Step]:
    """The earlier steps whose rewards have the unit of this batch: what is far for one says nothing about the other."""
    own = _unit(values, codes)
    units = [_unit(np.asarray(residuals, float), np.repeat(np.arange(len(sizes)), sizes)) for sizes, residuals in steps]
    return [step for step, unit in zip(steps, units, strict=True) if unit == own or own / APART < unit < own * APART]


def _unit(values: np.ndarray, codes: np.ndarray) -> float:
    if not len(values):
        return 0.0
    groups = SortedGroups.of(values, codes, int(codes.max()) + 1)
    center = groups.median(np.zeros_like(groups.size), groups.size)
    return groups.unit(groups.residual(center), np.ones(len(values), bool))


def _joined(values: np.ndarray, codes: np.ndarray, earlier: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The batch first, then the earlier steps; and the stratum of every group."""
    num = int(codes.max(initial=-1)) + 1
    if not earlier:
        return values, codes, np.zeros(num, int)
    all_values, all_codes, strata = [values], [codes], [np.zeros(num, int)]
    for number, (sizes, residuals) in enumerate(earlier, 1):
        all_values.append(np.asarray(residuals, float))
        all_codes.append(np.repeat(np.arange(num, num + len(sizes)), sizes))
        strata.append(np.full(len(sizes), number))
        num += len(sizes)
    return np.concatenate(all_values), np.concatenate(all_codes), np.concatenate(strata)
