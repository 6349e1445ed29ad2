"""What reaches the update: sequence weight, clip branches, objective, gradient, leave-one-out and shaped directions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rovrl.guarantees.premises import count, error_radius, finite, non_negative, numbers, positive, probability


@dataclass(frozen=True)
class WeightError:
    """The observed weight over the ideal one lies in [low, high], and is within `relative` of 1."""

    low: float
    high: float
    relative: float


def weight_error(log_error: float) -> WeightError:
    """Interval of q̂/q* for log weights within `log_error`: eq:sequence_weight_relative_error.

        e^(−e_m) ≤ q̂/q* ≤ e^(e_m),   |q̂/q* − 1| ≤ e^(e_m) − 1

    Also the last statement of prop:main_softrovr_stability. Needs |m̂ − m*| ≤ e_m and nothing else.
    """
    e_m = error_radius("log_error", log_error)
    return WeightError(math.exp(-e_m), _exp(e_m), _exp(e_m) if e_m > 700 else math.expm1(e_m))


def burst_ratio(perturbations: Iterable[float], length: int) -> float:
    """q'/q, how a burst on some tokens multiplies GSPO's weight of a response of `length` tokens: eq:burst_ratio.

        q'/q = exp(T⁻¹ Σ_{t∈C} δ_t)

    Exact for the mean of token log-ratios. A weight q < u crosses the upper clip boundary once this exceeds u/q.
    """
    T = count("length", length, 1)
    shifts = numbers("perturbations", perturbations, least=0)
    if len(shifts) > T:
        raise ValueError(f"perturbations must be at most one per token ({T}), not {len(shifts)}")
    return _exp(math.fsum(shifts) / T)


def ratio_flips(
    log_weights: Iterable[float],
    log_errors: float | Iterable[float],
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> int:
    """The most clipping boundaries that can be crossed: prop:branch_flip_count.

        N_ratio-flip ≤ Σ_i 1{dist(m_i*, {log l, log u}) ≤ e_m,i},   l = 1 − ε_lo,  u = 1 + ε_hi   (eq:flip_count_bounds)

    for log weights m_i* known to within `log_errors`, one for all or one each. Rounding is on the side of counting.
    """
    m = numbers("log_weights", log_weights, least=0)
    bounds = (math.log1p(-probability("clip_low", clip_low)), math.log1p(positive("clip_high", clip_high)))
    errors = _errors("log_errors", log_errors, len(m))
    return sum(_reaches(min(abs(x - b) for b in bounds), e, x) for x, e in zip(m, errors, strict=True))


def sign_flips(
    rewards: Iterable[float], reference: float, reward_errors: float | Iterable[float], reference_error: float
) -> int:
    """The most advantage signs that can change: prop:branch_flip_count.

        N_sign-flip ≤ Σ_i 1{|R_i* − θ_R*| ≤ e_R,i + e_θ}   (eq:flip_count_bounds)

    for clean rewards R_i* about `reference` = θ_R*, with e_R,i = `reward_errors`, one for all or one each (0:
    unchanged). Rounding is on the side of counting.
    """
    R, theta = numbers("rewards", rewards, least=0), finite("reference", reference)
    e_theta = error_radius("reference_error", reference_error)
    errors = _errors("reward_errors", reward_errors, len(R))
    return sum(_reaches(abs(x - theta), e + e_theta, max(abs(x), abs(theta))) for x, e in zip(R, errors, strict=True))


@dataclass(frozen=True)
class FlipCounts:
    """The most clipping-boundary and advantage-sign flips (prop:branch_flip_count)."""

    ratio: int
    sign: int


def flip_counts(
    log_weights: Iterable[float],
    log_errors: float | Iterable[float],
    rewards: Iterable[float],
    reference: float,
    reward_errors: float | Iterable[float],
    reference_error: float,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> FlipCounts:
    """The most ratio flips and sign flips of a group: prop:branch_flip_count (`ratio_flips` and `sign_flips`)."""
    ratio = ratio_flips(log_weights, log_errors, clip_low, clip_high)
    return FlipCounts(ratio, sign_flips(rewards, reference, reward_errors, reference_error))


def policy_value(
    advantage_error: float,
    log_error: float,
    *,
    advantage_bound: float,
    log_weight_bound: float,
    weight_bound: float | None = None,
    clip_high: float = 4e-4,
) -> float:
    """Bound on |g(q̂, Â) − g(q*, A*)|, the change of a clipped objective term: prop:policy_stability.

        ≤ Q̄ e_A + A_max e^L e_m,   Q̄ = max{Q_max, u}   (eq:policy_value_stability)

    Needs |A*| ≤ A_max = `advantage_bound`, |m*|, |m̂| ≤ L = `log_weight_bound` and q*, q̂ ≤ Q_max = `weight_bound`
    (by default e^L, which always holds). No branch condition: values are continuous across clipping.
    """
    L = non_negative("log_weight_bound", log_weight_bound)
    Q = _exp(L) if weight_bound is None else positive("weight_bound", weight_bound)
    e_A, e_m = non_negative("advantage_error", advantage_error), non_negative("log_error", log_error)
    u = 1 + positive("clip_high", clip_high)
    return max(Q, u) * e_A + non_negative("advantage_bound", advantage_bound) * _exp(L) * e_m


def policy_gradient(
    advantage_error: float,
    log_error: float,
    jacobian_error: float,
    *,
    advantage_bound: float,
    log_weight_bound: float,
    jacobian_bound: float,
) -> float:
    """Bound on ‖∇g(q̂, Â) − ∇g(q*, A*)‖, the change of a term's gradient: prop:policy_stability.

        ≤ e^L {e_A (J_max + e_J) + A_max (e_J + J_max e_m)}   (eq:policy_gradient_stability)

    Needs both sides to have the same advantage sign and the same differentiable clipping branch (guaranteed when
    `ratio_flips` and `sign_flips` are 0), |A*| ≤ A_max, |m*|, |m̂| ≤ L, ‖∇m*‖ ≤ J_max and ‖∇m̂ − ∇m*‖ ≤ e_J =
    `jacobian_error`.
    """
    L = non_negative("log_weight_bound", log_weight_bound)
    A, J = non_negative("advantage_bound", advantage_bound), non_negative("jacobian_bound", jacobian_bound)
    e_A, e_J = non_negative("advantage_error", advantage_error), non_negative("jacobian_error", jacobian_error)
    return _exp(L) * (e_A * (J + e_J) + A * (e_J + J * non_negative("log_error", log_error)))


def crossfit_weight(
    scales: Tensor | Sequence[float] | Sequence[Sequence[float]], probabilities: Tensor | Sequence[float] | None = None
) -> float:
    """w(x), the factor that leave-one-out scales put on a prompt's gradient: thm:crossfit_baseline.

        w(x) = G⁻¹ Σ_i E[S_i⁻¹ | x],   E[G⁻¹ Σ_i ∇log π(Y_i) (R_i − B_i)/S_i] = w(x) ∇E[R]   (eq:loo_scaled_direction)

    `scales`: the S_i of one group, or one such row per outcome with its probability (None: all equal, as for draws, and
    then this is a Monte Carlo estimate). Needs every S_i > 0, and B_i, S_i computed without response i.
    """
    S = torch.as_tensor(scales, dtype=torch.float64)
    if S.numel() == 0 or not bool((S > 0).all() and S.isfinite().all()):
        raise ValueError(f"scales must be finite numbers above 0, at least one of them, not {scales!r}")
    inverse = S.reciprocal().mean(-1)
    if probabilities is None:
        return float(inverse.mean())
    weights = torch.as_tensor(probabilities, dtype=torch.float64)
    if weights.shape != inverse.shape or not bool((weights >= 0).all()) or abs(float(weights.sum()) - 1) > 1e-9:
        raise ValueError(f"probabilities must be one per row of scales and sum to 1, not {probabilities!r}")
    return float((weights * inverse).sum())


def gradient_distortion(weighted_third_moment: float, credit_bound: float, credit_floor: float) -> float:
    """Bound on the norm of what numerator shaping adds to the score direction: prop:credit_gradient_distortion.

        ‖E[∇log π(Y_i) (χ_κ(U_i) − U_i)/S_i]‖ ≤ E[‖∇log π(Y_i)‖ |U_i|³] / (2κ² s_min)   (eq:credit_gradient_distortion)

    with U_i = R_i − B_i and that expectation as `weighted_third_moment`. Needs a common leave-one-out scale
    S_i ≥ s_min; the change of scale from raw to mapped residuals is not covered.
    """
    kappa, s_min = positive("credit_bound", credit_bound), positive("credit_floor", credit_floor)
    return non_negative("weighted_third_moment", weighted_third_moment) / 2 / kappa / kappa / s_min


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _errors(name: str, errors: float | Iterable[float], length: int) -> list[float]:
    if not isinstance(errors, Iterable):
        return [error_radius(name, errors)] * length
    out = [error_radius(f"{name}[{i}]", e) for i, e in enumerate(errors)]
    if len(out) != length:
        raise ValueError(f"{name} must be one number or one per response ({length}), not {len(out)}")
    return out


def _reaches(distance: float, error: float, magnitude: float) -> bool:
    """distance ≤ error, with the few ulp by which the computed distance may exceed the true one."""
    return distance <= error + 4 * math.ulp(max(abs(magnitude), distance, 1e-3))


def scale_construction(residual: float, credit_scale: float, linear_scale: float, credit_bound: float) -> float:
    """Bound on |χ_κ(U)/S_χ − U/S_lin|, what bounding and the mapped scale change together: prop:credit_gradient_distortion.

        |χ_κ(U)/S_χ − U/S_lin| ≤ |χ_κ(U) − U|/S_χ + |U| |S_χ − S_lin|/(S_χ S_lin)

    The inequality below that proposition, for a residual U = `residual` and the two scales of its group. The first term
    is the numerator's shaping, the second the scale's construction, which the paper asks to be reported.
    """
    u, kappa = abs(finite("residual", residual)), positive("credit_bound", credit_bound)
    mapped, linear = positive("credit_scale", credit_scale), positive("linear_scale", linear_scale)
    shaped = kappa * (u / math.hypot(u, kappa))
    return (u - shaped) / mapped + u * abs(mapped - linear) / mapped / linear
