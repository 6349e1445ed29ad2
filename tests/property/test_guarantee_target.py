"""prop:asymmetric_bias and prop:population_contamination on discrete laws, whose functionals are M-centers with repetition."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from rovrl import guarantees as g
from rovrl import m_center
from rovrl.robust.score import psi, psi_deriv

values_ = st.lists(st.floats(-20, 20), min_size=2, max_size=30)
widths_ = st.sampled_from([0.2, 1.0, 4.0])


def functional(x: np.ndarray, weights: np.ndarray, c: float) -> float:
    """θ_ρ of a discrete law, by bisection of its decreasing score."""
    low, high = x.min(), x.max()
    for _ in range(200):
        middle = (low + high) / 2
        z = (x - middle) / c
        low, high = (middle, high) if (weights * z / np.hypot(1, z)).sum() > 0 else (low, middle)
    return float((low + high) / 2)


def least(curvature, low: float, high: float, mesh_error: float) -> float:
    """A lower bound of a function between two points: a fine grid less what it can miss."""
    grid = torch.linspace(min(low, high), max(low, high), 2001, dtype=torch.float64)
    return float(curvature(grid).min()) - abs(high - low) / 4000 * mesh_error


@given(values_, widths_)
def test_no_sample_is_further_from_its_mean_than_either_bias_bound(values, c):
    x = torch.tensor(values, dtype=torch.float64)
    mean, theta = float(x.mean()), float(m_center(x, c))
    a0 = least(lambda u: psi_deriv(x - u[:, None], c).mean(-1), mean, theta, 0.86 / c**3)
    assume(a0 > 1e-6)
    score = float(psi(x - mean, c).mean())
    third = float(((x - mean).abs() ** 3).mean())
    rounding = 1e-13 * (1 + abs(mean)) / (a0 * c)  # the score of the mean is known to a rounding
    assert abs(theta - mean) <= g.functional_bias(score, a0) * (1 + 1e-9) + rounding
    assert abs(theta - mean) <= g.third_moment_bias(third, a0 * c**2, c) * (1 + 1e-9) + rounding


def test_both_bias_bounds_are_nearly_attained_by_a_narrow_skewed_law():
    """A rare value at 0.2 c: the curvature is nearly flat, and 1 - (1 + x)^(-1/2) is nearly x/2."""
    x = torch.tensor([0.0] * 999 + [0.2], dtype=torch.float64)
    mean, theta = float(x.mean()), float(m_center(x))
    a0 = least(lambda u: psi_deriv(x - u[:, None]).mean(-1), mean, theta, 0.86)
    third = float(((x - mean).abs() ** 3).mean())
    moved = abs(theta - mean)
    assert 0.98 * g.functional_bias(float(psi(x - mean).mean()), a0) <= moved
    assert 0.95 * g.third_moment_bias(third, a0, 1.0) <= moved <= g.third_moment_bias(third, a0, 1.0)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12), st.floats(0.01, 0.45), st.floats(-1e9, 1e9), widths_)
def test_no_contamination_moves_a_symmetric_center_past_its_bound(half, eps, outlier, c):
    clean = np.array([*half, *(-v for v in half)])
    x, weights = np.append(clean, outlier), np.append(np.full(len(clean), (1 - eps) / len(clean)), eps)
    theta = functional(x, weights, c)
    assume(abs(theta) > 1e-9)

    grid = torch.linspace(theta / 2000, theta, 2000, dtype=torch.float64)
    score = psi(torch.from_numpy(clean) - grid[:, None], c).mean(-1).abs()
    # |E ψ(X - t)| grows with |t|, so between grid points it is at least its value at the nearer one; below the first
    # point, the ratio to |t| cannot differ from its value there by more than sup|ψ''| times that point
    between, first = score[:-1] / grid[1:].abs(), float(score[0] / grid[0].abs()) - abs(theta) / 2000 * 0.86 / c**3
    a0 = min(float(between[1:].min()), first)
    assume(a0 > 1e-9)
    assert abs(theta) <= g.contamination_bias(eps, min(a0, 1 / c**2), c) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("eps", [0.01, 0.1])
def test_the_contamination_bound_is_attained_by_a_point_mass_far_away(eps):
    clean, c = np.array([-0.1, 0.1]), 1.0
    x, weights = np.append(clean, 1e9), np.array([(1 - eps) / 2, (1 - eps) / 2, eps])
    theta = functional(x, weights, c)
    a0 = abs(float(psi(torch.from_numpy(clean) - theta, c).mean())) / theta  # the slope falls with the distance
    assert theta == pytest.approx(g.contamination_bias(eps, a0, c), rel=1e-6)
