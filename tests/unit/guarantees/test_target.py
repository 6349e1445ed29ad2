"""What the robust center aims at, for laws whose answer is known otherwise."""

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rovrl import guarantees as g
from rovrl import m_center


def root_by_quadrature(density, low, high, c, between):
    """θ_ρ from the density, in 30 digits."""
    with mpmath.workdps(30):

        def score(x, at):
            return (x - at) / c**2 / mpmath.sqrt(1 + ((x - at) / c) ** 2)

        def mean(at):
            return mpmath.quad(lambda x: score(x, at) * density(x), [low, 0.2, 1, 3, 10, high])

        return float(mpmath.findroot(mean, between, solver="anderson", tol=1e-12))


def test_the_functional_is_the_root_of_the_mean_score_of_known_laws():
    exponential = root_by_quadrature(lambda x: mpmath.exp(-x), 0, mpmath.inf, 1, (0.5, 1.0))
    assert g.m_functional(stats.expon.ppf, 1.0) == pytest.approx(exponential, abs=1e-7)
    wide = root_by_quadrature(lambda x: mpmath.exp(-x), 0, mpmath.inf, 20, (0.5, 1.5))
    assert g.m_functional(stats.expon.ppf, 20.0) == pytest.approx(wide, abs=1e-4)  # near the mean, 1
    for symmetric in (stats.norm(2.5), stats.t(2, loc=2.5), stats.uniform(2, 1)):
        assert g.m_functional(symmetric.ppf, 0.7) == pytest.approx(2.5, abs=1e-9)


def test_the_functional_of_two_atoms_solves_their_equation_by_hand():
    """Mass 1/4 at 0 and 3/4 at 1: ψ(θ) = 3 ψ(1 - θ)."""
    theta = g.m_functional([0.0, 1.0], 0.5, [1, 3])
    z = [theta / 0.5, (1 - theta) / 0.5]
    assert z[0] / math.hypot(1, z[0]) == pytest.approx(3 * z[1] / math.hypot(1, z[1]), rel=1e-12)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12), st.floats(0.05, 20))
def test_the_functional_of_a_sample_is_its_m_center(x, c):
    assert g.m_functional(x, c) == pytest.approx(float(m_center(torch.tensor(x, dtype=torch.float64), c)), abs=1e-8)


def test_the_separation_is_the_least_slope_of_the_mean_score():
    def score(u):
        return stats.norm.expect(lambda x: (x + u) / math.sqrt(1 + (x + u) ** 2))

    assert g.separation(stats.norm.ppf, 3.0, 1.0) == pytest.approx(score(3.0) / 3, rel=1e-5)
    # two atoms: flat between them, so the least slope is inside
    atoms = g.separation([-1.0, 1.0], 2.0, 0.1)
    assert 0 < atoms < g.separation([0.0], 2.0, 0.1)
