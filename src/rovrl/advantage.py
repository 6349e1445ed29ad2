"""Rewards -> advantages for real batches: partitions, fallback, rewards that are not numbers, ragged groups by id.

Runs without gradient as a whole, in float64; the advantages come back in the rewards' own type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS, Credit
from rovrl.explanation import Explanation, weighted_sum
from rovrl.faults import Faults, find_faults
from rovrl.groups import GroupIds, Rewards, as_rewards, buckets, group_codes
from rovrl.partition import GivenBlocks, Partitions
from rovrl.resolved import Resolved
from rovrl.robust.blocks import Blocks
from rovrl.robust.kernels import compiled_if_large
from rovrl.robust.settings import scale_source
from rovrl.scales import StepScales

Advantage = Callable[..., Tensor]
GROUP_NUMBERS = ("mean", "reference", "scale", "nu", "correction", "unit")
"""The fields of an `Explanation` with one number per group."""


@torch.no_grad()
def explain(
    rewards: Rewards,
    group_ids: GroupIds,
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
    *,
    method: str | Advantage = "credit",
    weights: Sequence[float] | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Explanation:
    """The advantages of ragged groups by id, with everything that led to them (alg:rovr_gspo, eq:credit_advantage).

    Fewer than two finite rewards in a group: advantages 0. One partition per number of finite responses, drawn in
    ascending order of that number. `method` is a name of `ADVANTAGES`, or a function with their signature. Rewards
    [response, function] are explained function by function and summed up with the weights.
    """
    RewardChannel.check(channel)
    columns, shares = by_function(rewards, weights)
    partitions = Partitions(channel, generator)
    parts = [explain_groups(column, group_ids, channel, partitions, method) for column in columns]
    return parts[0] if shares is None else weighted_sum(parts, shares, channel)


def grouped_advantages(
    rewards: Rewards,
    group_ids: GroupIds,
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
    *,
    method: str | Advantage = "credit",
    weights: Sequence[float] | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Float[Tensor, " n"]:
    """The advantages of ragged groups: `group_ids[i]` (string or integer) says to which group response i belongs.

    Rows may come in any order. A reward that is None, NaN or infinite gets advantage 0 and is left out of its group.
    Rewards [response, function]: the weighted sum of the functions' advantages, so that neither their units nor a fault
    of one reach the others; a function that did not score a response adds nothing to it.
    """
    return explain(rewards, group_ids, channel, method=method, weights=weights, generator=generator).advantages


def by_function(
    rewards: Rewards, weights: Sequence[float] | Tensor | None
) -> tuple[list[Float[Tensor, " n"]], list[float] | None]:
    """The rewards of each function, and the functions' weights; a lone axis is one function, without a weight."""
    values = as_rewards(rewards)
    if weights is None:
        if values.ndim != 1:
            raise ValueError(
                f"rewards must have one axis, one entry per response, not shape {tuple(values.shape)}; rewards of several "
                "functions, [response, function], come with weights, one per function"
            )
        return [values], None
    if values.ndim != 2:
        raise ValueError(f"rewards with weights must be [response, function], not of shape {tuple(values.shape)}")
    try:
        shares = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        shares = []
    if len(shares) != values.shape[1] or not shares or not all(map(math.isfinite, shares)):
        raise ValueError(f"weights must be one finite number per reward function ({values.shape[1]}), not {weights!r}")
    return list(values.unbind(1)), shares


def explain_groups(
    values: Float[Tensor, " n"],
    group_ids: GroupIds,
    channel: RewardChannel,
    partitions: Partitions,
    method: str | Advantage = "credit",
    *,
    faults: Faults | None = None,
    scales: StepScales | None = None,
) -> Explanation:
    """`explain` for the rewards of one function, with the partitions that all functions share.

    `faults` and `scales` are what a run knows of them from earlier steps; without them they are found in this batch.
    """
    if isinstance(method, str) and method not in FORMULAS:
        raise ValueError(f"method must be one of {', '.join(FORMULAS)} or a function, not {method!r}")
    group, num_groups = group_codes(group_ids, len(values))
    group, finite = group.to(values.device), values.isfinite()
    if faults is None and channel.faults == "reject":
        faults = find_faults(values, group, num_groups)
    rejected = torch.zeros_like(finite) if faults is None else faults.rejected
    counted = finite & ~rejected
    x = torch.where(counted, values, 0.0).double()
    found = list(buckets(counted, group, num_groups))
    used = {m: partitions[_to_cut(m, method)] for m, _, _ in found}
    with compiled_if_large(len(values)):
        groups = [x[rows] for _, _, rows in found] if scales is None else []
        settings = Resolved.of(groups, used, channel, method, scales, faults)

        advantages = torch.zeros_like(x)
        per_group: dict[str, Any] = {n: x.new_zeros(num_groups) for n in GROUP_NUMBERS}
        fallback, tied = (torch.zeros(num_groups, dtype=torch.bool, device=x.device) for _ in range(2))
        for (m, groups, rows), factor in settings.by_unit(found, scales):
            rewards, (blocks, fallback[groups]) = x[rows], used[m]
            result = _apply(method, rewards, blocks, settings.for_groups(m, factor))
            tied[groups] = flat = rewards.amin(-1) == rewards.amax(-1)
            advantages[rows] = torch.where(flat.unsqueeze(-1), 0.0, result.advantages)
            per_group["mean"][groups], per_group["unit"][groups] = (rewards / m).sum(-1), factor
            per_group["reference"][groups], per_group["scale"][groups] = result.reference, result.scale
            if result.nu is not None and result.correction is not None:
                per_group["nu"][groups], per_group["correction"][groups] = result.nu, result.correction
    return Explanation(
        advantages=advantages.to(values.dtype),
        rewards=values,
        finite=finite,
        rejected=rejected,
        group=group,
        size=torch.bincount(group, minlength=num_groups),
        finite_size=torch.bincount(group[counted], minlength=num_groups),
        fallback=fallback,
        tied=tied,
        scale_source=_source([blocks for blocks, _ in used.values()], channel),
        blocks={m: blocks for m, (blocks, _) in used.items()},
        channel=settings.common,
        method=method if isinstance(method, str) else getattr(method, "__name__", "function"),
        faults=faults and replace(faults, level=settings.level, scattered=None),  # not the whole window
        **per_group,
    )


