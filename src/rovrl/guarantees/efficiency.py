"""How much a clean sample loses: the outer factor, unequal blocks, the whole efficiency, insensitivity to the scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from rovrl.guarantees.premises import block_sizes, count, finite, positive

_NORMAL = NormalDist()
_STEEPEST_DENSITY = 1 / math.sqrt(2 * math.pi * math.e)  # sup |φ'|, reached at ±1


def grid_offsets(num_levels: int) -> list[float]:
    """Δ_1 ... Δ_K, the standard normal quantiles at τ_k = k/(K + 1) of eq:rovr."""
    from rovrl.robust.correction import quantile_grid  # brings torch

    return quantile_grid(count("num_levels", num_levels, 1)).offsets.tolist()


def density_sum(num_levels: int) -> float:
    """D_K = Σ_k φ(Δ_k), the slope of the composite score in eq:rovr."""
    from rovrl.robust.correction import quantile_grid  # brings torch

    return quantile_grid(count("num_levels", num_levels, 1)).density


def root_size_sum(sizes: Sequence[int]) -> float:
    """W_B = Σ_b √n_b, the denominator of eq:rovr for unequal blocks."""
    return math.fsum(math.sqrt(n) for n in block_sizes(sizes))


def outer_factor(num_levels: int) -> float:
    """V_K, the variance factor of the outer correction: eq:main_clean_efficiency, thm:main_clean_efficiency.

        V_K = Σ_{k,ℓ} [min(τ_k, τ_ℓ) − τ_k τ_ℓ] / D_K²,   V_1 = π/2 (the median),   V_K → π/3

    By thm:efficiency_transfer, √(Bn)(θ̂ − θ_ρ) → N(0, ν² V_K) for equal clean blocks (eq:efficiency_linearization is the
    expansion behind it); this holds under ass:transfer (locally normal block centers, a B^(-1/2) initializer, an
    o(B^(-1/4)) scale), not for tie-rich rewards.
    """
    K = count("num_levels", num_levels, 1)
    # τ_k is the smaller one of a pair 2(K − k) + 1 times, so the double sum is a single one.
    A_K = math.fsum(k * (2 * (K - k) + 1) for k in range(1, K + 1)) / (K + 1) - K**2 / 4
    return A_K / density_sum(K) ** 2


def effective_sample_size(sizes: Sequence[int]) -> float:
    """N_eff, the equal-block sample that is worth as much as these blocks: eq:effective_sample_size.

    N_eff = W_B² / B ≤ N,   with equality for equal blocks.
    """
    return root_size_sum(sizes) ** 2 / len(block_sizes(sizes))


def oracle_variance(scale: float, sizes: Sequence[int], num_levels: int) -> float:
    """Variance of the one-step correction at the true center and scale: prop:oracle_unequal_efficiency.

        Var θ̂_oracle = ν² V_K / N_eff   (eq:oracle_unequal_variance)

    Needs independent block centers that are exactly N(θ, ν²/n_b), and the oracle initializer θ and scale ν.
    """
    return (nu := positive("scale", scale)) * nu * outer_factor(num_levels) / effective_sample_size(sizes)


def mean_efficiency(standard_deviation: float, scale: float, num_levels: int) -> float:
    """Asymptotic efficiency of the reference relative to the sample mean: eq:total_are.

        ARE_mean = σ² / (ν² V_K)

    Needs a finite variance σ² and θ_ρ = μ, as for symmetric rewards; under asymmetry the two estimate different
    things and this is only a ratio of variances. ν is the sandwich scale √E ψ² / E ψ' of the local centers.
    """
    return (positive("standard_deviation", standard_deviation) / positive("scale", scale)) ** 2 / outer_factor(
        num_levels
    )


def composite_score(t: float, s: float, num_levels: int) -> float:
    """M_Φ(t, s), the expected composite score at shift t and relative scale s: prop:scale_orthogonality.

    M_Φ(t, s) = Σ_k {Φ(t + s Δ_k) − τ_k},   s > 0
    """
    t, s = finite("t", t), positive("s", s)
    grid = grid_offsets(num_levels)
    return math.fsum(_NORMAL.cdf(t + s * d) - k / (len(grid) + 1) for k, d in enumerate(grid, start=1))


@dataclass(frozen=True)
class Orthogonality:
    """Value and slopes of M_Φ at (0, 1), of eq:scale_orthogonality."""

    value: float
    shift_slope: float
    scale_slope: float


def scale_orthogonality(num_levels: int) -> Orthogonality:
    """M_Φ = 0, ∂_t M_Φ = D_K, ∂_s M_Φ = Σ_k Δ_k φ(Δ_k) = 0 at (t, s) = (0, 1): eq:scale_orthogonality.

    To first order an error in the scale does not move the reference (prop:scale_orthogonality).
    """
    scale_slope = math.fsum(d * _NORMAL.pdf(d) for d in grid_offsets(num_levels))
    return Orthogonality(composite_score(0.0, 1.0, num_levels), density_sum(num_levels), scale_slope)


def orthogonality_remainder(t: float, s: float, num_levels: int) -> float:
    """Bound on |M_Φ(t, s) − D_K t|: eq:orthogonal_expansion, with the constant of its O(t² + (s − 1)²) made explicit.

        |M_Φ(t, s) − D_K t| ≤ {K t² + (s − 1)² Σ_k Δ_k²} / (2 √(2πe))

    Taylor at each Δ_k with sup |φ'| = 1/√(2πe); the cross terms vanish because Σ_k Δ_k = 0.
    """
    t, s = finite("t", t), positive("s", s)
    grid = grid_offsets(num_levels)
    return (len(grid) * t**2 + (s - 1) ** 2 * math.fsum(d * d for d in grid)) * _STEEPEST_DENSITY / 2
