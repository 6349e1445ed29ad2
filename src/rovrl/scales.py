"""The scale of rewards within their groups, of a batch and of the steps before it.

Two numbers: the paper's sandwich scale, for the ν̂ of small blocks, and the `spread`, for "adaptive" credit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.credit import guarded, is_adaptive, resolve
from rovrl.groups import GroupIds, Rewards, as_rewards, group_codes, in_groups
from rovrl.groups import buckets as buckets_of
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import SMALL_BLOCK, whole_scale
from rovrl.robust.scale import LaggedScale, median_of
from rovrl.robust.spread import spread

Bucket = tuple[int, Tensor | slice, Tensor | None]
"""The groups of one size: (size, which groups, where their rewards are), as `rovrl.groups.buckets` yields them."""


@torch.no_grad()
def within_group_scale(rewards: Rewards, group_ids: GroupIds, channel: RewardChannel) -> float:
    """The median over untied groups of the whole-group sandwich scale; 0 if no group has contrast."""
    return batch_scales(*_buckets(rewards, group_ids), channel)[0]


@torch.no_grad()
def within_group_spread(rewards: Rewards, group_ids: GroupIds) -> float:
    """What "adaptive" credit is measured in: the `spread` of a batch; 0 if no group has contrast."""
    values, buckets = _buckets(rewards, group_ids)
    return spread([in_groups(values, size, index) for size, _, index in buckets])


def channel_for_step(
    channel: RewardChannel, lagged: LaggedScale, rewards: Rewards, group_ids: GroupIds
) -> RewardChannel:
    """The settings for this step, with the scales of *earlier* steps in place of "lagged" and "adaptive".

    On the very first step these are this batch's own. `lagged` then takes this batch in. With scale_source="auto" the
    number is used if any group of the batch is cut into blocks of fewer than four.
    """
    values, buckets = _buckets(rewards, group_ids)
    scale_now, spread_now = batch_scales(values, buckets, channel)
    scale = lagged.value if lagged.value is not None else scale_now
    resolved = resolve(channel, scale, spread=lagged.spread if lagged.spread is not None else spread_now)
    lagged.update(scale_now, spread_now)
    if channel.scale_source == "auto" and _has_small_blocks([size for size, _, _ in buckets], channel):
        resolved = RewardChannel.from_dict(resolved.to_dict() | {"scale_source": max(scale, channel.scale_floor)})
    return resolved


def batch_scales(values: Float[Tensor, " n"], buckets: Sequence[Bucket], channel: RewardChannel) -> tuple[float, float]:
    """The within-group scale of groups sorted into buckets, and their spread (0 where no setting is "adaptive").

    Groups whose rewards are all equal say nothing about the scale of a difference: counting them as 0 would shrink it to
    nothing late in training.
    """
    groups = [in_groups(values, size, index) for size, _, index in buckets]
    scales = torch.cat([whole_scale(rows, channel) for rows in groups]) if groups else values.new_zeros(0)
    return median_of(scales[scales > 0]), spread(groups) if is_adaptive(channel) else 0.0


def _buckets(rewards: Rewards, group_ids: GroupIds) -> tuple[Tensor, list[Bucket]]:
    values = as_rewards(rewards).flatten()
    group, num_groups = group_codes(group_ids, len(values))
    return values.double(), list(buckets_of(values.isfinite(), group.to(values.device), num_groups))


def _has_small_blocks(sizes: Sequence[int], channel: RewardChannel) -> bool:
    chosen = [Blocks.contiguous(size, channel.num_blocks) for size in sizes if size >= channel.num_blocks]
    return any(min(b.sizes) < SMALL_BLOCK and not guarded(b, b.n, channel)[1] for b in chosen)
