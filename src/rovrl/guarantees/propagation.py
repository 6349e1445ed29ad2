"""How one reward reaches everybody: mean-RMS advantages, and why a robust center alone does not help."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rovrl.guarantees.premises import count, finite, non_negative, numbers, positive


@dataclass(frozen=True)
class Spike:
    """A group of mean-RMS advantages after one reward moved (prop:grpo_broadcast)."""

    mean: float
    scale: float
    advantages: tuple[float, ...]


@dataclass(frozen=True)
class SpikeLimit:
    """Where the advantages go as one reward goes to +∞ (prop:grpo_broadcast); for −∞ both change sign."""

    focal: float
    clean: float


def grpo_spike(rewards: Iterable[float], index: int, delta: float, floor: float = 0.0) -> Spike:
    """Mean, scale and advantages after `delta` is added to one reward, exactly: eq:grpo_spike_exact.

        R̄_Δ = R̄ + Δ/G,   s_Δ² = s_R² + 2Δ(R_j − R̄)/G + (G − 1)Δ²/G²,   A_i = (R_i + Δ 1{i=j} − R̄_Δ) / s_Δ

    with `floor` = ε_s inside s_R². Needs G ≥ 2 and s_Δ > 0. s_Δ is evaluated as the completed square ε_s + Σ_{i≠j}
    (R_i − m)²/G + (G − 1)(R_j + Δ − m)²/G², m the mean of the others, which neither cancels nor overflows.
    """
    R = numbers("rewards", rewards, least=2)
    G = len(R)
    j = count("index", index, 0, G - 1)
    delta, floor = finite("delta", delta), non_negative("floor", floor)
    others = [r for i, r in enumerate(R) if i != j]
    m = math.fsum(r / (G - 1) for r in others)
    gap = R[j] + delta - m
    residuals = [gap if i == j else r - m for i, r in enumerate(R)]  # about m; the mean is m + gap / G
    scale = math.hypot(math.sqrt(floor), gap * math.sqrt(G - 1) / G, *((r - m) / math.sqrt(G) for r in others))
    if scale == 0:
        raise ValueError(f"floor must be above 0 when delta = {delta!r} makes all rewards equal, not {floor!r}")
    return Spike(m + gap / G, scale, tuple((r - gap / G) / scale for r in residuals))


def grpo_bound(group: int) -> float:
    """√(G − 1), which no mean-RMS advantage exceeds in magnitude: prop:grpo_broadcast. Needs G ≥ 2."""
    return math.sqrt(count("group", group, 2) - 1)


def grpo_limit(group: int) -> SpikeLimit:
    """Limits of mean-RMS advantages as one reward grows without bound: eq:grpo_broadcast_limit.

        A_j → sign(Δ) √(G − 1),   A_i → −sign(Δ) / √(G − 1)  (i ≠ j)

    All clean responses share one limit, so their contrast is erased (prop:grpo_broadcast). Needs G ≥ 2.
    """
    return SpikeLimit(focal=grpo_bound(group), clean=-1 / grpo_bound(group))


def center_only_limit(group: int) -> SpikeLimit:
    """Limits of raw residuals over their RMS about a center that stays bounded: prop:center_only_impossibility.

    d_Δ ∼ |Δ|/√G,   C_j → sign(Δ) √G,   C_i → 0  (i ≠ j)
    """
    return SpikeLimit(focal=math.sqrt(count("group", group, 1)), clean=0.0)


def center_only_clean_bound(spike: float, residual: float, focal_bound: float) -> float:
    """Largest clean credit left if the focal credit is to stay within `focal_bound`: prop:center_only_impossibility.

        |C_j| ≤ L  implies  d_Δ ≥ (|Δ| − ρ)/L,  hence  |C_i| ≤ L ρ / (|Δ| − ρ) → 0  for every clean i

    for raw residuals with a shared scale d_Δ > 0, where ρ = `residual` bounds every |R_i − m_Δ| before the spike is
    added (the center m_Δ stays bounded). Needs |Δ| > ρ.
    """
    rho, L = non_negative("residual", residual), positive("focal_bound", focal_bound)
    delta = abs(finite("spike", spike))
    if delta <= rho:
        raise ValueError(f"spike must exceed residual = {rho!r} in magnitude, not {spike!r}")
    return L * rho / (delta - rho)
