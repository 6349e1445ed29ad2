"""What can a group tolerate? How far bad rewards can change the other advantages, with certainty, in given groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS
from rovrl.groups import Partitions, Rewards, as_rewards, buckets, partition
from rovrl.guarantees.certificate import credit_certificate
from rovrl.guarantees.credit import credit_bound
from rovrl.guarantees.movement import breakdown, reference_range
from rovrl.guarantees.premises import count
from rovrl.robust.blocks import Blocks
from rovrl.scales import Resolved, is_adaptive

PIECE = 2**13
"""Rewards searched at a time, in whole groups."""


@dataclass(frozen=True)
class Tolerance:
    """What r replaced rewards can do to the groups at hand, whatever their values and whoever chooses them."""

    replaced: int
    groups: Int[Tensor, " certified"]
    """Which of the groups the rows below are about: those with more than r rewards that are numbers."""
    change: Float[Tensor, " certified"]
    """No advantage of a response whose reward is not replaced changes by more than this."""
    low: Float[Tensor, " certified"]
    high: Float[Tensor, " certified"]
    """The reference stays within [low, high]; infinite where r rewards can carry it anywhere."""

    def within(self, share: float) -> float:
        """The change that this share of the groups does not exceed: 0.5 for the median, 1 for the worst group."""
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {share!r}")
        return float(self.change.sort().values[math.ceil(share * len(self.change) - 1e-9) - 1])


@torch.no_grad()
def tolerance(
    groups: Tensor | Iterable[Rewards],
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
    *,
    replaced: int = 1,
    generator: torch.Generator | None = None,
) -> Tolerance:
    """The certified worst change of the unchanged advantages of each group, for r = `replaced` rewards of any value.

        |Â_i(R') − Â_i(R)| ≤ change  for every R' that differs from R in at most r rewards, R_i not among them

    `reference_range` composed with `credit_certificate`: nothing is assumed of the rewards, and it is certain. `groups` is
    [group, response], or one list of rewards per group; a reward that is not a number is left out, as in training. What
    training takes from earlier steps (a lagged ν̂, adaptive κ and s_min) is taken from these groups here and held fixed.
    Refused for `faults="reject"`: which responses that leaves out depends on all rewards.
    """
    r = count("replaced", replaced, 0)
    if channel.faults != "bound":
        raise ValueError(f'channel.faults must be "bound" for a certificate, not {channel.faults!r}')
    rows = [as_rewards(group).flatten().double() for group in groups]
    ids = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(row) for row in rows], dtype=torch.long))
    values = torch.cat(rows) if rows else torch.zeros(0)
    found = [bucket for bucket in buckets(values.isfinite(), ids, len(rows)) if bucket[0] > r]
    if not found:
        raise ValueError(f"groups must include one with {max(r + 1, 2)} finite rewards, not {len(rows)} with fewer")
    partitions, parts = Partitions(channel, generator), []
    used = {m: partitions[m] for m, _, _ in found}
    settings = Resolved.of([values[at] for _, _, at in found], used, channel, False, None)
    for (m, which, at), factor in settings.by_unit(found, None):
        few = max(PIECE // m, 1)
        for some, rewards in zip(which.split(few), values[at].split(few), strict=True):
            parts.append((some, *_certify(rewards, used[m][0], settings.for_groups(m, factor), r)))
    index, change, low, high = (torch.cat(column) for column in zip(*parts, strict=True))
    order = index.argsort()
    return Tolerance(r, index[order], change[order], low[order], high[order])


def _certify(x: Tensor, blocks: Blocks, channel: RewardChannel, r: int) -> tuple[Tensor, Tensor, Tensor]:
    """Worst change over the responses, and the range of the reference, for groups of one size and resolved settings."""
    theta = FORMULAS["credit"](x, blocks, channel).reference
    low, high = reference_range(x, blocks, channel, r)
    low, high = torch.minimum(low, theta), torch.maximum(high, theta)  # which they are, but for rounding
    limits = float(channel.credit_bound), float(channel.credit_floor)
    change = credit_certificate(x, theta, r, (theta - low, high - theta), *limits)
    return change.amax(-1), low, high


def tolerance_of_settings(group: int, channel: RewardChannel) -> str:
    """One sentence on what a group size and settings tolerate, before there are any rewards."""
    blocks, _ = partition(count("group", group, 2), channel)
    most = breakdown(blocks.sizes) - 1
    kind = "block" if len(blocks.sizes) == 1 else "blocks"
    sentence = (
        f"{most} bad rewards of {group}, wherever they fall in the {kind} of {_listed(blocks.sizes)}, cannot carry the "
        f"reference away; {most + 1} can"
    )
    if is_adaptive(channel):
        return f"{sentence}; no advantage leaves ±{math.sqrt(group):.3g}, whatever a reward is"
    bound = credit_bound(float(channel.credit_bound), float(channel.credit_floor), group)
    return f"{sentence}; no advantage leaves ±{bound:.3g}, whatever a reward is"


def tolerance_of_groups(
    groups: Tensor | Iterable[Rewards],
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
    *,
    replaced: Sequence[int] = (1, 2, 3),
) -> str:
    """One sentence on how much bad rewards can change the other advantages in these groups, with certainty."""
    rows = list(groups)
    found = [tolerance(rows, channel, replaced=r) for r in replaced]
    parts = [
        f"{f.replaced} bad: {f.within(0.5):.2g} in half of the groups, {f.within(0.9):.2g} in nine of ten"
        for f in found
    ]
    return f"For certain, whatever the bad rewards are, no other advantage changes by more than: {'; '.join(parts)}"


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
