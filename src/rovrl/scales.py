"""The scale of rewards within their groups, of a batch and of the steps before it.

Two numbers: the paper's sandwich scale, for the ν̂ of small blocks, and the `spread`, for "adaptive" credit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import ADAPTIVE, RewardChannel
from rovrl.faults import Faults
from rovrl.groups import Bucket, GroupIds, Partition, Rewards, as_rewards, buckets, group_codes, guarded
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import whole_scale
from rovrl.robust.scale import SMALL_BLOCK, LaggedScale, median_of, scale_source
from rovrl.robust.spread import spread
from rovrl.robust.units import APART, LARGEST, Measure, plain, units

ADAPTIVE_BOUND, ADAPTIVE_FLOOR, ADAPTIVE_LEAST = 2.0, 1.0, 1e-6
"""credit_bound="adaptive" is 2 spreads (`rovrl.robust.spread`), credit_floor="adaptive" one; neither below 1e-6."""


class Scales(NamedTuple):
    """What a batch says about the scale of differences within groups."""

    scale: float
    """The median over groups with contrast of the whole-group sandwich scale; 0 without any."""
    spread: float
    """The spread of the groups in the commonest unit, or in the one nearest to earlier steps; 0 where nothing is adaptive."""
    factors: list[Float[Tensor, " group"]]
    """For each matrix, the spread of each group's own unit over that: 1 unless a batch mixes units."""


class StepScales(NamedTuple):
    """The scales that a step is measured in."""

    scale: float
    spread: float
    factors: Float[Tensor, " g"]
    """For each group, the spread of its own unit over `spread`."""


def is_adaptive(channel: RewardChannel) -> bool:
    """Whether the credit's bound or floor is measured in the spread of the rewards."""
    return ADAPTIVE in (channel.credit_bound, channel.credit_floor)


def needs_scale(channel: RewardChannel, blocks: Blocks) -> bool:
    """Whether these settings ask for a scale that is not the group's own: lagged, or for adaptive credit."""
    return is_adaptive(channel) or scale_source(blocks, channel) == "lagged"


def resolve(
    channel: RewardChannel, scale: float, blocks: Blocks | None = None, *, spread: float | None = None
) -> RewardChannel:
    """The channel with numbers for what depends on other groups: `scale` for "lagged", `spread` for "adaptive" fields.

    Given the blocks, an "auto" scale source that means "lagged" for them becomes a number as well.
    """
    changes: dict[str, float] = {}
    if spread is None and is_adaptive(channel):
        raise ValueError("adaptive credit needs the spread of the rewards (rovrl.scales.within_group_spread)")
    spread = spread or 0.0
    if channel.credit_bound == ADAPTIVE:
        changes["credit_bound"] = max(ADAPTIVE_BOUND * spread, ADAPTIVE_LEAST)
    if channel.credit_floor == ADAPTIVE:
        changes["credit_floor"] = max(ADAPTIVE_FLOOR * spread, ADAPTIVE_LEAST)
    if channel.scale_source == "lagged" or (blocks is not None and scale_source(blocks, channel) == "lagged"):
        changes["scale_source"] = max(scale, channel.scale_floor)
    return replace(channel, **changes) if changes else channel


def in_unit(settings: RewardChannel, channel: RewardChannel, factor: float) -> RewardChannel:
    """The resolved `settings` for groups whose unit is `factor` times the common one, where `channel` is adaptive."""
    if factor == 1 or not is_adaptive(channel):
        return settings
    names = [name for name in ("credit_bound", "credit_floor") if getattr(channel, name) == ADAPTIVE]
    return replace(settings, **{name: max(getattr(settings, name) * factor, ADAPTIVE_LEAST) for name in names})


