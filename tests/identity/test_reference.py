"""The reference itself, held against oracles computed elsewhere: mpmath, SciPy, closed forms."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import reference as ref
from samples import CHEM, extreme_groups, reward_groups


@pytest.mark.parametrize(
    ("width", "published"),
    [(0.5, "3.252108836401018887696436"), (1.0, "3.249512275399903809994226"), (2.0, "3.289900964389642102333937")],
)
def test_three_solvers_find_the_same_center_of_the_chem_data(width, published):
    with mpmath.workdps(40):
        assert abs(ref.m_center_mpmath(CHEM, width) - mpmath.mpf(published)) < mpmath.mpf("1e-22")
    assert abs(ref.m_center(CHEM, width) - float(published)) < 1e-15
    assert abs(ref.m_center_brentq(CHEM, width) - float(published)) < 2e-15


def test_bisection_over_the_floats_agrees_with_brentq_on_random_groups():
    for row in reward_groups(180, 7, seed=5):
        middle = ref.m_center(row)
        assert abs(middle - ref.m_center_brentq(row)) <= 4 * ref.conditioning(row[None], np.array([middle]))[0]


@pytest.mark.slow
def test_bisection_over_the_floats_agrees_with_mpmath_on_extreme_groups():
    # digits: 1e300 against a root near 1 needs 300 digits of room
    for row in extreme_groups(5)[[4, 6, 10]]:
        exact = ref.m_center_mpmath(row, 1.0, digits=640)
        assert abs(ref.m_center(row) - float(exact)) <= 4 * math.ulp(float(exact))


def test_the_score_is_the_derivative_of_scipys_pseudo_huber():
    u = np.linspace(-5, 5, 41)
    for c in (0.3, 1.0, 2.0):
        h = 1e-6
        slope = (special.pseudo_huber(c, u + h) - special.pseudo_huber(c, u - h)) / (2 * h) / c**2
        np.testing.assert_allclose(ref.psi(u, c).astype(float), slope, atol=1e-8)


def test_the_quantile_grid_agrees_with_scipy():
    tau, delta, total = ref.quantile_grid(31)
    np.testing.assert_allclose(delta, stats.norm.ppf(tau), atol=1e-14)
    assert abs(total - stats.norm.pdf(stats.norm.ppf(tau)).sum()) < 1e-13


def test_the_grid_sum_obeys_the_vrmom_identity():
    """sum_k [1{z <= Delta_k} - k/(K+1)] = K/2 + 1 - ceil((K+1) Phi(z)), where no z meets a level."""
    z_values = np.random.default_rng(1).normal(size=300)
    for K in (1, 2, 3, 9, 10):
        tau, delta, _ = ref.quantile_grid(K)
        for z in z_values:
            direct = sum(float(z <= d) - t for d, t in zip(delta, tau, strict=True))
            assert abs(direct - (K / 2 + 1 - math.ceil((K + 1) * stats.norm.cdf(z)))) < 1e-12


def test_block_m_centers_of_one_value_are_that_value():
    assert ref.m_center([0.95]) == 0.95
    assert ref.m_center([1e300] * 3) == 1e300
    assert ref.m_center([5e-324] * 2) == 5e-324
