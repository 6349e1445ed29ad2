"""The scale of rewards within their groups, of a batch and of the steps before it.

Two numbers: the paper's sandwich scale, for the ν̂ of small blocks, and the `spread`, for "adaptive" credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import ADAPTIVE, RewardChannel
from rovrl.groups import GroupIds, Rewards, as_rewards, buckets, group_codes
from rovrl.partition import guarded
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import SMALL_BLOCK, scale_source, whole_scale
from rovrl.robust.scale import LaggedScale, median_of
from rovrl.robust.spread import spread

ADAPTIVE_BOUND, ADAPTIVE_FLOOR, ADAPTIVE_LEAST = 2.0, 0.6, 1e-6
"""credit_bound="adaptive" is 2 spreads (`rovrl.robust.spread`), credit_floor="adaptive" 0.6 of them; neither below 1e-6."""


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


@torch.no_grad()
def within_group_scale(rewards: Rewards, group_ids: GroupIds, channel: RewardChannel) -> float:
    """The median over untied groups of the whole-group sandwich scale; 0 if no group has contrast."""
    return batch_scales(_groups(rewards, group_ids), channel)[0]


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
    groups = _groups(rewards, group_ids)
    scale_now, spread_now = batch_scales(groups, channel)
    scale = lagged.value if lagged.value is not None else scale_now
    resolved = resolve(channel, scale, spread=lagged.spread if lagged.spread is not None else spread_now)
    lagged.update(scale_now, spread_now)
    if channel.scale_source == "auto" and _has_small_blocks([rows.shape[-1] for rows in groups], channel):
        resolved = replace(resolved, scale_source=max(scale, channel.scale_floor))
    return resolved


def batch_scales(groups: Sequence[Float[Tensor, "group n"]], channel: RewardChannel) -> tuple[float, float]:
    """The within-group scale of a batch, and its spread (0 where no setting is "adaptive"); one matrix per group size.

    Groups whose rewards are all equal say nothing about the scale of a difference: counting them as 0 would shrink it to
    nothing late in training.
    """
    scales = [whole_scale(rows, channel) for rows in groups]
    every = torch.cat(scales) if scales else torch.zeros(0)
    return median_of(every[every > 0]), spread(groups) if is_adaptive(channel) else 0.0


def _groups(rewards: Rewards, group_ids: GroupIds) -> list[Tensor]:
    """The finite rewards of groups with at least two, one matrix [group, n] per number n of them."""
    values = as_rewards(rewards).flatten()
    group, num_groups = group_codes(group_ids, len(values))
    return [values.double()[rows] for _, _, rows in buckets(values.isfinite(), group.to(values.device), num_groups)]


def _has_small_blocks(sizes: Sequence[int], channel: RewardChannel) -> bool:
    chosen = [Blocks.contiguous(size, channel.num_blocks) for size in sizes if size >= channel.num_blocks]
    return any(min(b.sizes) < SMALL_BLOCK and not guarded(b, b.n, channel)[1] for b in chosen)
