"""Rewards in groups, of a batch and of the steps before it -> the probability of each that it is a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.faults.posterior import CERTAIN, NARROW, NEAREST, Layer, layers_of
from rovrl.faults.window import SMALLEST, FaultWindow, Step
from rovrl.robust.outliers.bulk import SortedGroups, registered
from rovrl.robust.outliers.evidence import by_chance
from rovrl.robust.spread import core_spread

ROUNDS = 5
LEFT = 0.25
"""Where fewer than this share of a group would be left (half of one of fewer than 8), all of it is left out."""
APART = 8.0
"""Steps whose units differ by this factor are not compared."""
STEPS = 10
"""Weights are rounded to so many steps: a handful of distinct ones. The last one begins at CERTAIN."""


@dataclass(frozen=True)
class Side:
    """What was found on one side of the groups' centers."""

    threshold: float = float("inf")
    """Responses farther than this from their group's center are rejected; infinity if none are."""
    hits: int = 0
    """How many there are in groups of 4 and more, of this batch and of the window."""
    dispersion: float = float("nan")
    """Pairs of them that share a group, over the number expected by chance: 1 for faults, larger for merit."""


@dataclass(frozen=True)
class Found:
    """The posterior of sorted groups, in the original order of their values."""

    probability: np.ndarray
    """Of each value, that it is a fault."""
    above: Side = Side()
    below: Side = Side()
    unit: float = 0.0
    """The robust standard deviation within groups of what was kept."""
    level: float = 0.0
    """The distance between right and wrong, where they are a layer far from an even bulk; else 0."""


@dataclass(frozen=True)
class Faults:
    """The posterior of a batch: which rewards are faults, and what the others can be measured in."""

    probability: Float[Tensor, " n"]
    """Of each reward, that it is a fault."""
    above: Side = Side()
    below: Side = Side()
    unit: float = 0.0
    level: float = 0.0
    """As in `Found`."""
    scattered: Callable[[float], bool] | None = field(default=None, repr=False)
    """Whether what was kept beyond a distance from its group's median is scattered by chance; None: not kept in mind."""

    @property
    def rejected(self) -> Bool[Tensor, " n"]:
        """Which rewards are faults for certain."""
        return self.probability > CERTAIN

    def cases(self) -> Iterator[tuple[float, Bool[Tensor, " n"]]]:
        """(share, what is left out), first what is certain; the shares add up to 1.

        A reward of weight w = max(0, 2p - 1) is left out with probability w, all by one number u, uniform on (0, 1): those with
        w ≥ u. So two rewards of one layer are left out together, and what is as likely merit as fault never is.
        """
        weight = (STEPS * (2 * self.probability - 1)).round().clamp(min=0)
        levels = sorted({0, STEPS, *weight.unique().int().tolist()})
        for low, high in reversed(list(pairwise(levels))):
            yield (high - low) / STEPS, weight >= high

    def measure(self, groups: Sequence[Tensor], witnesses: Sequence[Tensor] | None) -> float:
        """The spread that the credit of what is kept is measured in: what is far and scattered by chance narrows it.

        `witnesses` says what is by chance, as in `units`; None: the batch with the steps before it.
        """
        if witnesses is None and self.scattered:
            return core_spread(groups, self.scattered)
        every = _sorted(groups if witnesses is None else witnesses)
        return core_spread(groups, partial(_scattered, every, np.zeros(len(every.size), int)))


@torch.no_grad()
def find_faults(
    rewards: Tensor, group: Int[Tensor, " n"], num_groups: int, window: FaultWindow | None = None
) -> Faults:
    """The probability of each reward of a batch that it is a fault, by its own groups and those of earlier steps.

    `group` numbers the groups from 0. Rewards that are not finite are left out and are no faults. The window is
    read, not changed: `window.add` takes the batch in. Each step is a stratum of its own: neither the fault rate nor the
    policy has to stay the same, and steps in another unit are left out. Shifting
    a group, changing the unit or reordering the responses changes nothing.
    """
    values, codes = rewards.detach().double().cpu().numpy(), group.cpu().numpy()
    probability, finite = np.zeros(len(values)), np.isfinite(values)
    if not finite.any():
        return Faults(torch.from_numpy(probability).to(rewards.device))
    values, codes = values[finite], codes[finite]
    if not np.bincount(codes, minlength=num_groups).all():  # a group without a finite reward
        _, codes = np.unique(codes, return_inverse=True)
    earlier = [] if window is None else _comparable(values, codes, window.steps)
    values, codes, strata = _joined(values, codes, earlier)
    groups = SortedGroups.of(values, codes, len(strata))
    found = posterior(groups, strata)
    probability[finite] = found.probability[: int(finite.sum())]
    kept = found.probability[groups.order] <= CERTAIN
    scattered = partial(_scattered, groups.only(kept), strata[groups.count(kept) > 0])
    shown = torch.from_numpy(probability).to(rewards.device)
    return Faults(shown, found.above, found.below, found.unit, found.level, scattered)


