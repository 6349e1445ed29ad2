"""What a run logs: the names of all metrics in one place, the numbers computed once for all engines, the formulas below.

docs/metrics.md explains them. Groups "with contrast" have two or more rewards that count (finite, not rejected) and are not
all equal. Means over groups are over these: the others have advantage 0, and a divisor that is the floor says nothing about
the rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.advantage import Explanation
from rovrl.credit import credit_map
from rovrl.faults import Faults
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

MOVED = 1e-5
"""Mean |log weight| below which the policy has not moved: it is rounding, a thirtieth of GSPO's clip band at most."""
SATURATED = 0.9
WEIGHT_METRICS = ("weight_shift", "weight_disagreement", "clip_upper", "clip_lower", "branch_moved", "margin")
"""The names that `weight_metrics` fills."""

PER_FUNCTION = ("credit_bound", "nonfinite_rate", "rejected", "tied_rate", "variance_share")
"""The names that are also logged for each reward function, where there are several."""


def metric(name: str, function: str | None = None) -> str:
    """The logged name of a metric, `rovr/<name>`, or `rovr/<name>/<function>` for one reward function of several.

    An unknown one is a KeyError, so that no second spelling arises.
    """
    if name not in METRICS:
        raise KeyError(f"{name!r} is not in rovrl.diagnostics.METRICS")
    return PREFIX + name + ("" if function is None else f"/{function}")


def reward_metrics(info: Explanation, functions: Sequence[str] = ()) -> dict[str, float]:
    """What the reward channel did to one gathered batch, `rovr/<name>` -> value; a mean over nothing is left out.

    With several reward functions each value is the mean over the functions that have one, weighted by |w_k|, and each
    function has its own `rovr/<name>/<function>` (`functions`: their names; without them 1, 2, ...).
    """
    if info.parts:
        parts = [reward_metrics(part) for part in info.parts]
        return _weighted(parts, [abs(weight) for weight in info.weights]) | _by_function(info, parts, functions)
    found = {
        "fallback_rate": _mean(info.fallback[info.finite_size >= 2]),
        "tied_rate": _mean(info.tied),
        "nonfinite_rate": _mean(~info.finite),
        "single_rate": _mean(info.finite_size < 2),
        "lagged_scale": info.lagged_scale,
        "lagged_spread": info.lagged_spread,
    }
    if info.faults is not None:
        found |= _fault_metrics(info.rejected, info.faults)
    if info.method.robust:
        found |= _reference_metrics(info)
    if info.method.bounded:
        found |= _credit_metrics(info)
    return {metric(name): float(value) for name, value in found.items() if value is not None and value == value}


def _by_function(info: Explanation, parts: list[dict[str, float]], functions: Sequence[str]) -> dict[str, float]:
    """The metrics of `PER_FUNCTION`; functions of the same name are numbered, so that none hides another."""
    names = list(functions) or [str(k) for k in range(1, len(parts) + 1)]
    names = [f"{name}_{k}" if names.count(name) > 1 else name for k, name in enumerate(names, start=1)]
    found = {}
    for name, part, share in zip(names, parts, _variance_shares(info), strict=True):
        values = part | ({} if math.isnan(share) else {metric("variance_share"): share})
        found |= {metric(each, name): values[metric(each)] for each in PER_FUNCTION if metric(each) in values}
    return found


def _variance_shares(info: Explanation) -> list[float]:
    """Cov(w_k A_k, A) / Var(A) over the scored responses: sums to 1, negative for a function that the others outvote.

    NaN where A does not vary.
    """
    weights = torch.tensor(info.weights, dtype=torch.float64, device=info.advantages.device)
    columns = torch.stack([part.advantages.double() for part in info.parts])[:, info.finite] * weights.unsqueeze(-1)
    columns = columns - columns.mean(-1, keepdim=True)
    whole = columns.sum(0)
    variance = whole.square().sum()
    return torch.where(variance > 0, (columns * whole).sum(-1) / variance, math.nan).tolist()


def _fault_metrics(rejected: Tensor, faults: Faults) -> dict[str, float]:
    """What was rejected and beyond which thresholds; a threshold or a dispersion that does not exist is left out."""
    found = {"rejected": _mean(rejected)}
    for name, side in (("above", faults.above), ("below", faults.below)):
        if math.isfinite(side.threshold):
            found |= {f"fault_threshold_{name}": side.threshold, f"fault_dispersion_{name}": side.dispersion}
    if faults.level:
        found["merit_level"] = faults.level
    return found


def _reference_metrics(info: Explanation) -> dict[str, float]:
    has_scale = info.contrast & (info.nu > 0)
    found = {
        "reference_shift": _mean((info.reference - info.mean).abs()[info.contrast]),
        "scale": _mean(info.scale[info.contrast]),
        "nu": _mean(info.nu[has_scale]),
        "correction": _mean(info.correction[has_scale]),
    }
    return found | ({"scale_is_local": float(info.scale_source == "local")} if has_scale.any() else {})


