"""Peers that change more than the weight: objectives per response, to be maximised. Gradient: autograd through log_ratios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.baselines import weights
from rovrl.weight import gspo_mean

SAPO_TEMPERATURES = (1.0, 1.05)
"""For positive and for other advantages: the paper's, and the defaults of TRL and verl."""
M2PO_LIMIT = 0.04

LogRatios = Float[Tensor, "seq token"]
Mask = Bool[Tensor, "seq token"]


def gmpo(log_ratios: LogRatios, advantages: Float[Tensor, " seq"], mask: Mask) -> Float[Tensor, " seq"]:
    """A exp(mean of one-sidedly clamped l), no outer clip (GMPO, arXiv 2507.20673).

    Weakness: that of its weight, and a response may move far as long as no single token does.
    """
    return advantages * weights.gmpo(log_ratios, mask, None, advantages).exp()


def sapo(log_ratios: LogRatios, advantages: Float[Tensor, " seq"], mask: Mask) -> Float[Tensor, " seq"]:
    """mean_t (4/τ) sigmoid(τ (r_t - 1)) A, a gate in place of the clip, τ by the sign of A (SAPO, arXiv 2511.20347).

    Weakness: a burst is damped token by token, so its tokens keep the value of the gate's end in the mean.
    """
    up, down = (torch.full_like(advantages, t) for t in SAPO_TEMPERATURES)
    tau = torch.where(advantages > 0, up, down).unsqueeze(-1)
    gate = torch.sigmoid(tau * (log_ratios.clamp(-20, 20).exp() - 1)) * 4 / tau
    return gspo_mean(gate * advantages.unsqueeze(-1), mask)


def m2po(log_ratios: LogRatios, advantages: Float[Tensor, " seq"], mask: Mask) -> Float[Tensor, " seq"]:
    """mean_t r_t A over the tokens that `m2po_mask` keeps, the others 0 (M2PO, arXiv 2510.01161).

    Weakness: one limit for the whole batch: many small movements crowd out the few tokens that carry a response.
    """
    keep = m2po_mask(log_ratios, advantages, mask)
    count = mask.sum(-1).clamp(min=1)
    return torch.where(keep, log_ratios.clamp(-20, 20).exp() * advantages.unsqueeze(-1), 0.0).sum(-1) / count


@torch.no_grad()
def m2po_mask(
    log_ratios: LogRatios, advantages: Float[Tensor, " seq"], mask: Mask, limit: float = M2PO_LIMIT
) -> Bool[Tensor, "seq token"]:
    """Which tokens of a batch M2PO keeps: the largest l² of those that move with their advantage go, until the mean l²
    of the rest of those is at most `limit`.

    Only {A > 0, r > 1} and {A < 0, r < 1} can go: the update pulls the others back.
    """
    with_advantage = (log_ratios * advantages.unsqueeze(-1) > 0) & mask
    square = log_ratios.double()[with_advantage] ** 2
    ordered, order = square.sort()
    mean = ordered.cumsum(0) / torch.arange(1, len(ordered) + 1, device=ordered.device)
    kept = int((mean <= limit).sum())  # the running mean of ascending numbers rises
    inside = torch.zeros_like(square, dtype=torch.bool)
    inside[order[:kept]] = True
    keep = mask.clone()
    keep[with_advantage] = inside
    return keep


OBJECTIVES: dict[str, Callable[..., Any]] = {f.__name__: f for f in (gmpo, sapo, m2po)}
"""The peers of the loss."""
