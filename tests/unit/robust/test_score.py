"""Barron's family against mpmath: every shape, the special cases, and the places where a formula cancels."""

import math

import mpmath
import numpy as np
import pytest
import torch

from rovrl.robust.score import psi, psi_deriv, rho, sup_score

SHAPES = [2.0, 1.0, 0.5, 0.0, -2.0, -math.inf, 4.0, 1.5, -7.3]
NEAR = [1e-6, -1e-6, 1e-12, -1e-300, 2 - 1e-6, 2 + 1e-9, 1 + 1e-12, 1 - 1e-9, -1e6, -1e12]


def exact(u, c, shape):
    """rho, psi and psi' from Barron's closed form, in digits enough for a shape of 1e-300."""
    with mpmath.workdps(400):
        z2 = (mpmath.mpf(u) / mpmath.mpf(c)) ** 2
        u, c2 = mpmath.mpf(u), mpmath.mpf(c) ** 2
        if shape == 2:
            return z2 / 2, u / c2, 1 / c2
        if shape == -math.inf:
            e = mpmath.exp(-z2 / 2)
            return 1 - e, u / c2 * e, e * (1 - z2) / c2
        a = mpmath.mpf(shape)
        d = abs(a - 2)
        base = 1 + z2 / d
        loss = mpmath.log(base) if a == 0 else d / a * (base ** (a / 2) - 1)
        weight = base ** (a / 2 - 1)
        return loss, u / c2 * weight, weight / c2 * (1 + (a - 2) * (z2 / d) / base)


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (2.0, 1.125),
        (1.0, 0.80277563773199464656),
        (0.5, 0.77230028904880622495),
        (0.0, 0.753771802376380152),
        (-2.0, 0.72),
        (-math.inf, 0.6753475326416502702),
        (4.0, 1.7578125),
    ],
)
def test_the_loss_at_three_with_width_two_has_its_known_value(shape, value):
    assert rho(torch.tensor(3.0, dtype=torch.float64), 2.0, shape).item() == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("shape", SHAPES + NEAR)
@pytest.mark.parametrize("width", [0.01, 1.0, 2.0])
def test_loss_score_and_curvature_agree_with_mpmath(shape, width):
    u = torch.tensor([1e-9, 1e-3, 0.1, 1.0, -2.5, 30.0], dtype=torch.float64) * width
    ours = [f(u, width, shape).tolist() for f in (rho, psi, psi_deriv)]
    eps = np.finfo(np.float64).eps
    for k, point in enumerate(u.tolist()):
        z2 = (point / width) ** 2
        loss, score, curvature = (float(v) for v in exact(point, width, shape))
        # the exponent of (1 + v)^(shape / 2) is of size z^2 / 2 and rounded once: that is its relative error
        bound = (60 + 4 * z2) * eps
        assert abs(ours[0][k] - loss) <= bound * loss, point
        assert abs(ours[1][k] - score) <= bound * abs(score) + 1e-200, point
        # the curvature of a redescending score crosses zero: its error is relative to its two terms
        weight = abs(score / point) * (1 + z2)
        assert abs(ours[2][k] - curvature) <= bound * weight + 1e-200, point


@pytest.mark.parametrize("shape", SHAPES + NEAR)
def test_the_curvature_at_zero_is_one_over_the_width_squared_for_every_shape(shape):
    zero = torch.zeros((), dtype=torch.float64)
    assert psi_deriv(zero, 2.0, shape).item() == pytest.approx(0.25, rel=1e-14)
    assert psi(zero, 2.0, shape).item() == 0
    assert rho(zero, 2.0, shape).item() == 0


@pytest.mark.parametrize(("shape", "largest"), [(0.5, 0.759836), (0.0, 0.707107), (-2.0, 0.649519)])
def test_redescending_scores_peak_where_theory_says(shape, largest):
    """sup |c psi| = ((a-2)/(a-1))^((a-1)/2) for a < 1."""
    u = torch.linspace(0, 60, 600_001, dtype=torch.float64)
    for width in (0.5, 1.0):
        assert (width * psi(u * width, width, shape)).max().item() == pytest.approx(largest, abs=1e-6)
    assert largest == pytest.approx(((shape - 2) / (shape - 1)) ** ((shape - 1) / 2), abs=1e-6)


def test_the_convex_score_is_bounded_by_one_over_the_width_and_never_decreases():
    u = torch.cat(
        [torch.linspace(-1e3, 1e3, 100_001, dtype=torch.float64), torch.tensor([-1e300, 1e300], dtype=torch.float64)]
    )
    for width in (0.1, 1.0, 7.0):
        values = psi(u, width)
        assert values.abs().max() <= sup_score(width) * (1 + 1e-15)
        assert sup_score(width) == 1 / width
        assert (values[:-2].diff() >= 0).all()
        assert (psi_deriv(u, width) >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_score_are_finite_with_finite_gradients_over_a_huge_grid(shape, dtype):
    if shape > 1:  # rho grows like |u|^shape: finite where that is
        values = [0.0, 1e-30, 1e-3, 1.0, 1e3, 1e8]
    else:
        values = [0.0, 1e-30, 1e-3, 1.0, 1e3, 1e8, 1e18, 1e30]
    u = torch.tensor([s * v for v in values for s in (1, -1)], dtype=dtype, requires_grad=True)
    for f in (rho, psi, psi_deriv):
        value = f(u, 1.0, shape)
        assert torch.isfinite(value).all()
        if value.requires_grad:  # the curvature of shape 2 is a constant
            (grad,) = torch.autograd.grad(value.sum(), u)
            assert torch.isfinite(grad).all(), f.__name__


@pytest.mark.parametrize("shape", SHAPES + NEAR)
def test_psi_is_the_derivative_of_rho_and_psi_deriv_that_of_psi(shape):
    u = torch.linspace(-4, 4, 81, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(rho(u, 0.7, shape).sum(), u)
    torch.testing.assert_close(slope, psi(u, 0.7, shape).detach(), atol=1e-9, rtol=1e-6)
    (bend,) = torch.autograd.grad(psi(u, 0.7, shape).sum(), u)
    torch.testing.assert_close(bend, psi_deriv(u, 0.7, shape).detach(), atol=1e-8, rtol=1e-6)


def test_losses_are_even_scores_odd_and_only_the_ratio_to_the_width_matters():
    u = torch.linspace(0, 5, 51, dtype=torch.float64)
    for shape in SHAPES:
        assert torch.equal(rho(u, 1.3, shape), rho(-u, 1.3, shape))
        assert torch.equal(psi(u, 1.3, shape), -psi(-u, 1.3, shape))
        torch.testing.assert_close(rho(4 * u, 4.0, shape), rho(u, 1.0, shape), rtol=1e-14, atol=0)


@pytest.mark.parametrize("shape", [math.nan, math.inf])
def test_a_shape_outside_the_family_is_refused(shape):
    for f in (rho, psi, psi_deriv):
        with pytest.raises(ValueError, match="shape"):
            f(torch.zeros(2), 1.0, shape)