def posterior(groups: SortedGroups, strata: np.ndarray) -> Found:
    """The probability of each value that it is a fault; `strata` gives each group what may have a fault rate of its own.

    Centers and layers by turns, until what is certain no longer changes. If it goes in circles, what two rounds agree on.
    """
    used = groups.size >= SMALLEST
    probability, layers, unit = np.zeros(len(groups.values)), [], 0.0
    before = probability
    for _ in range(ROUNDS if used.any() else 0):
        kept = probability <= CERTAIN
        center = groups.median(kept)
        unit = groups.unit(groups.residual(center), kept)
        if unit == 0:
            break
        likeliest, drawn = registered(groups, center, NEAREST * unit)
        unit = groups.unit(groups.residual(likeliest), kept)
        layers = layers_of(groups, groups.residual(drawn), unit, used, strata, kept)
        before, probability = probability, _of_members(groups.residual(likeliest), layers)
        if np.array_equal(before > CERTAIN, probability > CERTAIN):
            break
    else:
        probability = np.minimum(before, probability)
    gone = groups.count(probability > CERTAIN)
    left = groups.size - gone
    lost = (gone > 0) & np.where(groups.size < 8, 2 * left <= groups.size, left < LEFT * groups.size)
    found = np.zeros(len(groups.values))
    found[groups.order] = np.where(lost[groups.group], 1.0, probability)
    level = min((layer.middle for layer in layers if layer.level > 0.5), default=0.0)
    if any(layer.middle > (1 + NARROW) * level for layer in layers if layer.fault < 0.5):
        level = 0.0  # what is kept lies at several distances
    above, below = (_side([layer for layer in layers if layer.side == side], groups.size * used) for side in (1, -1))
    return Found(found, above, below, unit, level)


def _of_members(residual: np.ndarray, layers: Sequence[Layer]) -> np.ndarray:
    found = np.zeros(len(residual))
    for layer in layers:
        y = layer.side * residual
        found[(y >= layer.low) & (y < layer.high)] = layer.fault
    return found


def _side(layers: Sequence[Layer], members: np.ndarray) -> Side:
    """The layers of one side that are faults for certain, as one."""
    certain = [layer for layer in layers if layer.fault > CERTAIN]
    if not certain:
        return Side()
    hits = np.sum([layer.hits for layer in certain], axis=0) * (members > 0)
    rate = hits.sum() / members.sum()
    expected = float((members * (members - 1.0)).sum()) * rate**2
    pairs = float((hits * (hits - 1.0)).sum())
    return Side(min(layer.low for layer in certain), int(hits.sum()), pairs / expected if expected else float("nan"))


def _scattered(groups: SortedGroups, strata: np.ndarray, distance: float) -> bool:
    """Whether what lies farther than the distance from its group's median is scattered by chance, rather than merit.

    No gap is needed here, and nothing is left out by this: far rewards that come by chance only say nothing about the scale of
    the others.
    """
    residual = groups.residual(groups.median(np.ones(len(groups.values), bool)))
    above, below = groups.count(residual > distance), groups.count(-residual > distance)
    members = np.where(groups.size >= SMALLEST, groups.size, 0)
    return by_chance(above, below, members, strata) > CERTAIN


def _sorted(groups: Sequence[Float[Tensor, "group n"]]) -> SortedGroups:
    """The groups of one matrix of rewards for each group size."""
    rows = [own.detach().double().cpu().numpy() for own in groups if own.numel()]
    sizes = np.concatenate([np.full(len(own), own.shape[-1]) for own in rows] or [np.zeros(0, int)])
    values = np.concatenate([own.ravel() for own in rows] or [np.zeros(0)])
    return SortedGroups.of(values, np.repeat(np.arange(len(sizes)), sizes), len(sizes))


def _comparable(values: np.ndarray, codes: np.ndarray, steps: list[Step]) -> list[Step]:
    """The earlier steps whose rewards have the unit of this batch: what is far for one says nothing about the other."""
    own = _unit(values, codes)
    units = [_unit(np.asarray(residuals, float), np.repeat(np.arange(len(sizes)), sizes)) for sizes, residuals in steps]
    return [step for step, unit in zip(steps, units, strict=True) if unit == own or own / APART < unit < own * APART]


def _unit(values: np.ndarray, codes: np.ndarray) -> float:
    groups = SortedGroups.of(values, codes, int(codes.max()) + 1)
    every = np.ones(len(values), bool)
    return groups.unit(groups.residual(groups.median(every)), every)


def _joined(values: np.ndarray, codes: np.ndarray, earlier: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The batch first, then the earlier steps; and the stratum of every group."""
    num = int(codes.max()) + 1
    all_values, all_codes, strata = [values], [codes], [np.zeros(num, int)]
    for number, (sizes, residuals) in enumerate(earlier, 1):
        all_values.append(np.asarray(residuals, float))
        all_codes.append(np.repeat(np.arange(num, num + len(sizes)), sizes))
        strata.append(np.full(len(sizes), number))
        num += len(sizes)
    return np.concatenate(all_values), np.concatenate(all_codes), np.concatenate(strata)
