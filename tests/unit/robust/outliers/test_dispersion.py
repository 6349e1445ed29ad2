"""Dispersion of counts per group: exact moments against enumeration, p-values against simulation."""

from itertools import combinations

import numpy as np
import pytest
from scipy import special, stats

from rovrl.robust.outliers.beta_binomial import Shape
from rovrl.robust.outliers.dispersion import Design, Moments, chance, gamma_share, ordinary, overdispersion, pairs

RAGGED = np.random.default_rng(3).integers(1, 30, 40)


def one_stratum(sizes) -> Design:
    sizes = np.asarray(sizes)
    return Design(sizes, np.zeros(len(sizes), int))


@pytest.mark.parametrize("sizes", [[3, 3, 2], [1, 4, 3], [6], [2, 2, 2, 2], [5, 1, 1, 2]])
@pytest.mark.parametrize("hits", [0, 1, 2, 3, 5])
def test_the_moments_are_those_of_all_ways_to_place_the_hits(sizes, hits):
    group = np.repeat(np.arange(len(sizes)), sizes)
    values = [pairs(np.bincount(group[list(c)], minlength=len(sizes))) for c in combinations(range(len(group)), hits)]
    t = np.array(values)
    expected = t.mean(), t.var(), ((t - t.mean()) ** 3).mean()
    found = chance(np.array([float(hits)]), one_stratum(sizes))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_moments_of_strata_add_up():
    sizes, strata, hits = np.array([4, 5, 3, 6]), np.array([0, 0, 1, 1]), np.array([3.0, 2.0])
    both = chance(hits, Design(sizes, strata))
    apart = [chance(hits[[s]], one_stratum(sizes[strata == s])) for s in (0, 1)]
    np.testing.assert_allclose(both, np.sum(apart, axis=0), rtol=1e-12)


def test_a_group_of_size_0_plays_no_part():
    with_it, without = Design(np.array([4, 0, 5]), np.zeros(3, int)), one_stratum([4, 5])
    assert chance(np.array([4.0]), with_it) == chance(np.array([4.0]), without)


@pytest.mark.parametrize(
    ("sizes", "hits"),
    [([16] * 256, 8), ([16] * 256, 205), ([16] * 16, 13), ([8] * 64, 20), (RAGGED, 40), (RAGGED % 4 + 1, 20)],
)
def test_the_p_value_is_no_smaller_than_chance_makes_it(sizes, hits):
    """Actual against nominal over 4000 draws: at most 4 standard errors above; not far below where counts are dense."""
    rng, design = np.random.default_rng(0), one_stratum(sizes)
    expected = chance(np.array([float(hits)]), design)
    drawn = rng.multivariate_hypergeometric(np.asarray(sizes), hits, 4000)
    p = np.array([overdispersion(pairs(counts), expected) for counts in drawn])
    for nominal in (0.05, 0.01):
        assert (p <= nominal).mean() <= nominal + 4 * (nominal * (1 - nominal) / 4000) ** 0.5
    if expected.mean > 3:
        assert (p <= 0.05).mean() >= 0.01


def test_counts_with_a_correlation_of_015_are_seen():
    rng, design = np.random.default_rng(0), one_stratum([16] * 256)
    rates = rng.beta(0.05 / 0.15 * 0.85, 0.95 / 0.15 * 0.85, (200, 256))
    drawn = rng.binomial(16, rates)
    p = [overdispersion(pairs(counts), chance(np.array([float(counts.sum())]), design)) for counts in drawn]
    assert np.mean(np.array(p) < 0.001) > 0.99


@pytest.mark.parametrize(("groups", "size", "rate"), [(256, 16, 0.05), (256, 8, 0.05), (16, 16, 0.1), (64, 64, 0.05)])
def test_ordinary_verdicts_are_rarely_called_even(groups, size, rate):
    """The chance that beta-binomial counts with that very correlation fall below the level is at most 1.5 times the level."""
    rng, design = np.random.default_rng(0), one_stratum([size] * groups)
    total = 0.85 / 0.15
    drawn = rng.binomial(size, rng.beta(rate * total, (1 - rate) * total, (6000, groups)))
    drawn = drawn[np.abs(drawn.sum(-1) - rate * groups * size) <= 0.1 * rate * groups * size]
    p = []
    for counts in drawn:
        hits = float(counts.sum())
        p.append(ordinary(pairs(counts), chance(np.array([hits]), design), hits, design))
    for level in (0.05, 0.01):
        assert np.mean(np.array(p) <= level) <= 1.5 * level + 3 * (level / len(p)) ** 0.5


