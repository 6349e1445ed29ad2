"""Rewards -> advantages for real batches: partitions, fallback, rewards that are no numbers, ragged groups by id.

Runs without gradient as a whole, in float64; the advantages come back in the rewards' own type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.credit import METHODS, Credit, guarded, needs_scale, partition, resolve
from rovrl.groups import GroupIds, Rewards, as_rewards, group_codes, group_sizes, in_groups
from rovrl.groups import buckets as buckets_of
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import scale_source
from rovrl.scales import batch_scales

Advantage = Callable[..., Tensor]


@dataclass(frozen=True)
class Explanation:
    """What the reward channel did to a batch. Groups are numbered in the order in which their ids first appear."""

    advantages: Float[Tensor, " n"]
    finite: Bool[Tensor, " n"]
    """Whether a response's reward is a number; if not, it is left out of every statistic and gets advantage 0."""
    group: Int[Tensor, " n"]
    size: Int[Tensor, " g"]
    finite_size: Int[Tensor, " g"]
    mean: Float[Tensor, " g"]
    reference: Float[Tensor, " g"]
    scale: Float[Tensor, " g"]
    """The divisor of the advantages."""
    nu: Float[Tensor, " g"]
    """ν̂ of the reference; 0 where one block or another method needs none."""
    fallback: Bool[Tensor, " g"]
    tied: Bool[Tensor, " g"]
    """Two or more finite rewards, all equal: no signal."""
    scale_source: str
    """Where ν̂ came from: "local", "lagged", "pilot", "none"; several joined by "+"."""
    blocks: dict[int, Blocks]
    """The partition used for each number of finite responses."""
    channel: RewardChannel
    """The settings with every number filled in."""


@torch.no_grad()
def explain(
    rewards: Rewards,
    group_ids: GroupIds,
    channel: RewardChannel,
    *,
    method: str | Advantage = "credit",
    generator: torch.Generator | None = None,
) -> Explanation:
    """The advantages of ragged groups by id, with everything that led to them (alg:rovr_gspo, eq:credit_advantage).

    Fewer than two finite rewards in a group: advantages 0. One partition per number of finite responses, drawn in
    ascending order of that number. `method` is a name of `ADVANTAGES`, or a function with their signature.
    """
    values = as_rewards(rewards)
    if values.ndim != 1:
        raise ValueError(f"rewards must have one axis, one entry per response, not shape {tuple(values.shape)}")
    group, num_groups = group_codes(group_ids, len(values))
    group = group.to(values.device)
    return _explain(values, group, num_groups, channel, method=method, generator=generator)


def grouped_advantages(
    rewards: Rewards,
    group_ids: GroupIds,
    channel: RewardChannel,
    *,
    method: str | Advantage = "credit",
    generator: torch.Generator | None = None,
) -> Float[Tensor, " n"]:
    """The advantages of ragged groups: `group_ids[i]` (string or integer) says to which group response i belongs.

    Rows may come in any order. A reward that is None, NaN or infinite gets advantage 0 and is left out of its group.
    """
    return explain(rewards, group_ids, channel, method=method, generator=generator).advantages


def _dense(name: str) -> Advantage:
    @torch.no_grad()
    def advantage(
        rewards: Rewards,
        channel: RewardChannel,
        *,
        blocks: Blocks | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "*batch group"]:
        values = as_rewards(rewards)
        if values.ndim == 0 or values.shape[-1] == 0:
            raise ValueError(
                f"rewards must have a last axis with one entry per response, not shape {tuple(values.shape)}"
            )
        if blocks is not None and blocks.n != values.shape[-1]:
            raise ValueError(f"blocks must partition the group of {values.shape[-1]}, not {blocks.n} elements")
        rows = values.reshape(-1, values.shape[-1])
        if rows.shape[-1] >= 2 and bool(rows.sum().isfinite()):  # the ordinary case: no bookkeeping of groups
            return (
                _of_finite_groups(rows.double(), name, channel, blocks, generator).to(values.dtype).view(values.shape)
            )
        group = torch.arange(len(rows), device=values.device).repeat_interleave(values.shape[-1])
        whole = _explain(
            rows.flatten(),
            group,
            len(rows),
            channel,
            method=name,
            blocks=blocks,
            generator=generator,
            dense=rows.shape[-1],
        )
        return whole.advantages.reshape(values.shape)

    advantage.__name__ = name
    advantage.__doc__ = f"Advantages of groups on the last axis: {METHODS[name].__doc__}"
    return advantage