@dataclass(frozen=True)
class Resolved:
    """Settings with numbers in place of words: in common, and for each number of responses that count."""

    channel: RewardChannel
    common: RewardChannel
    by_size: dict[int, RewardChannel]
    factors: list[Tensor]
    """For each bucket, the unit of each group over the common one; empty if there is one unit."""
    level: float = 0.0
    """The level of merit that adaptive credit is measured in; 0 if it is measured in the spread."""

    @classmethod
    def of(
        cls,
        groups: list[Tensor],
        used: dict[int, Partition],
        channel: RewardChannel,
        alone: bool,
        known: StepScales | None,
        faults: Faults | None = None,
    ) -> Resolved:
        """By what is known of earlier steps, else by this batch; `alone`: each response finds its own by the others.

        A level of merit is two spreads, if all is in one unit.
        """
        if not any(needs_scale(channel, blocks) for blocks, _ in used.values()):
            return cls(channel, channel, dict.fromkeys(used, channel), [])
        if known is None:
            scale, spread, factors = batch_scales(groups, channel, measure=faults.measure if faults else plain)
        else:
            (scale, spread, _), factors = known, []
        if alone:
            return cls(channel, resolve(channel, scale, spread=spread), dict.fromkeys(used, channel), [])
        level = faults.level if faults else 0.0
        level = level if is_adaptive(channel) and level > 2 * spread and _one_unit(known, factors) else 0.0
        spread = level / 2 if level else spread
        by_size = {m: resolve(channel, scale, blocks, spread=spread) for m, (blocks, _) in used.items()}
        return cls(channel, resolve(channel, scale, spread=spread), by_size, factors, level)

    def by_unit(self, found: Sequence[Bucket], known: StepScales | None) -> Iterator[tuple[Bucket, float]]:
        """The buckets, those with groups of several units in parts, each with its unit over the common one."""
        for k, (m, groups, rows) in enumerate(found):
            factors = known.factors[groups] if known is not None else self.factors[k] if self.factors else None
            units = [1.0] if factors is None or not is_adaptive(self.channel) else factors.unique().tolist()
            if len(units) == 1:
                yield (m, groups, rows), units[0]
                continue
            every = torch.arange(m * len(groups), device=groups.device).view(-1, m) if rows is None else rows
            for unit in units:
                chosen = factors == unit
                yield (m, groups[chosen], every[chosen]), unit

    def for_groups(self, size: int, factor: float) -> RewardChannel:
        """The settings for groups of so many responses, in their unit."""
        return in_unit(self.by_size[size], self.channel, factor)


def _one_unit(known: StepScales | None, factors: list[Tensor]) -> bool:
    return all(bool((unit == 1).all()) for unit in (factors if known is None else [known.factors]))


@torch.no_grad()
def within_group_scale(rewards: Rewards, group_ids: GroupIds, channel: RewardChannel) -> float:
    """The median over untied groups of the whole-group sandwich scale; 0 if no group has contrast."""
    return batch_scales(_groups(rewards, group_ids), replace(channel, credit_bound=1.0, credit_floor=1.0)).scale


@torch.no_grad()
def within_group_spread(rewards: Rewards, group_ids: GroupIds) -> float:
    """What "adaptive" credit is measured in: the `spread` of a batch; 0 if no group has contrast."""
    return spread(_groups(rewards, group_ids))


@torch.no_grad()
def channel_for_step(
    channel: RewardChannel, lagged: LaggedScale, rewards: Rewards, group_ids: GroupIds
) -> RewardChannel:
    """The settings for this step, with the scales of *earlier* steps in place of "lagged" and "adaptive".

    On the very first step these are this batch's own. `lagged` then takes this batch in. With scale_source="auto" the
    number is used if any group of the batch is cut into blocks of fewer than four.
    """
    values = as_rewards(rewards).flatten()
    group, num_groups = group_codes(group_ids, len(values))
    known = scales_for_step(channel, lagged, values, group, num_groups)
    resolved = resolve(channel, known.scale, spread=known.spread)
    sizes = torch.bincount(group[values.isfinite().cpu()], minlength=num_groups)
    if channel.scale_source == "auto" and _has_small_blocks(sizes.unique().tolist(), channel):
        resolved = replace(resolved, scale_source=max(known.scale, channel.scale_floor))
    return resolved


