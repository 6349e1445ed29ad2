"""What a run logs about the two statistics, and the one place where a metric name is spelled."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.loss import CLIP_HIGH, CLIP_LOW, clip_branch

PREFIX = "rovr/"

METRICS: dict[str, str] = {
    "reference_shift": "mean over groups with contrast of |robust reference - mean|, in units of the rewards",
    "scale": "mean over groups with contrast of the divisor of the credit",
    "nu": "mean over groups with contrast of the pooled scale of the reference",
    "correction": "mean over groups with contrast of |robust reference - median of its blocks' centers|",
    "lagged_scale": "the running within-group sandwich scale of earlier steps",
    "lagged_spread": "the running spread within groups of earlier steps, for adaptive credit",
    "fallback_rate": "share of scored groups that fell back to a single block, the global M-center",
    "tied_rate": "share of groups whose finite rewards are all equal",
    "nonfinite_rate": "share of responses whose reward is None, NaN or infinite",
    "single_rate": "share of groups with fewer than two finite rewards",
    "scale_is_local": "1 if the scale is the blocks' own, 0 if lagged or a pilot",
    "credit_bound": "kappa in use",
    "credit_floor": "s_min in use",
    "saturation": "share of responses in groups with contrast whose credit is above 0.9 kappa",
    "credit_shaping": "mean over those responses of |chi(U) - U|/S, what bounding the residual U changes",
    "scale_construction": "mean over those responses of |U| |S - S_lin|/(S S_lin), what the scale of bounded residuals changes",
    "rejected": "share of responses whose reward was shown to be a fault and left out",
    "fault_threshold_above": "how far above its group's center a reward is a fault",
    "fault_threshold_below": "how far below its group's center a reward is a fault",
    "fault_dispersion_above": "pairs of faults above that share a group, over the number expected by chance",
    "fault_dispersion_below": "pairs of faults below that share a group, over the number expected by chance",
    "merit_level": "distance between right and wrong where they are a layer far from an even bulk",
    "variance_share": "share of the variance of the advantages that one of several reward functions brings",
    "weight_shift": "mean over responses of |SoftRoVR - mean of the token log-ratios|",
    "weight_disagreement": "sum of |SoftRoVR - mean| over sum of |mean|",
    "clip_upper": "share of responses on the upper clipped branch",
    "clip_lower": "share of responses on the lower clipped branch",
    "branch_moved": "share of responses whose clip branch SoftRoVR changed against the mean",
    "margin": "mean distance of the log weight to the nearer clip boundary",
    "rollout_gap": "mean over tokens of |log-probability of the old policy - that of the engine that sampled|",
    "rollout_weight": "mean over tokens of the weight that the rollout correction gives them",
    "rollout_left_out": "share of tokens whose weight by the rollout correction is 0",
}
"""Name (without the prefix `rovr/`) -> what it is; docs/metrics.md says what a healthy run shows."""


def metric(name: str, function: str | None = None) -> str:
    """The logged name of a metric, `rovr/<name>`, or `rovr/<name>/<function>` for one reward function of several.

    An unknown one is a KeyError, so that no second spelling arises.
    """
    if name not in METRICS:
        raise KeyError(f"{name!r} is not in rovrl.diagnostics.METRICS")
    return PREFIX + name + ("" if function is None else f"/{function}")


def contrast(advantages: Float[Tensor, "*batch group"], keep: Bool[Tensor, "*batch group"]) -> Float[Tensor, "*batch"]:
    """C_H(A) = {2 Σ_{i<k∈H} (A_i - A_k)² / (|H|(|H|-1))}^½, the contrast among the responses kept (below prop:grpo_broadcast).

    Equal to √2 times their sample standard deviation; 0 for fewer than two.
    """
    if keep.dtype != torch.bool:
        raise ValueError(f"keep must be a bool mask (True = clean), not {keep.dtype}")
    if keep.ndim > advantages.ndim or keep.shape[-1:] != advantages.shape[-1:]:
        raise ValueError(f"keep must fit advantages, {tuple(advantages.shape)}, not {tuple(keep.shape)}")
    keep = keep.expand(advantages.shape)
    count = keep.sum(-1)
    mean = (torch.where(keep, advantages, 0.0)).sum(-1) / count.clamp(min=1)
    square = torch.where(keep, (advantages - mean.unsqueeze(-1)) ** 2, 0.0).sum(-1)
    return torch.where(count > 1, (2 * square / (count - 1).clamp(min=1)).sqrt(), 0.0)


def contrast_retention(
    after: Float[Tensor, "*batch group"], before: Float[Tensor, "*batch group"], keep: Bool[Tensor, "*batch group"]
) -> Float[Tensor, "*batch"]:
    """C_H(after)/C_H(before): the share of clean contrast that survived (sec:reward_contamination); NaN if there was none."""
    return contrast(after, keep) / contrast(before, keep)


def displacement(after: Float[Tensor, "*batch"], before: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """|after - before| of a reference or of a log weight: D_q of sec:softrovr_token_stress."""
    return (after - before).abs()


def scale_inflation(after: Float[Tensor, "*batch"], before: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """How many times larger the divisor of the advantages became (sec:reward_contamination)."""
    return after / before


def clean_deviation(
    after: Float[Tensor, "*batch group"], before: Float[Tensor, "*batch group"], keep: Bool[Tensor, "*batch group"]
) -> Float[Tensor, "*batch"]:
    """Root mean square of after - before over the clean responses (sec:reward_contamination)."""
    square = torch.where(keep, (after - before) ** 2, 0.0).sum(-1)
    return (square / keep.expand(after.shape).sum(-1).clamp(min=1)).sqrt()


def sign_flips(
    after: Float[Tensor, "*batch group"], before: Float[Tensor, "*batch group"]
) -> Bool[Tensor, "*batch group"]:
    """Which responses are pushed the other way: advantages of opposite sign (prop:branch_flip_count)."""
    return after * before < 0


def branch_flips(
    after: Float[Tensor, "*seq"],
    before: Float[Tensor, "*seq"],
    advantage: Float[Tensor, "*seq"],
    clip_low: float = CLIP_LOW,
    clip_high: float = CLIP_HIGH,
) -> Bool[Tensor, "*seq"]:
    """Which log weights lie on another clip branch (prop:branch_flip_count)."""
    return clip_branch(after, advantage, clip_low, clip_high) != clip_branch(before, advantage, clip_low, clip_high)


def clip_margin(
    log_weight: Float[Tensor, "*seq"], clip_low: float = CLIP_LOW, clip_high: float = CLIP_HIGH
) -> Float[Tensor, "*seq"]:
    """dist(m, {log l, log u}): an error below it cannot change the branch (prop:branch_flip_count)."""
    low, high = torch.log1p(torch.tensor([-clip_low, clip_high], dtype=torch.float64)).tolist()
    return torch.minimum((log_weight - low).abs(), (log_weight - high).abs())


def weight_disagreement(robust: Float[Tensor, "*seq"], mean: Float[Tensor, "*seq"]) -> Float[Tensor, ""]:
    """Σ|SoftRoVR - mean| / Σ|mean|: how much of the movement of a batch the robust weight hides; 0 if nothing moved.

    Above one half the clip no longer sees most of what the policy did: the trust region is at risk.
    """
    moved = mean.abs().sum()
    return torch.where(moved > 0, (robust - mean).abs().sum() / torch.where(moved > 0, moved, 1.0), 0.0)
