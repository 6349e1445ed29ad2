"""The peers of the ratio channel: log sequence weights from token log-ratios. Gradient: autograd, all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.centers import as_working
from rovrl.robust.solve import masked_median
from rovrl.weight import gspo_mean

GMPO_RANGE = 0.4
TRIMMED_SHARE = 0.1

LogRatios = Float[Tensor, "*seq token"]
Mask = Bool[Tensor, "*seq token"] | None
LogWeights = Float[Tensor, "*seq"]


def gspo(log_ratios: LogRatios, mask: Mask = None, channel: Any = None, advantages: Any = None) -> LogWeights:
    """The mean token log-ratio (GSPO, arXiv 2507.18071). Weakness: one burst moves it by its size over T."""
    return gspo_mean(log_ratios, mask)


def gmpo(log_ratios: LogRatios, mask: Mask = None, channel: Any = None, advantages: Any = None) -> LogWeights:
    """The mean of token log-ratios clamped at 0.4 where the advantage pushes (GMPO, arXiv 2507.20673; TRL, verl).

    min(l, 0.4) for A > 0, max(l, -0.4) else; without `advantages` both sides are clamped. There is no outer clip: a
    trainer must open its own (`rovrl_paper.lab.methods` does). Weakness: the range knows nothing of the data.
    """
    x = as_working(log_ratios)
    if advantages is None:
        return gspo_mean(x.clamp(-GMPO_RANGE, GMPO_RANGE), mask)
    up = (advantages > 0).unsqueeze(-1)
    return gspo_mean(torch.where(up, x.clamp(max=GMPO_RANGE), x.clamp(min=-GMPO_RANGE)), mask)


def trimmed(log_ratios: LogRatios, mask: Mask = None, channel: Any = None, advantages: Any = None) -> LogWeights:
    """The mean without the largest and the smallest tenth of the tokens. Weakness: where few tokens move, those are cut."""
    x = as_working(log_ratios)
    keep = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.bool()
    count = keep.sum(-1, keepdim=True)
    cut = (TRIMMED_SHARE * count).floor().long()
    rank = torch.where(keep, x.detach(), torch.inf).sort(stable=True, dim=-1).indices.argsort(-1)
    return gspo_mean(x, keep & (rank >= cut) & (rank < count - cut))


def median(log_ratios: LogRatios, mask: Mask = None, channel: Any = None, advantages: Any = None) -> LogWeights:
    """The median token log-ratio. Weakness: one or two tokens carry the whole gradient, most often tokens that do not move."""
    x = as_working(log_ratios)
    keep = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.bool()
    return torch.where(keep.any(-1), masked_median(torch.where(keep, x, 0.0), keep), 0.0)


WEIGHTS: dict[str, Callable[..., Tensor]] = {f.__name__: f for f in (gspo, gmpo, trimmed, median)}
"""The peers of the ratio channel."""
