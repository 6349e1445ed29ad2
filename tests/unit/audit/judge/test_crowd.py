"""A tail that thins out smoothly is honest, however long; a hump in it, on both sides, is not."""

import numpy as np
import pytest
from scipy import stats

from rovrl.audit.judge import crowd as room
from rovrl.audit.judge.crowd import crowd

LAWS = {
    "normal": lambda g, n: g.normal(size=n),
    "exponential": lambda g, n: g.exponential(size=n) - np.log(2),
    "log-normal": lambda g, n: np.exp(g.normal(size=n)) - 1,
    "t with 5 degrees": lambda g, n: g.standard_t(5, n) / 1.3,
    "t with 3 degrees": lambda g, n: g.standard_t(3, n) / 1.6,
    "t with 2 degrees": lambda g, n: g.standard_t(2, n) / 2,
    "Cauchy": lambda g, n: g.standard_cauchy(n) / 3,
    "Laplace": lambda g, n: g.laplace(size=n) / 1.3,
    "logistic": lambda g, n: g.logistic(size=n) / 1.8,
    "Pareto on both sides": lambda g, n: (1 + g.pareto(3, n)) * np.where(g.random(n) < 0.5, 0.7, -0.7),
}
REWARDS, SPREAD = 3072, 1.6
"""A run of 24 steps, 8 prompts and 16 responses; and the usual spread of a t with 3 degrees of freedom, of deviation 2 between
all responses of the simulated world `heavy`."""


def spiked(generator, rate, size, both=True):
    z = generator.standard_t(3, REWARDS) / SPREAD
    sign = np.where(generator.random(REWARDS) < 0.5, 1, -1) if both else 1
    return z + (generator.random(REWARDS) < rate) * sign * size * 2 / SPREAD


def share_found(make, runs=60):
    return np.mean([crowd(make(np.random.default_rng((seed, 3)))) is not None for seed in range(runs)])


@pytest.mark.parametrize("law", LAWS)
def test_an_honest_tail_has_a_hump_in_at_most_one_run_of_twenty(law):
    sizes = [size for size in (500, 3072, 30_000) for _ in range(60)]
    found = [crowd(LAWS[law](np.random.default_rng((seed, 7)), size)) for seed, size in enumerate(sizes)]
    assert sum(hump is not None for hump in found) <= len(sizes) / 20


def test_over_all_honest_laws_the_share_of_humps_is_the_declared_error_and_not_far_below():
    """Two thirds of these laws are on both sides, where the error is spent; a bound that is never reached would waste power."""
    found = [
        crowd(law(np.random.default_rng((seed, 17)), REWARDS)) is not None
        for law in LAWS.values()
        for seed in range(40)
    ]
    assert room.ERROR / 10 < np.mean(found) < room.ERROR


def test_with_ten_times_the_declared_error_honest_tails_would_be_accused(monkeypatch):
    monkeypatch.setattr(room, "ERROR", 10 * room.ERROR)
    assert share_found(lambda g: LAWS["t with 3 degrees"](g, REWARDS)) > 0.05


def test_faults_of_one_size_among_heavy_tails_are_found_where_they_are():
    for seed in range(20):
        hump = crowd(spiked(np.random.default_rng(seed), 0.01, 8))
        assert hump is not None
        assert hump.low < 10.5
        assert hump.high > 9.5
        assert hump.found > 2 * hump.allowed


@pytest.mark.parametrize(("rate", "size", "least"), [(0.01, 4, 0.5), (0.002, 8, 0.3)])
def test_most_runs_with_faults_that_the_tail_nearly_hides_are_found(rate, size, least):
    """A line through the stretch below the hump, in place of a smooth tail around it, found a quarter of the first."""
    assert share_found(lambda g: spiked(g, rate, size)) > least


@pytest.mark.parametrize(("rate", "size", "least", "most"), [(0.002, 8, 0.85, 0.98), (0.01, 4, 0.98, 1.0)])
def test_what_a_test_that_knows_law_rate_and_size_finds_at_one_false_accusation_in_twenty(rate, size, least, most):
    """Neyman and Pearson: the likelihood ratio, on as many rewards; no test of the same error finds more."""
    law, size, generator = stats.t(3), 2.0 * size, np.random.default_rng(0)

    def ratios(x):
        other = (law.pdf(x - size) + law.pdf(x + size)) / 2 / law.pdf(x)
        return np.log1p(rate * (other - 1)).sum(-1)

    honest, faulty = generator.standard_t(3, (2, 400, REWARDS))
    hit = generator.random(faulty.shape) < rate
    faulty += hit * np.where(generator.random(faulty.shape) < 0.5, size, -size)
    found = (ratios(faulty) > np.quantile(ratios(honest), 0.95)).mean()
    assert least <= found <= most


@pytest.mark.parametrize(("rate", "size"), [(0.01, 4), (0.01, 8)])
def test_a_hump_on_one_side_may_be_a_bonus_and_is_not_reported(rate, size):
    assert share_found(lambda g: spiked(g, rate, size, both=False), runs=40) <= 0.05
    assert share_found(lambda g: spiked(g, rate, size), runs=40) > 0.5


def two_spreads(rate, factor, n=REWARDS):
    return lambda g: g.normal(size=n) * np.where(g.random(n) < rate, factor, 1) / 1.3


def test_responses_that_spread_several_times_as_widely_are_no_crowd_where_that_can_be_seen(monkeypatch):
    assert share_found(two_spreads(0.03, 5)) <= 0.05
    assert share_found(two_spreads(0.05, 4)) <= 0.15
    assert (
        0.1 < share_found(two_spreads(0.1, 3)) < 0.6
    )  # where it cannot be seen: a limit, said in docs/audit-faults.md
    monkeypatch.setattr(room, "LIKELIER", np.inf)
    assert share_found(two_spreads(0.03, 5)) > 0.5


def test_neither_the_scale_of_the_far_tail_nor_the_order_of_the_rewards_matters():
    z = spiked(np.random.default_rng(1), 0.01, 8)
    hump = crowd(z)
    assert crowd(np.random.default_rng(0).permutation(z)) == hump
    assert crowd(-z) == hump
    assert crowd(np.append(z, [1e300, -1e300, np.nan, np.inf])) == hump


def test_rewards_with_few_values_have_levels_and_no_humps():
    z = np.repeat([0.0, 1.0, 2.0, 5.0, -5.0], [900, 400, 100, 60, 60]).astype(float)
    assert crowd(z) is None
    assert crowd(np.full(100, np.nan)) is None
    assert crowd(np.array([])) is None
    assert crowd(np.linspace(1.01, 1.02, 50)) is None
    assert crowd(np.linspace(2.4, 2.6, 5000)) is None