def test_verdicts_with_a_share_of_the_correlation_are_called_even_as_rarely_when_asked_for_that_share():
    rng, design, total = np.random.default_rng(0), one_stratum([16] * 256), (1 - 0.35 * 0.15) / (0.35 * 0.15)
    p = []
    for counts in rng.binomial(16, rng.beta(0.2 * total, 0.8 * total, (1000, 256))):
        hits = np.array([float(counts.sum())])
        p.append(ordinary(pairs(counts), chance(hits, design), hits, design, share=0.35))
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
    assert np.mean(np.array(p) <= 0.2) > 0.05


@pytest.mark.parametrize(("hidden", "first"), [("none", (6, 9)), ("majorities", (3, 4)), ("whole", (5, 8))])
def test_the_hits_that_can_be_seen_are_those_of_the_beta_binomial_law_below_the_first_hidden_number(hidden, first):
    """Groups of five and of eight: from three and four hits on their median is a hit."""
    shape = Shape(np.array([0]), np.array([0, 0]), np.array([5, 8]), np.array([2, 3]))
    rate, rho = np.array([0.3]), np.array([0.2])
    laws = [stats.betabinom(m, 0.3 * 4, 0.7 * 4) for m in (5, 8)]
    expected = sum(g * sum(n * law.pmf(n) for n in range(end)) for g, law, end in zip((2, 3), laws, first, strict=True))
    assert float(shape.visible(rate, rho, hidden)[0]) == pytest.approx(float(expected), rel=1e-9)


def test_even_counts_are_told_from_ordinary_verdicts_by_many_groups_and_not_by_few():
    def of(groups: int) -> float:
        design, hits = one_stratum([16] * groups), 0.05 * 16 * groups
        expected = chance(np.array([hits]), design)
        return ordinary(expected.mean, expected, hits, design)

    assert of(256) < 1e-6 < 0.01 < of(8)


def test_groups_of_four_can_never_show_that_they_are_even_once_their_centers_are_displaced():
    design = one_stratum([4] * 4096)
    expected = chance(np.array([800.0]), design)
    assert ordinary(0.0, expected, 800.0, design, hidden="majorities") == 1.0


@pytest.mark.parametrize("rate", [0.2, 0.35])
def test_ordinary_verdicts_in_groups_of_four_are_rarely_called_even_though_whole_groups_hide_theirs(rate):
    rng, design, total = np.random.default_rng(0), one_stratum([4] * 256), 0.85 / 0.15
    drawn = rng.binomial(4, rng.beta(rate * total, (1 - rate) * total, (1000, 256)))
    p = {"none": [], "whole": []}
    for counts in np.where(drawn < 4, drawn, 0):
        hits = np.array([float(counts.sum())])
        for hidden, found in p.items():
            found.append(ordinary(pairs(counts), chance(hits, design), hits, design, hidden=hidden))
    assert np.mean(np.array(p["whole"]) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
    assert np.mean(np.array(p["none"]) <= 0.05) > 0.2


def test_without_variance_nothing_is_dispersed():
    assert overdispersion(0.0, Moments(0.0, 0.0, 0.0)) == 1.0


@pytest.mark.parametrize("shape", [0.01, 0.7, 3.0, 40.0, 2e3, 9e4, 3e6])
def test_the_gamma_distribution_is_that_of_another_program(shape):
    for deviations in (-4, -1, -0.1, 0, 0.3, 2, 5):
        x = max(shape + deviations * shape**0.5, 1e-3)
        tolerance = 1e-7 if shape > 1e5 else 1e-10
        assert gamma_share(shape, x) == pytest.approx(float(special.gammainc(shape, x)), abs=tolerance)