def _dense(name: str) -> Advantage:
    @torch.no_grad()
    def advantage(
        rewards: Rewards,
        channel: RewardChannel,
        *,
        blocks: Blocks | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "*batch group"]:
        RewardChannel.check(channel)
        values = as_rewards(rewards)
        if values.ndim == 0 or values.shape[-1] == 0:
            raise ValueError(
                f"rewards must have a last axis with one entry per response, not shape {tuple(values.shape)}"
            )
        size = values.shape[-1]
        if blocks is not None and blocks.n != size:
            raise ValueError(f"blocks must partition the group of {size}, not {blocks.n} elements")
        # leave-one-out cuts the others: given blocks cannot fit them
        given = None if name == "loo" else blocks
        partitions = Partitions(channel, generator) if given is None else GivenBlocks(channel, given)
        rows = values.reshape(-1, size)
        ids, faults = None, None
        if channel.faults == "reject":
            ids = _ids(rows)
            faults = find_faults(rows.flatten(), ids, len(rows))
        whole = size >= 2 and bool(rows.sum().isfinite()) and (faults is None or not bool(faults.rejected.any()))
        if whole:  # no gaps: no bookkeeping of groups
            found = _of_whole_groups(rows.double(), name, channel, partitions, faults)
            if found is not None:
                return found.to(values.dtype).view(values.shape)
        ids = _ids(rows) if ids is None else ids
        info = explain_groups(rows.flatten(), ids, channel, partitions, name, faults=faults)
        return info.advantages.view(values.shape)

    advantage.__name__ = name
    advantage.__doc__ = f"Advantages of groups on the last axis: {FORMULAS[name].__doc__}"
    return advantage


def _ids(rows: Tensor) -> Tensor:
    return torch.arange(len(rows), device=rows.device).repeat_interleave(rows.shape[-1])


def _of_whole_groups(
    rewards: Float[Tensor, "batch group"],
    method: str,
    channel: RewardChannel,
    partitions: Partitions,
    faults: Faults | None,
) -> Float[Tensor, "batch group"] | None:
    """What `explain_groups` gives for groups of one size without gaps, and nothing but the advantages; None: several units.

    Tied groups need no care here: a reference that preserves constants leaves residuals of exactly 0.
    """
    size = rewards.shape[-1]
    used = {size: partitions[_to_cut(size, method)]}
    settings = Resolved.of([rewards], used, channel, method, None, faults)
    if settings.factors and bool((settings.factors[0] != 1).any()):
        return None
    return FORMULAS[method](rewards, used[size][0], settings.for_groups(size, 1.0)).advantages


ADVANTAGES: dict[str, Advantage] = {name: _dense(name) for name in FORMULAS}
"""Name -> function of (rewards [..., group], channel, *, blocks=None, generator=None) -> advantages of the same shape."""


def _to_cut(size: int, method: str | Advantage) -> int:
    """How many responses are cut into blocks: the whole group, or all but the response itself."""
    return size - 1 if method == "loo" else size


def _source(blocks: Sequence[Blocks], channel: RewardChannel) -> str:
    sources = {scale_source(chosen, channel) for chosen in blocks} if channel.reference == "rovr" else set()
    return "+".join(sorted(sources)) or "none"


def _apply(method: str | Advantage, rewards: Tensor, blocks: Blocks, channel: RewardChannel) -> Credit:
    if isinstance(method, str):
        return FORMULAS[method](rewards, blocks, channel)
    nothing = torch.zeros_like(rewards[:, 0])
    return Credit(method(rewards, channel, blocks=blocks), nothing, nothing)
