"""A tail that thins out is honest, however long; a hump in it, on both sides, is not."""

import numpy as np
import pytest
from scipy import stats

from rovrl.audit.judge.crowd import crowd

LAWS = {
    "normal": lambda g, n: g.normal(size=n),
    "exponential": lambda g, n: g.exponential(size=n) - np.log(2),
    "log-normal": lambda g, n: np.exp(g.normal(size=n)) - 1,
    "t with 3 degrees": lambda g, n: g.standard_t(3, n) / 2,
    "t with 2 degrees": lambda g, n: g.standard_t(2, n) / 2,
    "Cauchy": lambda g, n: g.standard_cauchy(n),
    "Laplace": lambda g, n: g.laplace(size=n),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rewards", [500, 3072, 30_000])
def test_an_honest_tail_has_a_hump_in_at_most_one_run_of_twenty(law, rewards):
    found = [crowd(LAWS[law](np.random.default_rng((seed, rewards)), rewards)) for seed in range(60)]
    assert sum(hump is not None for hump in found) <= 3


def test_faults_of_one_size_among_heavy_tails_are_found_where_they_are():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        z = generator.standard_t(3, 5000) / 2
        hit = generator.random(5000) < 0.01
        z[hit] += np.where(generator.random(hit.sum()) < 0.5, 8.0, -8.0)
        hump = crowd(z)
        assert hump is not None
        assert hump.low < 8.5
        assert hump.high > 7.5
        assert hump.found > 1.5 * hump.allowed


def test_no_test_at_one_false_accusation_in_twenty_finds_all_runs_with_few_faults_among_heavy_tails():
    """Neyman and Pearson: the likelihood ratio with law, rate and size known, on 24 x 8 x 16 rewards, 0.2 % spikes of 8 sd."""
    law, rate, size, generator = stats.t(3), 0.002, 16.0, np.random.default_rng(0)

    def ratios(x):
        other = (law.pdf(x - size) + law.pdf(x + size)) / 2 / law.pdf(x)
        return np.log1p(rate * (other - 1)).sum(-1)

    honest, faulty = generator.standard_t(3, (2, 400, 3072))
    hit = generator.random(faulty.shape) < rate
    faulty += hit * np.where(generator.random(faulty.shape) < 0.5, size, -size)
    found = (ratios(faulty) > np.quantile(ratios(honest), 0.95)).mean()
    assert 0.85 < found < 0.98


def test_a_hump_on_one_side_may_be_a_bonus_and_is_not_reported():
    generator = np.random.default_rng(0)
    z = generator.standard_t(3, 5000) / 2
    hit = generator.random(5000) < 0.01
    z[hit] += 8.0
    assert crowd(z) is None
    z[hit] *= np.where(generator.random(hit.sum()) < 0.5, 1, -1)
    assert crowd(z) is not None


def test_rewards_with_few_values_have_levels_and_no_humps():
    z = np.repeat([0.0, 1.0, 2.0, 5.0, -5.0], [900, 400, 100, 60, 60]).astype(float)
    assert crowd(z) is None
    assert crowd(np.full(100, np.nan)) is None
    assert crowd(np.array([])) is None