@torch.no_grad()
def scales_for_step(
    channel: RewardChannel,
    lagged: LaggedScale,
    values: Float[Tensor, " n"],
    group: Tensor,
    num_groups: int,
    with_faults: Float[Tensor, " n"] | None = None,
    measure: Measure = plain,
) -> StepScales:
    """The scales of earlier steps, or of this one if it is the first; `lagged` then takes this batch in, as `measure` says.

    `with_faults`: the same rewards before some were left out as faults. If what is left has a small part of the earlier spread,
    and all of them have about that spread, it was made by faults that were not shown at the time, and begins anew.
    """
    found = list(buckets(values.isfinite(), group.to(values.device), num_groups))
    rows = [values.double()[rows] for _, _, rows in found]
    now = batch_scales(rows, channel, near=lagged.spread, measure=measure)
    earlier = lagged.spread or 0.0
    if (
        with_faults is not None
        and 0 < now.spread < earlier / APART < within_group_spread(with_faults, group) * 2 / APART
    ):
        lagged.spread, now = None, batch_scales(rows, channel, measure=measure)
    factors = torch.ones(num_groups, dtype=torch.float64, device=values.device)
    for (_, groups, _), own in zip(found, now.factors, strict=True):
        factors[groups] = own.to(values.device)
    known = StepScales(
        now.scale if lagged.value is None else lagged.value,
        now.spread if lagged.spread is None else lagged.spread,
        factors,
    )
    mixed = bool((factors != 1).any())
    strange = mixed and lagged.spread is not None and not _alike(now.spread, lagged.spread)
    lagged.update(now.scale, 0.0 if strange else now.spread)  # another unit says nothing about the running one
    return known


def batch_scales(
    groups: Sequence[Float[Tensor, "group n"]],
    channel: RewardChannel,
    near: float | None = None,
    measure: Measure = plain,
) -> Scales:
    """The scales of a batch, one matrix of finite rewards per group size; `near` is the spread of earlier steps.

    Groups whose rewards are all equal say nothing about the scale of a difference: counting them as 0 would shrink it to
    nothing late in training.
    """
    scales = [whole_scale(rows, channel) for rows in groups]
    every = torch.cat(scales) if scales else torch.zeros(0, device="cpu")
    scale = median_of(every[every > 0])
    if not is_adaptive(channel):
        return Scales(scale, 0.0, [torch.ones(len(rows), dtype=torch.float64, device="cpu") for rows in groups])
    labels, spreads = units(groups, measure)
    base = _nearest(spreads, near) if near and len(spreads) > 1 else _common(labels, spreads)
    unit = near if near and len(spreads) > 1 and not _alike(base, near) else base
    ratios = [min(value / unit, LARGEST) if len(spreads) > 1 else 1.0 for value in spreads]
    ratios = torch.tensor(ratios, dtype=torch.float64, device="cpu")
    return Scales(scale, base, [ratios[own] for own in labels])


def _common(labels: Sequence[Tensor], spreads: Sequence[float]) -> float:
    """The spread of the unit that most groups have."""
    counts = torch.bincount(
        torch.cat([torch.zeros(0, dtype=torch.long, device="cpu"), *labels]), minlength=len(spreads)
    )
    return spreads[int(counts.argmax())]


def _nearest(spreads: Sequence[float], near: float) -> float:
    """The spread that differs from `near` by the smallest factor; several units have positive spreads."""
    return min(spreads, key=lambda value: abs(math.log(value) - math.log(near)))


def _alike(one: float, other: float) -> bool:
    return 1 / APART < one / other < APART


def _groups(rewards: Rewards, group_ids: GroupIds) -> list[Tensor]:
    """The finite rewards of groups with at least two, one matrix [group, n] per number n of them."""
    values = as_rewards(rewards).flatten()
    group, num_groups = group_codes(group_ids, len(values))
    return [values.double()[rows] for _, _, rows in buckets(values.isfinite(), group.to(values.device), num_groups)]


def _has_small_blocks(sizes: Sequence[int], channel: RewardChannel) -> bool:
    chosen = [Blocks.contiguous(size, channel.num_blocks) for size in sizes if size >= channel.num_blocks]
    return any(min(b.sizes) < SMALL_BLOCK and not guarded(b, b.n, channel)[1] for b in chosen)
