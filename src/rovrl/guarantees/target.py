"""What the robust center aims at: how far from the mean under asymmetry, from the clean center under contamination."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from rovrl.guarantees.premises import finite, non_negative, numbers, positive, probability

Law = Iterable[float] | Callable[[float], float]
"""A law of rewards: equally likely points (a sample, say), or a quantile function on (0, 1)."""
NODES = 400
"""Points of the Gauss-Legendre rule that stand for a law given by its quantile function."""


def m_functional(law: Law, score_width: float, weights: Iterable[float] | None = None) -> float:
    """θ_ρ(P), what the robust center aims at: eq:m_functional.

        E_P ψ_c(X − θ_ρ) = 0

    `law` is equally likely points, points with `weights`, or a quantile function such as `scipy.stats.expon.ppf`. The center
    of a symmetric law; for a sample its M-center eq:block_m.
    """
    x, w = _points(law, weights)
    c = positive("score_width", score_width)
    low, high = float(x.min()), float(x.max())
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if _mean_score(x, w, middle, c) > 0 else (low, middle)
    return low if abs(_mean_score(x, w, low, c)) <= abs(_mean_score(x, w, high, c)) else high


def separation(law: Law, t: float, score_width: float, weights: Iterable[float] | None = None) -> float:
    """The a that holds for `law` up to r₀ = t, for the tails of eq:block_mixed_tail: the least slope on a grid of 200 points.

        a = min_{0 < u ≤ t} min{−g(θ_ρ + u), g(θ_ρ − u)}/u,   g(v) = E_P ψ_c(X − v)

    Declare it from what is known of the rewards, not from the batch that the bound is about.
    """
    x, w = _points(law, weights)
    t, c = positive("t", t), positive("score_width", score_width)
    theta = m_functional(law, c, weights)
    steps = np.linspace(t / 200, t, 200)
    return min(min(-_mean_score(x, w, theta + u, c), _mean_score(x, w, theta - u, c)) / u for u in steps.tolist())


def _points(law: Law, weights: Iterable[float] | None) -> tuple[np.ndarray, np.ndarray]:
    """The law as points and their probabilities."""
    if callable(law):
        if weights is not None:
            raise ValueError("weights must be left out for a quantile function, not given")
        nodes, share = _rule()
        return np.array([finite("law", law(u)) for u in nodes.tolist()]), share
    x = np.array(numbers("law", law))
    w = np.ones(len(x)) if weights is None else np.array(numbers("weights", weights))
    if len(w) != len(x) or w.min() < 0 or w.sum() <= 0:
        raise ValueError(f"weights must be one number of at least 0 per point ({len(x)}), not all 0, not {w.tolist()}")
    return x, w / w.sum()


@lru_cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on (0, 1)."""
    nodes, share = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, share / 2


def _mean_score(x: np.ndarray, w: np.ndarray, at: float, c: float) -> float:
    """g(at) = E ψ_c(X − at)."""
    z = (x - at) / c
    return float((w * (z / np.hypot(1.0, z))).sum()) / c


def functional_bias(score_at_mean: float, curvature: float) -> float:
    """Bound on |θ_ρ − μ|, the M-functional's distance from the mean: prop:asymmetric_bias.

        |θ_ρ − μ| ≤ |E ψ_c(X − μ)| / a₀   (eq:asymmetric_functional_bias)

    with `score_at_mean` = E ψ_c(X − μ). Needs a finite mean and E ψ_c'(X − u) ≥ a₀ = `curvature` for all u between μ
    and θ_ρ (eq:m_functional defines θ_ρ).
    """
    return abs(finite("score_at_mean", score_at_mean)) / positive("curvature", curvature)


def third_moment_bias(third_moment: float, curvature: float, score_width: float) -> float:
    """Bound on |θ_ρ − μ| from the third absolute moment: prop:asymmetric_bias.

        |θ_ρ − μ| ≤ E|X − μ|³ / (2 ā₀ c²)   (eq:third_moment_bias)

    Needs a finite third moment and the dimensionless curvature E[(1 + (X − u)²/c²)^(-3/2)] ≥ ā₀ for all u between μ and
    θ_ρ, so 0 < ā₀ ≤ 1.
    """
    moment = non_negative("third_moment", third_moment)
    c = positive("score_width", score_width)
    return moment / (2 * positive("curvature", curvature, most=1.0)) / c / c


def contamination_bias(fraction: float, curvature: float, score_width: float) -> float:
    """Bound on |θ_ρ(P_ε) − μ₀| for P_ε = (1 − ε)P₀ + εQ with any Q: prop:population_contamination.

        |θ_ρ(P_ε) − μ₀| ≤ ε M_c / ((1 − ε) a₀)   (eq:population_contamination_bias)

    Needs P₀ symmetric about μ₀ and |E_{P₀} ψ_c(X − t)| ≥ a₀ |t − μ₀| for all t between μ₀ and θ_ρ(P_ε), so a₀ ≤ 1/c²;
    0 ≤ ε < 1.
    """
    eps, c = probability("fraction", fraction, zero=True), positive("score_width", score_width)
    return eps / ((1 - eps) * positive("curvature", curvature, most=1 / c / c) * c)
