"""Bootstrap intervals: what they hold, and that memory does not decide their digits."""

import math

import numpy as np
import pytest
import torch

from rovrl.output import intervals
from rovrl.output.intervals import (
    bootstrap,
    crossed,
    differences,
    draws,
    limits,
    proportion,
    resampled,
    shared_draws,
)


def test_wilsons_interval_is_the_published_one():
    """Newcombe (1998), Stat. Med. 17:857, table I: 81 of 263 gives 0.2553 to 0.3662."""
    estimate = proportion(np.arange(263) < 81)
    assert estimate.low == pytest.approx(0.2553, abs=5e-5)
    assert estimate.high == pytest.approx(0.3662, abs=5e-5)


def test_wilsons_interval_stays_inside_the_unit_interval():
    assert proportion(np.zeros(50, bool)).low == pytest.approx(0.0, abs=1e-12)
    assert proportion(np.ones(50, bool)).high == pytest.approx(1.0, abs=1e-12)


def test_the_bootstrap_interval_of_one_run_is_about_two_standard_errors_of_the_problems():
    values = (np.random.default_rng(1).random((1, 500)) < 0.5).astype(float)
    estimate = crossed(values)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(1.96 * values.std() / 500**0.5, rel=0.06)


def test_the_bootstrap_interval_holds_the_spread_between_runs():
    calm = np.repeat(np.arange(500) < 250, 4).reshape(500, 4).T.astype(float)
    wild = calm.copy()
    wild[:2], wild[2:] = 1.0, 0.0
    widths = [e.high - e.low for e in (crossed(calm), crossed(wild))]
    assert widths[1] > 3 * widths[0]


def test_pairing_makes_the_interval_of_a_steady_gain_narrow():
    shared = np.random.default_rng(2).random((3, 500))
    ours, theirs = shared < 0.55, shared < 0.5
    paired = crossed(differences(ours, theirs))
    assert paired.low > 0
    apart = crossed(ours.astype(float))
    assert paired.high - paired.low < apart.high - apart.low


def test_unpaired_values_are_refused():
    with pytest.raises(ValueError, match="paired values must have the same shape"):
        differences(np.ones((2, 5)), np.ones((3, 5)))


def test_an_interval_of_the_mean_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        found = bootstrap(generator.normal(0.3, 1, 60), draws(60, 500, generator))
        hits += found.low <= 0.3 <= found.high
    assert 0.88 <= hits / 200 <= 0.99  # 95 % ± 3 standard errors, less a little for the bootstrap at 60


def test_an_interval_over_clusters_is_wider_than_one_that_takes_their_members_for_independent():
    """Ten responses to each prompt that all say the same: the prompts are the sample."""
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randn(40, generator=generator, dtype=torch.float64)
    responses = prompts.repeat_interleave(10)
    honest = bootstrap(prompts, shared_draws(40, 2000, generator))
    naive = bootstrap(responses, shared_draws(400, 2000, generator))
    assert (honest.high - honest.low) / (naive.high - naive.low) == pytest.approx(math.sqrt(10), rel=0.1)


def test_any_statistic_of_the_samples_has_an_interval():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(400, generator=generator, dtype=torch.float64)
    values[7] = float("nan")
    found = bootstrap(values, shared_draws(400, 500, generator), lambda s: s.nanquantile(0.5, dim=-1))
    assert found.value == float(values.nanquantile(0.5))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * math.sqrt(math.pi / 2 / 400), rel=0.2)


def test_drawing_some_at_a_time_gives_the_digits_of_drawing_all_at_once(monkeypatch):
    values = np.random.default_rng(1).normal(size=501)
    held = shared_draws(501, 33, torch.Generator().manual_seed(2))
    at_once = resampled(values, draws(501, 33, np.random.default_rng(2)))
    torch_at_once = resampled(torch.from_numpy(values), held)
    monkeypatch.setattr(intervals, "AT_A_TIME", 5 * 501)
    assert np.array_equal(resampled(values, draws(501, 33, np.random.default_rng(2))), at_once)
    assert np.array_equal(resampled(torch.from_numpy(values), held), torch_at_once)


def test_limits_leave_nan_out_and_are_nan_without_a_number():
    assert limits([1.0, float("nan"), 1.0]) == (1.0, 1.0)
    assert all(math.isnan(v) for v in limits([float("nan")]))
    assert limits(np.arange(101.0)) == pytest.approx((2.5, 97.5))