def _of_finite_groups(
    rewards: Float[Tensor, "batch group"],
    method: str,
    channel: RewardChannel,
    blocks: Blocks | None,
    generator: torch.Generator | None,
) -> Float[Tensor, "batch group"]:
    """What `_explain` gives for groups of one size without gaps, and nothing but the advantages.

    Tied groups need no care here: a reference that preserves constants leaves residuals of exactly 0.
    """
    size = rewards.shape[-1]
    chosen, _ = _blocks_for(size, size, blocks, channel, generator, method)
    if method != "loo" and needs_scale(channel, chosen):
        scale, spread = batch_scales(rewards.flatten(), [(size, slice(None), None)], channel)
        channel = resolve(channel, scale, chosen, spread=spread)
    return METHODS[method](rewards, chosen, channel).advantages


ADVANTAGES: dict[str, Advantage] = {name: _dense(name) for name in METHODS}
"""Name -> function of (rewards [..., group], channel, *, blocks=None, generator=None) -> advantages of the same shape."""


def _explain(
    values: Tensor,
    group: Tensor,
    num_groups: int,
    channel: RewardChannel,
    *,
    method: str | Advantage,
    blocks: Blocks | None = None,
    generator: torch.Generator | None = None,
    dense: int | None = None,
) -> Explanation:
    if isinstance(method, str) and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} or a function, not {method!r}")
    finite = values.isfinite()
    whole = dense if dense is not None and dense >= 2 and bool(finite.all()) else None
    if whole is not None:  # the ordinary case: no sorting, and no copy
        x = values.double()
        buckets = [(whole, slice(None), None)]
    else:
        x = torch.where(finite, values, 0.0).double()
        buckets = list(buckets_of(finite, group, num_groups))
    partitions = {m: _blocks_for(m, dense, blocks, channel, generator, method) for m, _, _ in buckets}
    if any(needs_scale(channel, chosen) for chosen, _ in partitions.values()):
        scale, spread = batch_scales(x, buckets, channel)
        resolved = resolve(channel, scale, spread=spread)
        settings = {m: resolve(channel, scale, chosen, spread=spread) for m, (chosen, _) in partitions.items()}
        if method == "loo":  # finds its numbers without the response's own reward; `resolved` is for the log
            settings = dict.fromkeys(partitions, channel)
    else:
        resolved, settings = channel, dict.fromkeys(partitions, channel)

    per_group = {name: x.new_zeros(num_groups) for name in ("mean", "reference", "scale", "nu")}
    fallback = torch.zeros(num_groups, dtype=torch.bool, device=x.device)
    tied = torch.zeros_like(fallback)
    advantages = torch.zeros_like(x)
    for m, groups, index in buckets:
        rewards = in_groups(x, m, index)
        chosen, fell_back = partitions[m]
        result = _apply(method, rewards, chosen, settings[m])
        flat = rewards.amin(-1) == rewards.amax(-1)
        shaped = torch.where(flat.unsqueeze(-1), 0.0, result.advantages)
        if index is None:
            advantages = shaped.flatten()
        else:
            advantages[index] = shaped
        per_group["mean"][groups] = (rewards / m).sum(-1)
        per_group["reference"][groups] = result.reference
        per_group["scale"][groups] = result.scale
        if result.nu is not None:
            per_group["nu"][groups] = result.nu
        fallback[groups], tied[groups] = fell_back, flat
    sources = sorted({scale_source(b, channel) for b, _ in partitions.values()}) or ["none"]
    return Explanation(
        advantages=advantages.to(values.dtype),
        finite=finite,
        group=group,
        size=group_sizes(group, num_groups, dense),
        finite_size=group_sizes(group if whole else group[finite], num_groups, whole),
        fallback=fallback,
        tied=tied,
        scale_source="+".join(sources),
        blocks={m: chosen for m, (chosen, _) in partitions.items()},
        channel=resolved,
        **per_group,
    )


def _blocks_for(
    m: int,
    dense: int | None,
    blocks: Blocks | None,
    channel: RewardChannel,
    generator: torch.Generator | None,
    method: str | Advantage,
) -> tuple[Blocks, bool]:
    if method == "loo":  # a fresh balanced partition of the others; given blocks cannot fit them
        return partition(m - 1, channel, generator)
    if blocks is None:
        return partition(m, channel, generator)
    return guarded(blocks, m, channel) if m == dense else (Blocks.contiguous(m, 1), True)


def _apply(method: str | Advantage, rewards: Tensor, blocks: Blocks, channel: RewardChannel) -> Credit:
    if isinstance(method, str):
        return METHODS[method](rewards, blocks, channel)
    nothing = torch.zeros_like(rewards[:, 0])
    return Credit(method(rewards, channel, blocks=blocks), nothing, nothing)
