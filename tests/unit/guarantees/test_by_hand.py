"""Bounds of the paper computed once more from their formulas, with the numbers written out."""

import math

import pytest
import torch

from rovrl import guarantees as g
from rovrl.guarantees.certificate import _closed_form

DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)
"""D_1: the normal density at the one level of K = 1."""


def test_reference_failure_is_its_formula():
    """Nine blocks of 40, q = s = 1: H = 8 honest ones, η = (5 − 1)/8."""
    tail = math.exp(-40 / 2 * (0.5 * 1.6 - 2 / 40) ** 2)
    assert g.reference_failure(1.6, (40,) * 9, 1, 1, 0.5, 1.0) == pytest.approx(2 * math.exp(-16 * (0.5 - tail) ** 2))


def test_the_tail_of_a_block_is_its_formula():
    """n = 40, s = 2, M_c = 2: the score separates by 1.2, of which the replacements take 2·2·2/40."""
    assert g.block_tail(1.0, 40, 2, 1.2, 0.5) == pytest.approx(math.exp(-40 / 8 * (1.2 - 0.2) ** 2), rel=1e-14)


def test_the_envelope_of_the_correction_is_its_formula():
    """Blocks of 4 and 9 at one level: D_1 = φ(0), W_B = 2 + 3."""
    assert g.correction_envelope((4, 9), 1, 3.0) == pytest.approx(3 * 2 * 1 / (2 * DENSITY_AT_0 * 5), rel=1e-14)


def test_the_finite_credit_is_its_formula():
    """One block of 60 with three replacements: κ = 2, s_min = 1/2, C_B at one level and ν_max = 1/2, r = 3."""
    settings = {"num_levels": 1, "scale_cap": 0.5, "credit_bound": 2.0, "credit_floor": 0.5}
    found = g.finite_credit(1.0, (60,), 3, 0, 0.4, 1.0, reward_error=0.1, **settings)
    e_theta = 1.0 + 0.5 * 1 / (2 * DENSITY_AT_0 * math.sqrt(60))
    e_s = (3 * 4 / 60 + 2 * 2 * e_theta) / (2 * 0.5)
    assert found.bound == pytest.approx((0.1 + e_theta) / 0.5 + 2 * e_s / 0.25, rel=1e-14)
    assert found.failure == pytest.approx(2 * math.exp(-2 * (1 - math.exp(-60 / 2 * (0.4 - 0.1) ** 2)) ** 2), rel=1e-14)


def test_the_failure_under_a_random_partition_is_its_formula():
    """31 blocks of 100, 31 corrupted, δ = 31/200: a load of ⌈1 + √(50 log 200)⌉ = 18 in each, η_0 = 16/31."""
    sizes, delta = (100,) * 31, 31 / 200
    assert g.partition_budgets(sizes, 31, delta) == (18,) * 31
    tail = math.exp(-100 / 2 * (0.6 - 2 * 18 / 100) ** 2)
    expected = delta + 2 * math.exp(-2 * 31 * (16 / 31 - tail) ** 2)
    assert g.partition_failure(1.0, sizes, 31, 0.6, 1.0, delta) == pytest.approx(expected, rel=1e-12)


def test_the_cost_of_smoothing_is_its_formula():
    """Blocks of 4 and 9 at one level, ν = 1/2, γ = 0.1: ν B K/(D_K W_B) times exp(−2) at a margin of 0.2."""
    prefactor = 0.5 * 2 * 1 / (DENSITY_AT_0 * 5)
    assert g.smoothing(0.2, 0.1, 0.5, (4, 9), 1) == pytest.approx(prefactor * math.exp(-2), rel=1e-14)
    expected = g.expected_smoothing(0.3, 0.1, 0.5, (4, 9), 1)
    assert expected == pytest.approx(prefactor * 2 * 0.3 * 0.1 * math.log(2), rel=1e-14)


def test_the_changes_of_objective_and_gradient_are_their_formulas():
    """L = 1/2, A_max = 2, J_max = 3; e_A = 0.1, e_m = 0.01, e_J = 0.2."""
    grown = math.exp(0.5)
    value = g.policy_value(0.1, 0.01, advantage_bound=2.0, log_weight_bound=0.5)
    assert value == pytest.approx(grown * 0.1 + 2 * grown * 0.01, rel=1e-14)
    gradient = g.policy_gradient(0.1, 0.01, 0.2, advantage_bound=2.0, log_weight_bound=0.5, jacobian_bound=3.0)
    assert gradient == pytest.approx(grown * (0.1 * (3 + 0.2) + 2 * (0.2 + 3 * 0.01)), rel=1e-14)


def test_the_change_of_one_credit_is_its_formula():
    """κ = 1.5, s_min = 1/5, two of 16 replaced, e_θ = 0.05: below and at the cap 2κ of the numerator."""
    e_s = (2 * 2.25 / 16 + 2 * 1.5 * 0.05) / 0.4
    assert g.credit_stability(0.3, 0.05, 2, 16, 1.5, 0.2) == pytest.approx(0.35 / 0.2 + 1.5 * e_s / 0.04, rel=1e-14)
    assert g.credit_stability(math.inf, 0.05, 2, 16, 1.5, 0.2) == pytest.approx(3 / 0.2 + 1.5 * e_s / 0.04, rel=1e-14)


@pytest.mark.parametrize("error", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize(("kappa", "floor"), [(1.0, 0.9), (0.4, 0.3), (2.0, 1e-3)])
def test_the_limit_of_a_certificate_is_the_smaller_of_the_papers_bounds(kappa, floor, error):
    """In units of κ; where both settings are of one size it is the cubic one that counts."""
    limit = float(_closed_form(torch.tensor(error / kappa, dtype=torch.float64), 2, 16, floor / kappa))
    ours = g.credit_stability(0.0, error, 2, 16, kappa, floor), 2 * g.credit_bound(kappa, floor, 16)
    assert limit == pytest.approx(min(ours), rel=1e-12)
