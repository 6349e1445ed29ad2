"""How far bounded credit can be moved, and what the bound costs on clean rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rovrl.guarantees.premises import block_budgets, block_sizes, count, error_radius, finite, non_negative, positive
from rovrl.guarantees.reference import correction_envelope, reference_failure


def credit_bound(credit_bound: float, credit_floor: float, group: int) -> float:
    """Largest magnitude of any credit advantage, whatever the rewards: eq:credit_global_bound.

    |Â_i| ≤ min{κ/s_min, √G}
    """
    leverage = positive("credit_bound", credit_bound) / positive("credit_floor", credit_floor)
    return min(leverage, math.sqrt(count("group", group, 1)))


def credit_scale_stability(
    reference_error: float, replaced: int, group: int, credit_bound: float, credit_floor: float
) -> float:
    """Bound on e_s = |ŝ_χ − s_χ*|, the change of the credit's scale: eq:credit_scale_stability.

        e_s ≤ (r κ²/G + 2κ e_θ) / (2 s_min)

    Needs at most r = `replaced` rewards to differ and references within e_θ = `reference_error` of each other.
    """
    kappa, s_min = positive("credit_bound", credit_bound), positive("credit_floor", credit_floor)
    G = count("group", group, 1)
    r, e_theta = count("replaced", replaced, 0, G), error_radius("reference_error", reference_error)
    return (r * kappa / G + 2 * e_theta) * (kappa / (2 * s_min))


def credit_stability(
    reward_error: float, reference_error: float, replaced: int, group: int, credit_bound: float, credit_floor: float
) -> float:
    """Bound on |Â_i − A_i*|, the change of one credit advantage: prop:credit_stability.

        |Â_i − A_i*| ≤ min{e_R,i + e_θ, 2κ}/s_min + κ e_s/s_min²   (eq:credit_stability)

    with e_s of `credit_scale_stability`, for the response whose own reward changed by e_R,i = `reward_error`: 0 for an
    unchanged one; inf is allowed, since the bound does not depend on the magnitude of a replaced reward. Needs at most
    r = `replaced` rewards to differ, references within e_θ = `reference_error`, the same κ and s_min on both sides. An
    unchanged response keeps its sign if |R_i − θ_R*| > e_θ (`sign_flips`).
    """
    e_s = credit_scale_stability(reference_error, replaced, group, credit_bound, credit_floor)
    kappa, s_min = float(credit_bound), float(credit_floor)
    d_chi = min(error_radius("reward_error", reward_error) + float(reference_error), 2 * kappa)
    return d_chi / s_min + kappa / s_min * (e_s / s_min)


@dataclass(frozen=True)
class FiniteCredit:
    """The credit of every response is within `bound` except with probability `failure` (cor:finite_credit)."""

    bound: float
    failure: float


def finite_credit(
    t: float,
    sizes: Sequence[int],
    replaced: int | Sequence[int],
    arbitrary: int,
    a: float,
    score_width: float,
    *,
    num_levels: int,
    scale_cap: float,
    credit_bound: float,
    credit_floor: float,
    reward_error: float = math.inf,
    differing: int | None = None,
    correction: float | None = None,
    radius: float | None = None,
) -> FiniteCredit:
    """Bound on |Â_i − A_i^{θ,*}| for all responses at once, with its failure probability: cor:finite_credit.

        |Â_i − A_i^{θ,*}| ≤ min{e_R,i + e_θ(t), 2κ}/s_min + κ ē_s(t)/s_min²,   e_θ(t) = t + C_B

    with probability at least 1 − β_H(t) (eq:finite_credit_bound; eq:main_credit_stability in thm:main_finite_credit):
    `credit_stability` composed with `reference_failure`. A^{θ,*} is the credit of the clean precursor about the
    population reference θ. `differing` is r, by default all that the budgets allow; `correction` replaces C_B by an
    observed |θ̂_RoVR − μ̂₀| ≤ C_B; the default `reward_error` covers a replaced response. Needs what both parts need.
    """
    sizes = block_sizes(sizes)
    failure = reference_failure(t, sizes, replaced, arbitrary, a, score_width, radius=radius)
    envelope = correction_envelope(sizes, num_levels, scale_cap)
    C = envelope if correction is None else non_negative("correction", correction, most=envelope)
    r = _most_differing(sizes, block_budgets(replaced, sizes), arbitrary) if differing is None else differing
    return FiniteCredit(credit_stability(reward_error, t + C, r, sum(sizes), credit_bound, credit_floor), failure)


def _most_differing(sizes: tuple[int, ...], budgets: tuple[int, ...], arbitrary: int) -> int:
    """Coordinates that can differ: everything in the q blocks where that is most, and s_b elsewhere."""
    gains = sorted((n - s for n, s in zip(sizes, budgets, strict=True)), reverse=True)
    return sum(budgets) + sum(gains[:arbitrary])


def credit_fidelity(residual: float, credit_bound: float) -> float:
    """Bound on |χ_κ(u) − u|, what the bounded map takes from a residual: eq:credit_clean_fidelity.

    |χ_κ(u) − u| ≤ |u|³ / (2κ²)
    """
    u = abs(finite("residual", residual))
    relative = u / positive("credit_bound", credit_bound)
    return u * relative * relative / 2


def contrast_retention(reward_gap: float, residual: float, credit_bound: float, credit_floor: float) -> float:
    """Least |Â_i − Â_j| between two clean responses: eq:credit_contrast_retention.

        |Â_i − Â_j| ≥ (1 + M²/κ²)^(-3/2) / √(s_min² + κ²) · |R_i − R_j|

    Needs both residuals in [−M, M], M = `residual`, so |R_i − R_j| = `reward_gap` ≤ 2M; the rest of the group is
    arbitrary.
    """
    kappa, s_min = positive("credit_bound", credit_bound), positive("credit_floor", credit_floor)
    M = non_negative("residual", residual)
    gap = non_negative("reward_gap", reward_gap, most=2 * M)
    return gap / math.hypot(1, M / kappa) ** 3 / math.hypot(s_min, kappa)
