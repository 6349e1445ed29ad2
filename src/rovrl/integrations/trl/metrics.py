"""The numbers under `rovr/` that a training run logs; docs/metrics.md explains each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rovrl.advantage import Explanation
from rovrl.diagnostics import branch_flips, clip_margin, metric
from rovrl.loss import clip_branch
from rovrl.robust.scale import LaggedScale

MOVED = 1e-5
"""Mean |log weight| below which the policy has not moved: it is rounding, a thirtieth of GSPO's clip band at most."""
SATURATED = 0.9
DISAGREEMENT_LIMIT = 0.5
"""rovr/weight_disagreement above this is told to the user: the clip no longer sees most of what the policy did."""
RECENT = 8
"""Over how many batches it is averaged for that: a single one may lie above in a healthy run."""


def reward_metrics(info: Explanation, lagged: LaggedScale, method: str) -> dict[str, float]:
    """What the reward channel did to one gathered batch, the same on every rank; `lagged`: the running scales it had."""
    scored = info.finite_size >= 2
    found = {
        "fallback_rate": _mean(info.fallback[scored]),
        "tied_rate": _mean(info.tied),
        "nonfinite_rate": _mean(~info.finite),
        "single_rate": _mean(~scored),
    }
    if lagged.value is not None:
        found["lagged_scale"] = lagged.value
    if lagged.spread is not None:
        found["lagged_spread"] = lagged.spread
    if method in ("credit", "center", "loo"):  # methods with a robust reference
        found["reference_shift"] = _mean((info.reference - info.mean).abs()[scored])
        found["scale"] = _mean(info.scale[scored])
        found["nu"] = _mean(info.nu[scored & (info.nu > 0)])
        found["scale_is_local"] = float(info.scale_source == "local")
    bound, floor = info.channel.credit_bound, info.channel.credit_floor
    if method == "credit" and not isinstance(bound, str) and not isinstance(floor, str):
        shaped = (info.advantages * info.scale[info.group]).abs()
        found |= {"credit_bound": bound, "credit_floor": floor}
        found["saturation"] = _mean((shaped > SATURATED * bound)[info.finite])
    return {metric(name): value for name, value in found.items() if value == value}


def weight_metrics(
    log_weight: Tensor,
    mean: Tensor,
    advantage: Tensor,
    valid: Tensor,
    clip: tuple[float, float] | None,
    reduce: Callable[[Tensor], Tensor],
) -> dict[str, float]:
    """What the ratio channel did to one batch of responses; `reduce` sums a tensor over all ranks.

    `valid` says which responses have tokens; `clip` is None for a loss without clip branches.
    """
    log_weight, mean, advantage = (x.detach()[valid] for x in (log_weight, mean, advantage))
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


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if values.numel() else float("nan")
