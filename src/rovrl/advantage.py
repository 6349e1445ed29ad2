"""Rewards -> advantages for real batches, one record of what led to them, and the settings in numbers.

Runs without gradient as a whole, in float64; the advantages come back in the rewards' own type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS, Credit, Method
from rovrl.faults import Faults, find_faults
from rovrl.groups import GivenBlocks, GroupIds, Groups, Partition, Partitions, Rewards, Rows, as_rewards, could_adapt
from rovrl.robust.blocks import Blocks
from rovrl.robust.kernels import compiled_if_large
from rovrl.robust.scale import scale_source
from rovrl.scales import Resolved, StepScales

Advantage = Callable[..., Tensor]


@dataclass(frozen=True)
class Explanation:
    """What the reward channel did to a batch. Groups are numbered in the order in which their ids first appear."""

    advantages: Float[Tensor, " n"]
    rewards: Float[Tensor, " n"]
    """As they were given; of several functions their weighted sum."""
    finite: Bool[Tensor, " n"]
    """Whether a response's reward is a number; if not, it is left out of every statistic and gets advantage 0."""
    rejected: Bool[Tensor, " n"]
    """Whether it is a fault for certain, with `faults="reject"`: left out likewise."""
    fault_probability: Float[Tensor, " n"]
    """The probability that it is a fault: what is uncertain is left out in part (`Faults.cases`)."""
    group: Int[Tensor, " n"]
    mean: Float[Tensor, " g"]
    reference: Float[Tensor, " g"]
    scale: Float[Tensor, " g"]
    """The divisor of the advantages."""
    nu: Float[Tensor, " g"]
    """ν̂ of the reference; 0 where one block, a reference other than RoVR or another method needs none."""
    correction: Float[Tensor, " g"]
    """Ĉ_B, how far RoVR's outer correction moved the reference (eq:correction_magnitude); 0 where ν̂ is."""
    unit: Float[Tensor, " g"]
    """The unit of adaptive credit over the common one: `channel`'s adaptive bound and floor times this; 1 as a rule."""
    fallback: Bool[Tensor, " g"]
    tied: Bool[Tensor, " g"]
    """Two or more finite rewards, all equal: no signal."""
    scale_source: str
    """Where ν̂ came from: "local", "lagged", "pilot", "none"; several joined by "+"."""
    blocks: dict[int, Blocks]
    """The partition used for each number of finite responses."""
    channel: RewardChannel
    """The settings with every number filled in; with several reward functions each part has its own."""
    method: Method = FORMULAS["credit"]
    lagged_scale: float | None = None
    """The running scale of earlier steps (on the first step this batch's own); None outside a `RewardRun`."""
    lagged_spread: float | None = None
    """The running spread likewise; None where no setting is "adaptive"."""
    faults: Faults | None = None
    """The thresholds beyond which rewards were rejected, and the evidence; None with `faults="bound"`."""
    parts: tuple[Explanation, ...] = ()
    """One explanation per reward function where there are several, else empty."""
    weights: tuple[float, ...] = ()

    @property
    def counted(self) -> Bool[Tensor, " n"]:
        """Which rewards count: finite and not rejected."""
        return self.finite & ~self.rejected

    @cached_property
    def size(self) -> Int[Tensor, " g"]:
        """How many responses each group has."""
        return torch.bincount(self.group, minlength=len(self.mean))

    @cached_property
    def finite_size(self) -> Int[Tensor, " g"]:
        """How many rewards of each group count: finite and not rejected."""
        return torch.bincount(self.group[self.counted], minlength=len(self.mean))

    @property
    def notes(self) -> dict[str, Any]:
        """What a record of the step says about the reward channel, as plain values; faults by the number of the response."""
        found = {
            "reward_channel": self.channel.to_dict(),
            "scale_source": self.scale_source,
            "corruption_could_adapt": could_adapt(self.channel),
        }
        for part in self.parts or (self,):
            if part.faults is not None:
                sides = {"above": part.faults.above.threshold, "below": part.faults.below.threshold}
                limits = {name: value if math.isfinite(value) else None for name, value in sides.items()}
                rejected = part.rejected.nonzero().squeeze(-1).tolist()
                found.setdefault("faults", []).append({"rejected": rejected, "thresholds": limits})
        return found

    @property
    def contrast(self) -> Bool[Tensor, " g"]:
        """Which groups have two or more rewards that count and are not all equal: those that teach something."""
        return (self.finite_size >= 2) & ~self.tied


