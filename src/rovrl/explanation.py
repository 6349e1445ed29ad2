"""What the reward channel did to a batch: one record for the log, the audit, the engines; and the sum of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.faults import Faults
from rovrl.partition import could_adapt
from rovrl.robust.blocks import Blocks


@dataclass(frozen=True)
class Explanation:
    """What the reward channel did to a batch. Groups are numbered in the order in which their ids first appear."""

    advantages: Float[Tensor, " n"]
    rewards: Float[Tensor, " n"]
    """As they were given; of several functions their weighted sum."""
    finite: Bool[Tensor, " n"]
    """Whether a response's reward is a number; if not, it is left out of every statistic and gets advantage 0."""
    rejected: Bool[Tensor, " n"]
    """Whether it was shown to be a fault, with `faults="reject"`: left out likewise."""
    group: Int[Tensor, " n"]
    size: Int[Tensor, " g"]
    finite_size: Int[Tensor, " g"]
    """How many rewards of each group count: finite and not rejected."""
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
    method: str = "credit"
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
        finite_size=torch.bincount(first.group[counted], minlength=len(first.size)),
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
