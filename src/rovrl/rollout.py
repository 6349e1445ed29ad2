"""Weights for responses that another engine, or the policy in another precision, has sampled. Not in the paper.

The engine that serves the policy and the one that trains it disagree on log-probabilities: l_t = log π_old - log π_rollout
is not 0 before any update. A correction makes a ratio ρ of a response's l_t and multiplies the loss by a weight made of ρ.
docs/rollouts.md says which correction is for what, and what a sum, a mean and a robust location each miss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.config import RatioChannel, RolloutCorrection
from rovrl.loss import MAX_LOG_WEIGHT
from rovrl.robust.centers import as_working
from rovrl.weight import gspo_mean, soft_rovr

ROLLOUT_CORRECTIONS: Mapping[str, RolloutCorrection] = {
    "tis": RolloutCorrection("token", "truncate", high=2.0),
    "tis_sequence": RolloutCorrection("sum", "truncate", high=2.0),
    "mis": RolloutCorrection("sum", "mask", high=2.0),
    "icepop": RolloutCorrection("token", "mask", low=0.5, high=5.0),
    "geometric": RolloutCorrection("mean", "reject", low=0.999, high=1.001),
    "soft_rovr": RolloutCorrection("soft_rovr", "truncate", high=2.0),
    "soft_rovr_reject": RolloutCorrection("soft_rovr", "reject", low=0.999, high=1.001),
}
"""Name -> correction, with its authors' bounds (for MIS and the geometric mean: verl's).

tis            truncated importance sampling: Yao et al. 2025, fengyao.notion.site/off-policy-rl
tis_sequence,  the same for the whole response, and its masked form: Liu, Li et al. 2025, richardli.xyz/rl-collapse
  mis
icepop         tokens outside two bounds are left out: Zhao et al. 2025, ringtech.notion.site/icepop
geometric      responses whose geometric mean ratio lies outside two bounds are left out: Liu, Li et al.; verl's seq_mean_k1
soft_rovr,     ours: the robust location in the mean's place, as a weight and as a reason to leave out
  soft_rovr_reject
"""


@torch.no_grad()
def rollout_weights(
    log_ratios: Float[Tensor, "*seq token"],
    mask: Bool[Tensor, "*seq token"] | None = None,
    correction: RolloutCorrection | str = RolloutCorrection(),  # noqa: B008 - frozen
) -> Float[Tensor, "*seq width"]:
    """Weights of the loss, from log π_old - log π_rollout: [..., token] of the statistic "token", [..., 1] of the others.

    ρ = exp(statistic), the exponent kept within ±20; `correction` (or its name in `ROLLOUT_CORRECTIONS`) says what becomes
    of it. What the mask (True = keep) hides, and a NaN (the engine gave no log-probability), count as agreement: ratio 1, and
    no part in the statistic. Gradient: none; a weight changes what is averaged over, not what is differentiated.
    """
    correction = named_correction(correction)
    x = as_working(log_ratios)
    keep = ~x.isnan() if mask is None else mask.bool() & ~x.isnan()
    x = torch.where(keep, x, 0.0).clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT)
    log_rho = _STATISTICS[correction.statistic](x, keep, correction.ratio_channel)
    rho = log_rho.clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT).exp()
    return _TREATMENTS[correction.treatment](rho, correction.low, correction.high)


def named_correction(correction: RolloutCorrection | Mapping[str, Any] | str) -> RolloutCorrection:
    """The correction that a name in `ROLLOUT_CORRECTIONS`, a mapping of its fields, or itself stands for."""
    if isinstance(correction, RolloutCorrection):
        return correction
    if isinstance(correction, str) and correction in ROLLOUT_CORRECTIONS:
        return ROLLOUT_CORRECTIONS[correction]
    if isinstance(correction, Mapping):
        return RolloutCorrection.from_dict(correction)
    raise ValueError(
        f"the rollout correction must be one of {', '.join(ROLLOUT_CORRECTIONS)}, a RolloutCorrection or a mapping of its "
        f"fields, not {correction!r}"
    )


_STATISTICS: dict[str, Callable[[Tensor, Tensor, RatioChannel], Tensor]] = {
    "token": lambda x, keep, channel: x,
    "sum": lambda x, keep, channel: x.sum(-1, keepdim=True),
    "mean": lambda x, keep, channel: gspo_mean(x, keep).unsqueeze(-1),
    "soft_rovr": lambda x, keep, channel: soft_rovr(x, keep, channel).unsqueeze(-1),
}
_TREATMENTS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "truncate": lambda rho, low, high: rho.clamp(low, high),
    "mask": lambda rho, low, high: torch.where((rho >= low) & (rho <= high), rho, 0.0),
    "reject": lambda rho, low, high: ((rho >= low) & (rho <= high)).to(rho.dtype),
}
