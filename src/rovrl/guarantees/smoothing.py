"""What the logistic step costs: its distance from the hard correction, and how fast the smooth map can move.

All of it is about S_γ, which keeps the hard centers, median and pooled scale and smooths only the indicator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from rovrl.guarantees.efficiency import density_sum, grid_offsets, root_size_sum
from rovrl.guarantees.premises import block_sizes, count, non_negative, numbers, positive


def smoothing_margin(centers: Iterable[float], sizes: Sequence[int], scale: float, num_levels: int) -> float:
    """m_*, the smallest nonzero distance of a block center from a threshold, of prop:smoothing; inf if all are ties.

    m_* = min{|u_bk| : u_bk ≠ 0},   u_bk = μ̃_b − μ̂₀ − ν̂ Δ_k/√n_b
    """
    T, sizes = numbers("centers", centers), block_sizes(sizes)
    if len(T) != len(sizes):
        raise ValueError(f"centers must be one per block ({len(sizes)}), not {len(T)}")
    nu, start = positive("scale", scale), median(T)
    grid = grid_offsets(num_levels)
    margins = [abs(m - start - nu * d / math.sqrt(n)) for m, n in zip(T, sizes, strict=True) for d in grid]
    return min((u for u in margins if u > 0), default=math.inf)


def smoothing(margin: float, temperature: float, scale: float, sizes: Sequence[int], num_levels: int) -> float:
    """Bound on |S_γ − RoVR| by the distance to the nearest threshold: prop:smoothing.

        |S_γ − RoVR| ≤ ν̂ B K/(D_K W_B) · exp(−m_*/γ)   (eq:smoothing_margin_bound)

    with m_* = `margin` of `smoothing_margin`; exact ties (u_bk = 0) cost nothing, and with nothing but ties (inf)
    this is 0. Needs both maps at the same centers, initializer and scale. If the hard map counts |u_bk| ≤ ε as ties,
    it needs ε ≤ γ log 2 as well, because H_γ is then still within e^(−ε/γ) of ½.
    """
    m = math.inf if margin == math.inf else non_negative("margin", margin)
    return _prefactor(positive("scale", scale), sizes, num_levels) * math.exp(-m / positive("temperature", temperature))


def expected_smoothing(
    density_bound: float, temperature: float, scale_cap: float, sizes: Sequence[int], num_levels: int
) -> float:
    """Bound on E|S_γ − RoVR| when no margin is likely to be small, the second statement of prop:smoothing.

        E|S_γ − RoVR| ≤ 2 ν_max B K L_z γ log 2 / (D_K W_B)

    Needs every margin u_bk to have no atoms except at 0 and a density of at most L_z = `density_bound`, and ν̂ ≤ ν_max.
    """
    gain = 2 * positive("density_bound", density_bound) * positive("temperature", temperature) * math.log(2)
    return _prefactor(positive("scale_cap", scale_cap), sizes, num_levels) * gain


def lipschitz(
    center_distance: float, scale_distance: float, *, n: int, num_levels: int, temperature: float, scale_cap: float
) -> float:
    """Bound on |S_γ(T, λ) − S_γ(T', λ')| on equal blocks of n: eq:rovr_lipschitz.

        ≤ d_T + K d_λ/(2√n D_K) + λ_max K/(4γ√n D_K) · (2 d_T + Δ_max d_λ/√n)

    with d_T = ‖T − T'‖_∞ between block centers and d_λ = |λ − λ'| between pooled scales. Needs 0 < λ, λ' ≤ λ_max =
    `scale_cap`. With `block_replacement` for d_T this holds for any token replacement; the 1/γ term is the price of a
    sharp step.
    """
    root_n, K = math.sqrt(count("n", n, 1)), count("num_levels", num_levels, 1)
    cap = positive("scale_cap", scale_cap)
    d_T = non_negative("center_distance", center_distance)
    d_lambda = non_negative("scale_distance", scale_distance, most=cap)
    per_level = K / (root_n * density_sum(K))
    residual = 2 * d_T + grid_offsets(K)[-1] * d_lambda / root_n
    return d_T + per_level * d_lambda / 2 + cap * per_level / (4 * positive("temperature", temperature)) * residual


def _prefactor(scale: float, sizes: Sequence[int], num_levels: int) -> float:
    """ν B K / (D_K W_B)."""
    sizes = block_sizes(sizes)
    return scale * len(sizes) * count("num_levels", num_levels, 1) / (density_sum(num_levels) * root_size_sum(sizes))