def _credit_metrics(info: Explanation) -> dict[str, float]:
    bound, floor = info.channel.credit_bound, info.channel.credit_floor
    if isinstance(bound, str) or isinstance(floor, str):  # adaptive, and no group to measure
        return {}
    shaped = (info.advantages.double() * info.scale[info.group]).abs()
    counted = info.counted & info.contrast[info.group]
    return {
        "credit_bound": bound,
        "credit_floor": floor,
        "saturation": _mean((shaped > SATURATED * bound * info.unit[info.group])[counted]),
        **_distortion(info, bound, floor),
    }


def _distortion(info: Explanation, bound: float, floor: float) -> dict[str, float]:
    """The two terms below prop:credit_gradient_distortion: |χ_κ(U) − U|/S_χ, and |U| |S_χ − S_lin|/(S_χ S_lin).

    S_lin is the scale of the residuals U themselves. Left out where a square of them overflows.
    """
    keep = info.counted & info.contrast[info.group]
    group, unit = info.group[keep], info.unit[info.group[keep]]
    u, scale = info.rewards[keep].double() - info.reference[group], info.scale[group]
    squares = torch.zeros_like(info.scale).index_add(0, group, u * u) / info.finite_size.clamp(min=1)
    linear = (squares[group] + (floor * unit) ** 2).sqrt()
    if not bool(linear.isfinite().all()):
        return {}
    return {
        "credit_shaping": _mean((u - credit_map(u, bound * unit)).abs() / scale),
        "scale_construction": _mean(u.abs() * (scale - linear).abs() / scale / linear),
    }


def weight_metrics(
    log_weight: Tensor,
    mean: Tensor,
    advantage: Tensor,
    rows: Tensor,
    clip: tuple[float, float] | None,
    reduce: Callable[[Tensor], Tensor] = lambda sums: sums,
) -> dict[str, float]:
    """What the ratio channel did to one batch of responses, `rovr/<name>` -> value; `reduce` sums a tensor over all ranks.

    Means over the responses that have tokens (`rows`). `clip` is (low, high), None for a loss without clip branches. Without
    such responses nothing is said, and without movement (`MOVED`) no weight_disagreement.
    """
    log_weight, mean, advantage = (x.detach()[rows] for x in (log_weight, mean, advantage))
    log_weight, mean = log_weight.double(), mean.double()
    parts = {"count": torch.ones_like(mean), "weight_shift": (log_weight - mean).abs(), "moved": mean.abs()}
    if clip is not None:
        branch = clip_branch(log_weight, advantage, *clip)
        parts["clip_upper"], parts["clip_lower"] = branch > 0, branch < 0
        parts["branch_moved"] = branch_flips(log_weight, mean, advantage, *clip)
        parts["margin"] = clip_margin(log_weight, *clip)
    # float32: the sums of a batch keep seven digits, and not every device reduces float64
    sums = reduce(torch.stack([part.sum().float() for part in parts.values()])).tolist()
    total = dict(zip(parts, sums, strict=True))
    count, moved = total.pop("count"), total.pop("moved")
    if count == 0:
        return {}
    found = {name: value / count for name, value in total.items()}
    if moved > MOVED * count:
        found["weight_disagreement"] = total["weight_shift"] / moved
    return {metric(name): value for name, value in found.items()}


def rollout_metrics(
    weights: Tensor, log_ratios: Tensor, mask: Tensor, reduce: Callable[[Tensor], Tensor] = lambda sums: sums
) -> dict[str, float]:
    """What a rollout correction did to one batch, `rovr/<name>` -> value: means over the tokens that the mask keeps.

    `weights` as `rovrl.rollout_weights` returns them; `log_ratios` are log π_old - log π_rollout, NaN where there is none.
    """
    weights = weights.expand_as(log_ratios)
    parts = {
        "rollout_gap": log_ratios.nan_to_num().abs()[mask],
        "rollout_weight": weights[mask],
        "rollout_left_out": weights[mask] == 0,
    }
    sums = [torch.ones_like(weights)[mask].sum(), *(part.sum().float() for part in parts.values())]
    count, *totals = reduce(torch.stack(sums)).tolist()
    return {metric(name): total / count for name, total in zip(parts, totals, strict=True)} if count else {}


def _weighted(found: list[dict[str, float]], weights: list[float]) -> dict[str, float]:
    result = {}
    for name in map(metric, METRICS):
        pairs = [(metrics[name], weight) for metrics, weight in zip(found, weights, strict=True) if name in metrics]
        total = math.fsum(weight for _, weight in pairs)
        if total > 0:
            result[name] = math.fsum(value * weight for value, weight in pairs) / total
    return result


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if values.numel() else math.nan


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
