"""Marginal likelihoods of counts against the same integrals by scipy, term by term, and what they decide."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import comb, expit
from scipy.stats import betabinom, norm

from rovrl.robust.outliers.evidence import CHANCE, MERIT, ODD, RARE, by_chance, likelihoods

GROUPS = 24


def counts(rho, rate=0.12, members=8, groups=GROUPS, seed=0):
    rng = np.random.default_rng(seed)
    total = 1 / rho - 1
    return rng.binomial(members, rng.beta(rate * total, (1 - rate) * total, groups)), np.full(groups, members)


def law(n, m, rate, rho):
    """One of the orders of n hits among m."""
    rho = rho * np.minimum(1, RARE * rate / (1 - rate))
    total = 1 / rho - 1
    return betabinom.pmf(n, m, rate * total, (1 - rate) * total) / comb(m, n)


def integral(term, n, o, m, middle, spread=1.0):
    """log ∫ Π_j max(term_j(π), floor_j) dN(logit π; middle, spread)."""
    orders = comb(m, n) * comb(m - n, o)
    rows = np.where(o.any(), (m + 1) * (m + 2) / 2, m + 1)

    def log_terms(logit):
        return np.log(np.maximum(term(expit(logit)), ODD / rows / orders)).sum()

    top = max(log_terms(logit) for logit in np.linspace(-6, 6, 200))
    found = quad(lambda x: np.exp(log_terms(x) - top) * norm.pdf(x, middle, spread), -9, 9, limit=400, epsabs=1e-12)
    return np.log(found[0]) + top


@pytest.mark.parametrize("rho", [CHANCE, MERIT[2]])
def test_hits_on_both_sides_have_the_integral_of_the_beta_binomial_law(rho):
    """Up to the quadrature: thirteen points over eight standard deviations are within a hundredth of the integral."""
    hits, m = counts(rho)
    n = np.random.default_rng(1).binomial(hits, 0.5)
    found = likelihoods(n, hits - n, m, np.zeros(GROUPS, int))
    guess = np.log((hits.sum() + 0.5) / (m.sum() - hits.sum() + 0.5))
    none = np.zeros(GROUPS, int)

    def total(rho):
        return integral(lambda rate: law(hits, m, rate, rho), hits, none, m, guess)

    shared = hits > 0
    even = integral(lambda q: law(n, hits, q, CHANCE)[shared], n[shared], none[shared], hits[shared], 0.0)
    signs = [
        integral(lambda q, r=r: law(n, hits, q, r)[shared], n[shared], none[shared], hits[shared], 0.0)
        for r in MERIT[2:]
    ]
    by_prompt = np.log(np.mean(np.exp(signs)))
    merit = np.log(np.mean([np.exp(total(r)) for r in MERIT[1:]]))
    if rho == CHANCE:  # else a few groups at the floor make the likelihood of chance far from normal
        assert found.chance[1:] == pytest.approx([total(CHANCE) + even, total(CHANCE) + by_prompt], abs=0.05)
    assert found.merit[1:] == pytest.approx([merit + even, merit + by_prompt], abs=0.05)


def test_two_levels_are_seen_from_the_commoner_one_and_a_group_at_one_level_shows_nothing():
    hits, m = counts(0.4, rate=0.3)
    above = hits <= m // 2
    n, o = np.where(above, hits, 0), np.where(above, 0, m - hits)

    def folded(rho):
        def term(rate):
            up, down = law(hits, m, rate, rho), law(0 * m, m, rate, rho) + law(m, m, rate, rho)
            return np.where(n + o > 0, up, down)

        likeliest = max(np.linspace(-6, 6, 25), key=lambda x: np.log(term(expit(x))).sum())
        return integral(term, n, o, m, likeliest)

    found = likelihoods(n, o, m, np.zeros(GROUPS, int))
    assert found.chance[0] == pytest.approx(folded(CHANCE), abs=0.05)
    assert found.slight[0] == pytest.approx(folded(MERIT[0]), abs=0.05)
    assert found.merit[0] == pytest.approx(np.log(np.mean([np.exp(folded(r)) for r in MERIT[1:]])), abs=0.05)
    assert found.merit[0] > found.chance[0] + 5


def test_each_stratum_has_a_rate_of_its_own():
    """Two steps, one with a tenth and one with half of its responses hit, each by chance."""
    n = np.concatenate([counts(1e-6, 0.1, 16, 128)[0], counts(1e-6, 0.5, 16, 128, seed=1)[0]])
    m, none = np.full(256, 16), np.zeros(256, int)
    assert by_chance(n, none, m, np.repeat([0, 1], 128)) > 0.9
    assert by_chance(n, none, m, none) < 1e-6


@pytest.mark.parametrize(("rho", "chance"), [(1e-6, True), (CHANCE, True), (0.15, False), (0.4, False)])
@pytest.mark.parametrize("members", [8, 16])
def test_256_groups_show_whether_their_hits_come_by_chance(rho, chance, members):
    for seed in range(5):
        n, m = counts(rho, 0.1, members, 256, seed)
        found = by_chance(n, 0 * n, m, 0 * n)
        assert found > 0.3 if chance else found < 0.01


def test_a_few_misplaced_centers_decide_nothing():
    """Three of 256 groups have all of their members on one side: by chance that is impossible, by ODD it is odd."""
    n, m = counts(1e-6, 0.1, 16, 256)
    n[:3] = 16
    assert by_chance(n, 0 * n, m, 0 * n) > 0.5


def test_no_hits_say_nothing():
    none = np.zeros(5, int)
    assert by_chance(none, none, np.full(5, 8), none) == 0.5
