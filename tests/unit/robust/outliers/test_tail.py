"""Smooth tails are the likeliest ones, they bend downwards, and they hold what the laws they stand for hold."""

import numpy as np
import pytest
from scipy import optimize, stats

from rovrl.robust.outliers.tail import likelihood_of_spreads, smooth_tails

Y = (np.arange(70) + 0.5) * 0.05
EDGES = np.exp(np.arange(71) * 0.05)
LAWS = {
    "Pareto": stats.pareto(2.5),
    "t with 3 degrees": stats.t(3, scale=1 / 1.6),
    "log-normal": stats.lognorm(1.0),
    "exponential": stats.expon(scale=1.2),
    "normal": stats.norm(),
}


def everything(counts):
    return np.ones((1, len(counts)), dtype=bool)


@pytest.mark.parametrize("law", LAWS)
def test_the_smooth_tail_of_a_common_law_holds_what_the_law_holds_at_every_distance(law):
    expected = 30_000 * np.diff(LAWS[law].cdf(EDGES))
    fitted = smooth_tails(expected, everything(expected), Y).expected[0]
    seen = expected > 3
    error = (fitted - expected)[seen] / np.sqrt(expected[seen])
    most = {"normal": 3.0, "log-normal": 0.1}.get(law, 0.7)  # in standard errors of 30,000 rewards
    assert np.abs(error).max() < most


def test_a_stretch_that_is_left_out_is_filled_by_the_tail_around_it():
    counts = 30_000 * np.diff(LAWS["t with 3 degrees"].cdf(EDGES))
    used = everything(counts)
    used[0, 30:38] = False
    hump = counts.copy()
    hump[30:38] += 500
    around = smooth_tails(hump, used, Y).expected[0, 30:38].sum()
    assert around == pytest.approx(counts[30:38].sum(), rel=0.05)


def test_the_fit_is_the_likeliest_one_with_bends_that_are_not_negative():
    """Against a general minimiser with bounds, over every pair of bends."""
    counts = np.random.default_rng(0).poisson(3000 * np.diff(LAWS["t with 3 degrees"].cdf(EDGES))).astype(float)
    bends = (np.exp(-2 * Y), Y * Y, np.exp(Y))
    best = -np.inf
    for pair in [(0, 1), (0, 2), (1, 2)]:
        basis = np.stack([np.ones_like(Y), -Y, *(-bends[k] for k in pair)], 1)
        basis /= np.abs(basis).max(0)

        def loss(slopes, basis=basis):
            logs = basis @ slopes
            return np.exp(logs).sum() - counts @ logs, basis.T @ (np.exp(logs) - counts)

        bounds = [(None, None)] * 2 + [(0, None)] * 2
        found = optimize.minimize(loss, [3.0, 3.0, 0.1, 0.1], jac=True, bounds=bounds, options={"maxiter": 5000})
        best = max(best, -found.fun)
    assert smooth_tails(counts, everything(counts), Y).likelihood[0] == pytest.approx(best, abs=0.01)


def test_the_logarithm_of_a_smooth_tail_never_bends_upwards():
    generator = np.random.default_rng(0)
    for _ in range(20):
        counts = generator.poisson(np.exp(generator.uniform(-2, 4, 4)).repeat(18)[:70]).astype(float)
        fitted = smooth_tails(counts, everything(counts), Y)
        assert np.isfinite(fitted.likelihood).all()
        assert np.diff(np.log(fitted.expected[0]), 2).max() < 1e-6


def test_all_cases_at_once_are_each_case_alone():
    counts = np.random.default_rng(0).poisson(2000 * np.diff(LAWS["exponential"].cdf(EDGES))).astype(float)
    used = np.random.default_rng(1).random((5, 70)) < 0.9
    together = smooth_tails(counts, used, Y)
    for k in range(5):
        alone = smooth_tails(counts, used[k : k + 1], Y)
        assert together.likelihood[k] == pytest.approx(alone.likelihood[0], abs=1e-6)
        np.testing.assert_allclose(together.expected[k], alone.expected[0], rtol=1e-3, atol=1e-6)


def test_a_mixture_of_spreads_explains_two_spreads_and_heavy_tails_but_no_hump():
    def gap(counts):
        return likelihood_of_spreads(counts, Y) - float((counts * np.log(counts + 1e-300) - counts).sum())

    two = 3000 * (0.9 * np.diff(stats.norm(scale=0.8).cdf(EDGES)) + 0.1 * np.diff(stats.norm(scale=3).cdf(EDGES)))
    heavy = 3000 * np.diff(LAWS["t with 3 degrees"].cdf(EDGES))
    assert gap(two) > -0.3
    assert gap(heavy) > -0.3
    heavy[45:47] += 30
    assert gap(heavy) < -10
