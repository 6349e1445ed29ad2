"""prop:oracle_unequal_efficiency, thm:efficiency_transfer by Monte Carlo; a variance from n draws errs by √(2/n) of itself."""

import math

import pytest
import torch
from scipy import integrate, stats

from rovrl import REFERENCES, Blocks, RewardChannel
from rovrl import guarantees as g
from rovrl.robust.correction import hard_correction


@pytest.mark.parametrize("sizes", [(6, 5, 5), (1, 4, 9, 100), (16,) * 8])
@pytest.mark.parametrize("num_levels", [1, 2, 9])
def test_the_one_step_correction_at_the_truth_is_unbiased_with_the_oracle_variance(sizes, num_levels, generator):
    draws, nu, theta = 40_000, 0.7, 2.0
    n = torch.tensor(sizes, dtype=torch.float64)
    centers = theta + nu / n.sqrt() * torch.randn(draws, len(sizes), generator=generator, dtype=torch.float64)
    start, scale = torch.full((draws,), theta, dtype=torch.float64), torch.full((draws,), nu, dtype=torch.float64)
    estimate = start - hard_correction(centers, start, scale, n.expand_as(centers), num_levels, 0.0)
    expected = g.oracle_variance(nu, sizes, num_levels)
    assert abs(float(estimate.mean()) - theta) <= 4 * math.sqrt(expected / draws)
    # the estimate is a bounded discrete sum, so its kurtosis is below the normal one and √(2/n) is on the safe side
    assert float(estimate.var()) == pytest.approx(expected, rel=4 * math.sqrt(2 / draws))


def sandwich(law, c: float) -> float:
    """ν = √E ψ² / E ψ' of a law symmetric about 0."""
    second = integrate.quad(lambda x: (x / c**2) ** 2 / (1 + (x / c) ** 2) * law.pdf(x), -math.inf, math.inf)[0]
    slope = integrate.quad(lambda x: (1 + (x / c) ** 2) ** -1.5 / c**2 * law.pdf(x), -math.inf, math.inf)[0]
    return math.sqrt(second) / slope


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "t3"])
def test_the_estimator_on_many_clean_blocks_has_the_transferred_variance_and_efficiency(name):
    """B = 64 blocks of 64: both factors within 5 standard errors plus 2 % for finite B and n, the ratio likewise."""
    law = {"normal": stats.norm(), "t3": stats.t(3)}[name]
    trials, B, n = 4000, 64, 64
    blocks, channel, nu = Blocks.contiguous(B * n, B), RewardChannel(num_levels=9), sandwich(law, 1.0)
    x = torch.from_numpy(law.rvs(size=(trials, B * n), random_state=7))
    tolerance = 4 * math.sqrt(2 / trials) + 0.02  # 11 %: a factor that is off by 15 % is noticed
    for estimator, factor in (("rovr", g.outer_factor(9)), ("robust_mom", g.outer_factor(1))):
        variance = float(REFERENCES[estimator](x, blocks, channel).var()) * B * n
        assert variance / nu**2 == pytest.approx(factor, rel=tolerance), estimator
    ours, mean = (float(REFERENCES[e](x, blocks, channel).var()) for e in ("rovr", "mean"))
    # both from the same draws; their ratio errs by less than two independent variances would
    assert mean / ours == pytest.approx(g.mean_efficiency(law.std(), nu, 9), rel=math.sqrt(2) * tolerance)


def test_the_total_efficiency_of_a_normal_law_includes_the_sandwich_factor():
    """Not 1/V_K: the convex score at c = 1 costs a normal sample more than the outer step alone."""
    nu = sandwich(stats.norm(), 1.0)
    assert 1 < nu < 1.1
    assert g.mean_efficiency(1.0, nu, 9) == pytest.approx(1 / (nu**2 * g.outer_factor(9)))
    assert g.mean_efficiency(1.0, nu, 9) < 1 / g.outer_factor(9)
    heavy = stats.t(3)
    assert g.mean_efficiency(heavy.std(), sandwich(heavy, 1.0), 9) > 1.5  # and a heavy tail repays it
