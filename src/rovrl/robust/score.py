"""Barron's family of losses: rho, its score psi, and psi's derivative, for every shape (app:implementation).

The method uses shape 1 alone (eq:convex_score): convex, one root, bounded score sup|psi| = 1/score_width.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def psi(u: Float[Tensor, "*n"], score_width: float | Tensor = 1.0, shape: float = 1.0) -> Float[Tensor, "*n"]:
    """The score ψ_c(u) = ρ_c'(u), eq:convex_score.

    α = 1:      ψ_c(u) = (u/c²)·(1 + u²/c²)^(-1/2),   |ψ_c| ≤ 1/c
    otherwise:  ψ(u)   = (u/c²)·(1 + (u/c)²/|α-2|)^(α/2-1),  with the limits α = 2 and α = -∞

    Finite for every finite u. Gradient: autograd.
    """
    if shape == 1:
        return u / _hypot(u, score_width) / score_width
    return u / score_width / score_width * _irls_weight(u / score_width, _checked(shape))


def psi_deriv(u: Float[Tensor, "*n"], score_width: float | Tensor = 1.0, shape: float = 1.0) -> Float[Tensor, "*n"]:
    """The curvature ψ_c'(u), eq:convex_score.

    α = 1:      ψ_c'(u) = (1/c²)·(1 + u²/c²)^(-3/2)
    otherwise:  ψ'(u)   = (w/c²)·{1 + (α-1)v}/(1+v),  w = (1+v)^(α/2-1),  v = (u/c)²/|α-2|

    Negative where a redescending score (α < 1) bends back. Gradient: autograd.
    """
    if shape == 1:
        return (score_width / _hypot(u, score_width)) ** 3 / score_width / score_width
    z, alpha = u / score_width, _checked(shape)
    weight = _irls_weight(z, alpha) / score_width / score_width
    if alpha == 2:
        return weight
    if alpha == -math.inf:
        z = z.clamp(-100, 100)  # the weight is 0 long before that, and 0·∞ would be NaN
        return weight * (1 - z * z)
    root = z / math.sqrt(abs(alpha - 2))  # √v
    cosine, sine = (
        1 / _hypot(root, 1.0),
        root / _hypot(root, 1.0),
    )  # squares: 1/(1+v) and v/(1+v), neither by subtraction
    return weight * (cosine * cosine + (alpha - 1) * sine * sine)


def rho(u: Float[Tensor, "*n"], score_width: float | Tensor = 1.0, shape: float = 1.0) -> Float[Tensor, "*n"]:
    """The loss ρ(u; α, c) of app:implementation; ρ_c(u) = √(1 + (u/c)²) - 1 at the default shape 1, eq:convex_score.

    α = 2: ½(u/c)²    α = 0: log(1 + ½(u/c)²)    α = -∞: 1 - exp(-½(u/c)²)
    otherwise: (|α-2|/α)·[(1 + (u/c)²/|α-2|)^(α/2) - 1]

    Evaluated as |α-2|·(L/2)·expm1(y)/y with L = log(1 + v), y = αL/2, so that nothing cancels near α = 0 or at small u.
    Gradient: autograd.
    """
    z, alpha = u / score_width, _checked(shape)
    if alpha == 2:
        return 0.5 * z * z
    if alpha == -math.inf:
        return -torch.expm1(-0.5 * z * z)
    if alpha == 1:
        root = _hypot(z, 1.0)
        return z * (z / (root + 1))  # √(1+z²) - 1 without cancellation at small z
    b = abs(alpha - 2)
    log = log1p_square(z / math.sqrt(b))
    y = 0.5 * alpha * log
    return 0.5 * b * log * _expm1_over(y)


def scaled_residuals(
    x: Float[Tensor, "*batch n"],
    center: Float[Tensor, "*batch"],
    score_width: float | Float[Tensor, "*#batch"],
    mask: Bool[Tensor, "*#batch n"] | None = None,
) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch n"]]:
    """r = (x_i - u)/c and w = (1 + r²)^(-1/2), from which cψ = rw, c²ψ' = w³ and c³ψ'' = -3rw⁵ follow (eq:convex_score).

    Entries that the mask leaves out are taken as 0. r is cut off at ±max^0.3: |cψ| is 1 to the last bit from far below it, r²
    does not overflow, and w³ stays above 0, so a sum of slopes is a safe divisor. Gradient: autograd.
    """
    far = torch.finfo(x.dtype).max ** 0.3
    kept = x if mask is None else torch.where(mask, x, 0.0)
    width = score_width.unsqueeze(-1) if isinstance(score_width, Tensor) else score_width
    r = ((kept - center.unsqueeze(-1)) / width).clamp(-far, far)
    return r, torch.rsqrt(1 + r * r)


def log1p_square(z: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """log(1 + z²), accurate for tiny z and finite for huge z. Gradient: autograd."""
    large = z.abs() > 1e8  # 1 is below the rounding of z² from here on, in float64 too
    safe = torch.where(large, 1.0, z)
    return torch.where(large, 2 * torch.log(z.abs().clamp(min=1.0)), torch.log1p(safe * safe))


def sup_score(score_width: float = 1.0) -> float:
    """M_c = sup|ψ_c| = 1/c, the bound of the convex score (eq:convex_score)."""
    return 1.0 / score_width


def _checked(shape: float) -> float:
    alpha = float(shape)
    if math.isnan(alpha) or alpha == math.inf:
        raise ValueError(f"shape must be a number below infinity (or -inf), not {shape!r}")
    return alpha


def _irls_weight(z: Tensor, alpha: float) -> Tensor:
    """c²·ψ(u)/u = (1 + z²/|α-2|)^(α/2-1); 1 at z = 0 for every shape."""
    if alpha == 2:
        return torch.ones_like(z)
    if alpha == -math.inf:
        return torch.exp(-0.5 * z * z)
    return torch.exp((0.5 * alpha - 1) * log1p_square(z / math.sqrt(abs(alpha - 2))))


def _hypot(u: Tensor, width: float | Tensor) -> Tensor:
    """√(u² + width²) without overflow."""
    return torch.hypot(u, torch.as_tensor(width, dtype=u.dtype, device=u.device))


def _expm1_over(y: Tensor) -> Tensor:
    """(e^y - 1)/y with its limit 1 at 0."""
    zero = y == 0
    return torch.where(zero, 1.0, torch.expm1(y) / torch.where(zero, 1.0, y))