@torch.no_grad()
def explain(
    rewards: Rewards,
    group_ids: GroupIds,
    channel: RewardChannel | str = RewardChannel(),  # noqa: B008 - frozen
    *,
    method: str | Advantage = "credit",
    weights: Sequence[float] | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Explanation:
    """The advantages of ragged groups by id, with everything that led to them (alg:rovr_gspo, eq:credit_advantage).

    Fewer than two finite rewards in a group: advantages 0. One partition per number of finite responses, drawn in
    ascending order of that number. `method` is a name of `ADVANTAGES`, or a function with their signature. Rewards
    [response, function] are explained function by function and summed up with the weights. `channel` may be the name of a
    preset: "paper", "adaptive", "guarded".
    """
    channel = RewardChannel.of(channel)
    columns, shares = by_function(rewards, weights)
    groups, partitions = Groups.of(group_ids, columns[0]), Partitions(channel, generator)
    parts = [explain_groups(column, groups, channel, partitions, method) for column in columns]
    return parts[0] if shares is None else weighted_sum(parts, shares, channel)


def grouped_advantages(
    rewards: Rewards,
    group_ids: GroupIds,
    channel: RewardChannel | str = RewardChannel(),  # noqa: B008 - frozen
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


class Part(NamedTuple):
    """Groups in which equally many responses count, in one unit, with what the formula made of them."""

    groups: Int[Tensor, " group"]
    rows: Rows
    rewards: Float[Tensor, "group m"]
    unit: float
    """Their unit over the common one."""
    fallback: bool
    credit: Credit


class Solved(NamedTuple):
    """A batch taken apart, each part with its advantages."""

    finite: Bool[Tensor, " n"]
    rejected: Bool[Tensor, " n"]
    used: dict[int, Partition]
    """The partition for each number of responses that count."""
    settings: Resolved
    parts: list[Part]


def solve(
    values: Float[Tensor, " n"],
    groups: Groups,
    channel: RewardChannel,
    partitions: Partitions,
    method: Method,
    faults: Faults | None = None,
    scales: StepScales | None = None,
    rejected: Bool[Tensor, " n"] | None = None,
) -> Solved:
    """The one way from rewards to the formulas: what counts, in blocks, with settings in numbers.

    `scales` are those of earlier steps; without them they are found in this batch. `rejected`: what is left out, if it is not
    what is a fault for certain.
    """
    # one sum shows that all are finite, unless it overflows
    finite = torch.ones_like(values, dtype=torch.bool) if bool(values.sum().isfinite()) else values.isfinite()
    if rejected is None:
        rejected = torch.zeros_like(finite) if faults is None else faults.rejected
    counted = finite if faults is None else finite & ~rejected
    every = bool(counted.all())
    x = values.double() if every else torch.where(counted, values, 0.0).double()
    found = groups.buckets(counted, every)
    used = {m: partitions[m - method.leaves_out] for m, _, _ in found}
    parts = []
    with compiled_if_large(len(values)):
        matrices = [groups.matrix(x, rows) for _, _, rows in found] if scales is None else []
        settings = Resolved.of(matrices, used, channel, method.leaves_out > 0, scales, faults)
        for (m, some, rows), unit in settings.by_unit(found, scales):
            rewards, (blocks, fallback) = groups.matrix(x, rows), used[m]
            credit = method.formula(rewards, blocks, settings.for_groups(m, unit))
            parts.append(Part(some, rows, rewards, unit, fallback, credit))
    return Solved(finite, rejected, used, settings, parts)


def _averaged(
    certain: Float[Tensor, " n"],
    values: Float[Tensor, " n"],
    groups: Groups,
    channel: RewardChannel,
    partitions: Partitions,
    method: Method,
    faults: Faults,
    scales: StepScales | None = None,
) -> Float[Tensor, " n"]:
    """The mean of the advantages over what may be left out; `certain` are those without what is a fault for certain."""
    (share, _), *others = faults.cases()
    mean = share * certain
    for share, rejected in others:  # none unless the evidence is thin
        found = torch.zeros_like(mean)
        for part in solve(values, groups, channel, partitions, method, faults, scales, rejected).parts:
            flat = part.rewards.amin(-1, keepdim=True) == part.rewards.amax(-1, keepdim=True)
            groups.put(found, part.rows, torch.where(flat, 0.0, part.credit.advantages))
        mean += share * found
    return mean


def explain_groups(
    values: Float[Tensor, " n"],
    groups: Groups,
    channel: RewardChannel,
    partitions: Partitions,
    method: str | Advantage = "credit",
    *,
    faults: Faults | None = None,
    scales: StepScales | None = None,
) -> Explanation:
    """`explain` for one reward function, with the partitions that all share.

    `faults` and `scales` are what a run knows of them from earlier steps; without them they are found in this batch.
    """
    how = Method.of(method)
    if faults is None and channel.faults == "reject":
        faults = find_faults(values, groups.code, groups.count)
    solved = solve(values, groups, channel, partitions, how, faults, scales)
    advantages = torch.zeros_like(values, dtype=torch.float64)
    mean, reference, scale, nu, correction, unit = advantages.new_zeros(6, groups.count)
    fallback, tied = torch.zeros(2, groups.count, dtype=torch.bool, device=values.device)
    for part in solved.parts:
        some, result = part.groups, part.credit
        tied[some] = flat = part.rewards.amin(-1) == part.rewards.amax(-1)
        groups.put(advantages, part.rows, torch.where(flat.unsqueeze(-1), 0.0, result.advantages))
        mean[some], unit[some] = (part.rewards / part.rewards.shape[-1]).sum(-1), part.unit
        reference[some], scale[some], fallback[some] = result.reference, result.scale, part.fallback
        if result.nu is not None and result.correction is not None:
            nu[some], correction[some] = result.nu, result.correction
    if faults is not None:
        advantages = _averaged(advantages, values, groups, channel, partitions, how, faults, scales)
    sources = {scale_source(blocks, channel) for blocks, _ in solved.used.values() if channel.reference == "rovr"}
    return Explanation(
        advantages=advantages.to(values.dtype),
        rewards=values,
        finite=solved.finite,
        rejected=solved.rejected,
        fault_probability=torch.zeros_like(advantages) if faults is None else faults.probability,
        group=groups.code,
        mean=mean,
        reference=reference,
        scale=scale,
        nu=nu,
        correction=correction,
        unit=unit,
        fallback=fallback,
        tied=tied,
        scale_source="+".join(sorted(sources)) or "none",
        blocks={m: blocks for m, (blocks, _) in solved.used.items()},
        channel=solved.settings.common,
        method=how,
        faults=faults and replace(faults, level=solved.settings.level, scattered=None),  # not the whole window
    )


def _dense(method: Method) -> Advantage:
    @torch.no_grad()
    def advantage(
        rewards: Rewards,
        channel: RewardChannel | str,
        *,
        blocks: Blocks | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "*batch group"]:
        channel = RewardChannel.of(channel)
        values = as_rewards(rewards)
        if values.ndim == 0 or values.shape[-1] == 0:
            raise ValueError(
                f"rewards must have a last axis with one entry per response, not shape {tuple(values.shape)}"
            )
        size = values.shape[-1]
        if blocks is not None and blocks.n != size:
            raise ValueError(f"blocks must partition the group of {size}, not {blocks.n} elements")
        given = None if method.leaves_out else blocks  # they cannot fit the responses that are left
        partitions = Partitions(channel, generator) if given is None else GivenBlocks(channel, given)
        rows = values.reshape(-1, size)
        groups = Groups(None, *rows.shape)
        faults = find_faults(rows.flatten(), groups.code, groups.count) if channel.faults == "reject" else None
        solved = solve(rows.flatten(), groups, channel, partitions, method, faults)
        # equal rewards need no care here: a reference that preserves constants leaves residuals of exactly 0
        if len(solved.parts) == 1 and solved.parts[0].rows is None:
            found = solved.parts[0].credit.advantages.flatten()
        else:
            found = torch.zeros(rows.numel(), dtype=torch.float64, device=rows.device)
            for part in solved.parts:
                groups.put(found, part.rows, part.credit.advantages)
        if faults is not None:
            found = _averaged(found, rows.flatten(), groups, channel, partitions, method, faults)
        return found.to(values.dtype).view(values.shape)

    advantage.__name__ = method.name
    advantage.__doc__ = f"Advantages of groups on the last axis: {method.formula.__doc__}"
    return advantage


ADVANTAGES: dict[str, Advantage] = {name: _dense(method) for name, method in FORMULAS.items()}
"""Name -> function of (rewards [..., group], channel, *, blocks=None, generator=None) -> advantages of the same shape."""


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


def weighted_sum(parts: Sequence[Explanation], weights: Sequence[float], channel: RewardChannel) -> Explanation:
    """The explanation of Σ_k w_k A_k, with one part per reward function k (`channel`: the settings that all had).

    A response without a score of function k has A_k = 0. Per group, mean and reference are weighted sums as well, scale,
    ν̂ and Ĉ_B with |w_k|. A group falls back if it does for any function, and is tied if no function sees a contrast in it. A
    response is rejected if it is for every function that scored it.
    """
    first = parts[0]
    finite, counted = (torch.stack([getattr(part, name) for part in parts]).any(0) for name in ("finite", "counted"))
    signed = torch.tensor(weights, dtype=torch.float64, device=first.mean.device)
    tied = torch.stack([part.tied for part in parts]).any(0) & ~torch.stack([part.contrast for part in parts]).any(0)
    return replace(
        first,
        advantages=_sum(parts, "advantages", signed).to(first.advantages.dtype),
        rewards=_sum(parts, "rewards", signed),
        finite=finite,
        rejected=finite & ~counted,
        fault_probability=torch.stack([part.fault_probability.where(part.finite, 1.0) for part in parts]).amin(0),
        mean=_sum(parts, "mean", signed),
        reference=_sum(parts, "reference", signed),
        scale=_sum(parts, "scale", signed.abs()),
        nu=_sum(parts, "nu", signed.abs()),
        correction=_sum(parts, "correction", signed.abs()),
        fallback=torch.stack([part.fallback for part in parts]).any(0),
        tied=tied,
        scale_source="+".join(sorted({name for part in parts for name in part.scale_source.split("+")})),
        blocks={size: blocks for part in parts for size, blocks in part.blocks.items()},
        channel=channel,
        faults=None,
        parts=tuple(parts),
        weights=tuple(float(weight) for weight in weights),
    )


def _sum(parts: Sequence[Explanation], name: str, weights: Tensor) -> Tensor:
    columns = torch.stack([getattr(part, name).double() for part in parts])
    return (weights.unsqueeze(-1) * columns).sum(0)
