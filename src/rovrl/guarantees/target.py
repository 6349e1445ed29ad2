"""What the robust center aims at: how far from the mean under asymmetry, from the clean center under contamination."""

from __future__ import annotations

from rovrl.guarantees.premises import finite, non_negative, positive, probability


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
