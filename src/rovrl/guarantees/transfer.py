"""Do clean groups look as the limit law of the reference assumes? A diagnostic, not a bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.robust.blocks import Blocks
from rovrl.robust.centers import sandwich_scale
from rovrl.robust.correction import mid_indicator, quantile_grid
from rovrl.robust.solve import m_root

MANY_ERRORS = 4.0
"""A gap of this many standard errors is not chance."""


@dataclass(frozen=True)
class TransferDiagnostic:
    """What can be seen of ass:transfer in groups; its rates in B cannot, so that nothing here proves that it holds."""

    groups: int
    """Groups that were used: those whose rewards have a scale."""
    level_gap: float
    """The largest |F̂(Δ_k) − τ_k| over the levels, (T5) and (T3) at the center: 0 for normal block centers."""
    level_error: float
    """Its standard error; groups are taken as independent."""
    covariance_gap: float
    """The largest difference of the indicators' covariance from min(τ_k, τ_l) − τ_k τ_l, (T5)."""
    ties: float
    """Share of blocks whose center is that of another block of the group: atoms, which (T5) excludes."""
    scale_error: float
    """Median over groups of |ν̂/ν̂_group − 1|, the pooled scale of the blocks over that of the whole group, (T2)."""

    @property
    def doubtful(self) -> bool:
        """Whether the levels are missed by more than chance, or one block in a hundred ties with another."""
        return self.level_gap > MANY_ERRORS * self.level_error or self.ties > 0.01


@torch.no_grad()
def transfer_diagnostic(
    rewards: Float[Tensor, "groups group"],
    blocks: Blocks,
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
) -> TransferDiagnostic:
    """What clean groups show of ass:transfer, the premises under which the reference has variance ν² V_K/N.

        Z_b = (μ̃_b − θ̂) / (ν̂ (1/n_b − 1/N)^½),   F̂(Δ_k) = mean J_0(Z_b − Δ_k),   to be compared with τ_k

    θ̂ and ν̂ are center and sandwich scale of the whole group, N its size; to first order θ̂ is the mean of the blocks'
    centers weighted by n_b, hence 1/N. Groups without a scale are left out. Small blocks, skewness and ties show in the
    gap; that it is 0 within its error is necessary for the theorem, not sufficient.
    """
    x = torch.as_tensor(rewards).double()
    if x.ndim != 2 or x.shape[-1] != blocks.n or len(blocks.sizes) < 2 or not bool(x.isfinite().all()):
        raise ValueError(
            f"rewards must be finite and [groups, {blocks.n}], for two or more blocks, not of shape {tuple(x.shape)} for "
            f"{len(blocks.sizes)}"
        )
    c, every = channel.score_width, torch.ones_like(x, dtype=torch.bool)
    whole = m_root(x, c, every)
    scale = sandwich_scale(x, whole, c, every, channel.curvature_floor)
    used = scale > channel.scale_floor
    if int(used.sum()) < 2:
        raise ValueError(f"rewards must hold two or more groups that are not constant, not {int(used.sum())}")
    x, whole, scale = x[used], whole[used], scale[used]
    values, mask = blocks.gather(x)
    mask = mask.expand(values.shape)
    centers = m_root(values, c, mask)
    local = sandwich_scale(values, centers, c, mask, channel.curvature_floor)
    sizes = torch.tensor(blocks.sizes, dtype=x.dtype)
    spread = scale.unsqueeze(-1) * (1 / sizes - 1 / blocks.n).sqrt()
    grid = quantile_grid(channel.num_levels)
    below = mid_indicator(
        ((centers - whole.unsqueeze(-1)) / spread).unsqueeze(-1) - grid.offsets
    )  # [group, block, level]
    by_group = below.mean(1)
    gaps = (by_group.mean(0) - grid.levels).abs()
    expected = torch.minimum(grid.levels.unsqueeze(0), grid.levels.unsqueeze(1)) - torch.outer(grid.levels, grid.levels)
    apart = (centers.unsqueeze(-1) - centers.unsqueeze(-2)).abs() > channel.tie_tolerance * scale[:, None, None]
    return TransferDiagnostic(
        groups=len(x),
        level_gap=float(gaps.max()),
        level_error=float((by_group.std(0) / len(x) ** 0.5)[gaps.argmax()]),
        covariance_gap=float((torch.cov(below.flatten(0, 1).T).reshape(expected.shape) - expected).abs().max()),
        ties=float(((~apart).sum(-1) > 1).double().mean()),
        scale_error=float((local.quantile(0.5, -1) / scale - 1).abs().median()),
    )
