"""The calculators' values: published numbers, identities, and the equations written out a second time."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from rovrl import guarantees as g
from rovrl.guarantees.efficiency import density_sum

PUBLISHED = {1: 1.5708, 3: 1.1680, 5: 1.1034, 9: 1.0691, 15: 1.0564, 31: 1.0498}
sizes_ = st.lists(st.integers(1, 40), min_size=1, max_size=7)
positive_ = st.floats(0.05, 4.0)


@pytest.mark.parametrize(("num_levels", "published"), PUBLISHED.items())
def test_the_outer_factor_is_the_published_one_to_four_decimals(num_levels, published):
    assert round(g.outer_factor(num_levels), 4) == published


def test_the_outer_factor_is_the_double_sum_and_falls_from_the_median_to_pi_over_three():
    factors = [g.outer_factor(K) for K in range(1, 60)]
    assert factors[0] == pytest.approx(math.pi / 2, rel=1e-14)
    assert all(later < earlier for earlier, later in itertools.pairwise(factors))
    assert factors == pytest.approx([reference.outer_factor(K) for K in range(1, 60)], rel=1e-12)
    assert g.outer_factor(3000) == pytest.approx(math.pi / 3, rel=2e-4)
    assert all(f > math.pi / 3 for f in factors)


@given(sizes_)
def test_the_effective_sample_size_is_at_most_n_and_equals_it_for_equal_blocks_only(sizes):
    effective, n = g.effective_sample_size(sizes), sum(sizes)
    assert effective <= n * (1 + 1e-12)
    assert (effective == pytest.approx(n, rel=1e-12)) == (len(set(sizes)) == 1)


@given(st.integers(1, 120))
def test_the_resolution_frontier_lists_exactly_the_budgets_that_fit(n):
    every = [(q, s) for q in range(n + 1) for s in range(n + 1) if (2 * q + 1) * (2 * s + 1) <= n]
    assert g.resolution(n) == every


def test_a_group_below_nine_cannot_hold_both_budgets():
    assert all(q == 0 or s == 0 for q, s in g.resolution(8))
    assert (1, 1) in g.resolution(9)


def naive_tail(t, n, s, a, c):
    M = 1 / c
    return math.exp(-n / (2 * M**2) * max(0.0, a * t - 2 * s * M / n) ** 2)


def naive_failure(t, sizes, budgets, honest, a, c):
    B, H = len(sizes), len(honest)
    eta = (math.ceil(B / 2) - (B - H)) / H
    p = sum(naive_tail(t, sizes[b], budgets[b], a, c) for b in honest) / H
    return min(1.0, 2 * math.exp(-2 * H * (eta - p) ** 2)) if p < eta else 1.0


@given(st.data())
def test_reference_failure_is_the_worst_over_every_choice_of_arbitrary_blocks(data):
    sizes = data.draw(sizes_)
    budgets = [data.draw(st.integers(0, n)) for n in sizes]
    q = data.draw(st.integers(0, math.ceil(len(sizes) / 2) - 1))
    t, c = data.draw(positive_), data.draw(positive_)
    a = data.draw(st.floats(0.05, 1)) * min(1 / c**2, 1 / (c * t))  # what a distribution can have
    choices = itertools.combinations(range(len(sizes)), len(sizes) - q)
    worst = max(naive_failure(t, sizes, budgets, honest, a, c) for honest in choices)
    assert g.reference_failure(t, sizes, budgets, q, a, c) == pytest.approx(worst, rel=1e-9)
    assert g.block_tail(t, sizes[0], budgets[0], a, c) == pytest.approx(
        naive_tail(t, sizes[0], budgets[0], a, c), rel=1e-9
    )


def test_one_budget_for_all_blocks_is_that_budget_in_each():
    assert g.reference_failure(1.5, (20,) * 7, 2, 1, 0.6, 1.0) == g.reference_failure(
        1.5, (20,) * 7, [2] * 7, 1, 0.6, 1.0
    )


def test_reference_failure_is_one_where_the_theorem_is_silent_and_below_one_where_it_speaks():
    assert g.reference_failure(0.1, (5, 5, 5), 1, 1, 0.5, 1.0) == 1.0
    assert 0 < g.reference_failure(1.6, (40,) * 9, 1, 1, 0.5, 1.0) < 0.05


@given(sizes_, st.floats(0.01, 0.5))
def test_reference_failure_never_falls_when_the_adversary_gets_more(sizes, t):
    most = math.ceil(len(sizes) / 2) - 1
    by_block = [g.reference_failure(4 * t, sizes, 0, q, 0.5, 1.0) for q in range(most + 1)]
    by_replacement = [g.reference_failure(4 * t, sizes, s, 0, 0.5, 1.0) for s in range(min(sizes) + 1)]
    for values in (by_block, by_replacement):
        assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(values))


@given(sizes_, st.data())
def test_partition_failure_is_the_failure_at_the_loads_plus_delta(sizes, data):
    m = data.draw(st.integers(0, sum(sizes)))
    delta, t = data.draw(st.floats(1e-6, 0.5)), data.draw(st.floats(0.05, 1.4))
    N, B = sum(sizes), len(sizes)
    loads = [min(n, math.ceil(n * m / N + math.sqrt(n / 2 * math.log(B / delta)))) for n in sizes]
    assert list(g.partition_budgets(sizes, m, delta)) == loads
    expected = min(1.0, delta + naive_failure(t, sizes, loads, range(B), 0.7, 1.0))
    assert g.partition_failure(t, sizes, m, 0.7, 1.0, delta) == pytest.approx(expected, rel=1e-9)


def test_the_load_of_a_block_exceeds_its_budget_with_probability_at_most_delta_by_the_load_bound():
    n, delta = 30, 0.05
    assert g.partition_load(math.sqrt(n / 2 * math.log(4 / delta)), (n,) * 4) == pytest.approx(delta, rel=1e-12)


@given(sizes_, st.integers(1, 15), positive_)
def test_the_correction_envelope_is_half_the_smoothing_prefactor(sizes, num_levels, cap):
    assert g.correction_envelope(sizes, num_levels, cap) == pytest.approx(g.smoothing(0, 1, cap, sizes, num_levels) / 2)


def test_the_correction_envelope_of_the_default_group_of_sixteen():
    W = math.sqrt(6) + 2 * math.sqrt(5)
    assert g.correction_envelope((6, 5, 5), 9, 10.0) == pytest.approx(
        10 * 3 * 9 / (2 * reference.quantile_grid(9)[2] * W)
    )


def test_the_credit_bound_is_the_smaller_of_leverage_and_root_of_the_group():
    assert g.credit_bound(1.0, 1e-3, 16) == 4.0
    assert g.credit_bound(1.0, 0.5, 16) == 2.0


def test_credit_stability_adds_the_numerator_and_the_scale_term():
    kappa, s_min, G, r, e = 1.5, 0.2, 16, 2, 0.05
    e_s = (r * kappa**2 / G + 2 * kappa * e) / (2 * s_min)
    assert g.credit_scale_stability(e, r, G, kappa, s_min) == pytest.approx(e_s, rel=1e-14)
    for e_R in (0.0, 0.3, 2.9, 1e300, math.inf):
        expected = min(e_R + e, 2 * kappa) / s_min + kappa * e_s / s_min**2
        assert g.credit_stability(e_R, e, r, G, kappa, s_min) == pytest.approx(expected, rel=1e-14)


def test_finite_credit_composes_the_two_parts_and_counts_what_the_budgets_let_differ():
    settings = {"num_levels": 9, "scale_cap": 1.0, "credit_bound": 1.0, "credit_floor": 0.1}
    sizes, budgets = (16, 15, 15), (1, 2, 1)
    result = g.finite_credit(1.2, sizes, budgets, 1, 0.6, 1.0, **settings)
    e_theta = 1.2 + g.correction_envelope(sizes, 9, 1.0)
    assert result.failure == g.reference_failure(1.2, sizes, budgets, 1, 0.6, 1.0)
    # the arbitrary block costs most where it is larger than its budget by most: 16 - 1
    assert result.bound == g.credit_stability(math.inf, e_theta, 16 + 2 + 1, 46, 1.0, 0.1)
    observed = g.finite_credit(
        1.2, sizes, budgets, 1, 0.6, 1.0, correction=0.0, reward_error=0.0, differing=3, **settings
    )
    assert observed.bound == g.credit_stability(0.0, 1.2, 3, 46, 1.0, 0.1) < result.bound


def test_retention_and_fidelity_at_values_worked_by_hand():
    assert g.credit_fidelity(-0.5, 2.0) == pytest.approx(0.125 / 8)
    assert g.contrast_retention(0.3, 1.0, 1.0, 0.0001) == pytest.approx(0.3 / 2**1.5, rel=1e-6)


def test_oracle_variance_and_mean_efficiency_at_values_worked_by_hand():
    assert g.oracle_variance(2.0, (10,) * 8, 1) == pytest.approx(4 * math.pi / 2 / 80)
    assert g.mean_efficiency(1.0, 1.0, 2001) == pytest.approx(3 / math.pi, rel=1e-3)


@pytest.mark.parametrize("num_levels", [1, 2, 3, 9, 10, 31])
def test_the_composite_score_is_flat_in_the_scale_and_has_slope_D_in_the_shift(num_levels):
    at_truth, h = g.scale_orthogonality(num_levels), 1e-5
    assert at_truth.value == pytest.approx(0, abs=1e-14 * num_levels)
    assert at_truth.scale_slope == pytest.approx(0, abs=1e-14 * num_levels)
    # central differences: truncation h² times a third derivative below K, and rounding eps/h
    in_t = (g.composite_score(h, 1, num_levels) - g.composite_score(-h, 1, num_levels)) / (2 * h)
    in_s = (g.composite_score(0, 1 + h, num_levels) - g.composite_score(0, 1 - h, num_levels)) / (2 * h)
    assert in_t == pytest.approx(at_truth.shift_slope, abs=1e-9 * num_levels)
    assert in_s == pytest.approx(0, abs=1e-9 * num_levels)


@given(st.floats(-3, 3), st.floats(0.05, 4), st.integers(1, 31))
def test_the_orthogonal_expansion_stays_within_its_remainder(t, s, num_levels):
    error = abs(g.composite_score(t, s, num_levels) - density_sum(num_levels) * t)
    assert error <= g.orthogonality_remainder(t, s, num_levels) + 1e-13 * num_levels


def test_the_remainder_of_the_orthogonal_expansion_is_nearly_attained():
    # K = 2 puts the grid at ±0.43; a move from there to where φ is steepest (±1) uses most of sup|φ'|
    ratios = [
        abs(g.composite_score(t, s, K) - density_sum(K) * t) / g.orthogonality_remainder(t, s, K)
        for K in (2, 9, 31)
        for t in np.linspace(-1, 1, 9)
        for s in (0.9, 0.99, 1.2, 1.6)
    ]
    assert 0.5 < max(ratios) <= 1


def test_weight_error_is_the_exponential_interval_and_never_overflows():
    small = g.weight_error(1e-9)
    assert small.relative == pytest.approx(1e-9, rel=1e-8)
    assert (small.low, small.high) == (math.exp(-1e-9), math.exp(1e-9))
    assert g.weight_error(1e5) == g.WeightError(0.0, math.inf, math.inf)


def test_policy_bounds_at_values_worked_by_hand():
    value = g.policy_value(0.1, 0.01, advantage_bound=2.0, log_weight_bound=0.0, clip_high=0.2)
    assert value == pytest.approx(1.2 * 0.1 + 2 * 0.01)
    gradient = g.policy_gradient(0.1, 0.01, 0.2, advantage_bound=2.0, log_weight_bound=0.0, jacobian_bound=3.0)
    assert gradient == pytest.approx(0.1 * 3.2 + 2 * (0.2 + 0.03))


def test_a_constant_leave_one_out_scale_weights_the_gradient_by_its_inverse():
    assert g.crossfit_weight([1.0] * 5) == 1.0
    assert g.crossfit_weight([[4.0] * 3] * 7) == 0.25
    assert g.crossfit_weight([[1.0, 1.0], [2.0, 4.0]], [0.25, 0.75]) == pytest.approx(0.25 + 0.75 * 0.375)


def test_the_smoothing_margin_leaves_exact_ties_out():
    assert g.smoothing_margin([1.0, 1.0], (4, 4), 1.0, 1) == math.inf
    assert g.smoothing(math.inf, 0.01, 1.0, (4, 4), 1) == 0.0
    assert g.smoothing_margin([0.0, 0.0, 3.0], (4, 4, 4), 1.0, 1) == 3.0


@given(st.floats(-20, 20), st.floats(0.05, 5), st.floats(0.05, 5), st.floats(0.05, 5))
def test_credit_and_linear_advantage_differ_by_no_more_than_shaping_and_scale_together(u, mapped, linear, kappa):
    shaped = u / math.sqrt(1 + (u / kappa) ** 2)
    bound = g.scale_construction(u, mapped, linear, kappa)
    assert abs(shaped / mapped - u / linear) <= bound * (1 + 1e-12) + 1e-12
    assert g.scale_construction(u, mapped, mapped, kappa) == pytest.approx(abs(shaped - u) / mapped, abs=1e-12)


def test_both_terms_are_attained_by_a_mapped_scale_above_the_linear_one():
    """A mapped scale above the linear one lowers the credit, as the bounded numerator does: the two terms add up."""
    u, kappa, linear, mapped = 2.0, 1.0, 1.0, 1.5
    exact = abs(u / math.sqrt(1 + u * u) / mapped - u / linear)
    assert g.scale_construction(u, mapped, linear, kappa) == pytest.approx(exact, rel=1e-12)
