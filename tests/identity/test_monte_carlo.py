"""Statements about distributions, by simulation: each tolerance is a multiple of the stated Monte Carlo error."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import Blocks, RewardChannel


def variance_ratio(sample, scale):
    """Estimate of N var / scale, and its standard error for near-normal estimates: ratio * sqrt(2 / draws)."""
    ratio = float(np.var(sample)) * scale
    return ratio, ratio * math.sqrt(2 / len(sample))


@pytest.mark.parametrize("K", [1, 9])
def test_the_outer_factor_of_many_exactly_normal_centers_is_v_k(K):
    """thm:main_clean_efficiency's outer factor, with blocks of one (the value is its own center) and a pilot scale of 1."""
    B, draws = 101, 4000
    x = torch.as_tensor(np.random.default_rng(K).normal(size=(draws, B)))
    blocks = Blocks.contiguous(B, B)
    estimate = rovrl.rovr(x, blocks, RewardChannel(num_blocks=B, num_levels=K, scale_source=1.0)).numpy()
    ratio, error = variance_ratio(estimate, B)
    # 4 standard errors (2.2 % each) plus 2 % for finite B: the initializer is estimated
    assert abs(ratio - ref.outer_factor(K)) < 4 * error + 0.02 * ratio
    assert abs(estimate.mean()) < 4 * math.sqrt(ratio / B / draws)


def test_rovr_of_clean_normal_rewards_is_more_efficient_than_the_median_of_centers():
    x = torch.as_tensor(np.random.default_rng(3).normal(size=(6000, 105)))
    blocks, channel = Blocks.contiguous(105, 21), RewardChannel(num_blocks=21)
    ours, _ = variance_ratio(rovrl.rovr(x, blocks, channel).numpy(), 105)
    median, _ = variance_ratio(rovrl.REFERENCES["robust_mom"](x, blocks, channel).numpy(), 105)
    assert ours < 0.85 * median  # theory for K = 9: 1.069 / 1.571 = 0.68, more at finite B


def test_leave_one_out_baselines_do_not_bias_the_score_direction():
    """thm:crossfit_baseline: theta_{-i} is independent of response i, so E[theta_{-i} (Y_i - p)] = 0.

    Binary actions Y_i ~ Bernoulli(p) with score Y_i - p and rewards that depend on Y_i.
    """
    rng = np.random.default_rng(4)
    p, draws, G = 0.3, 6000, 16
    y = rng.random((draws, G)) < p
    rewards = np.where(y, 1.0, rng.normal(size=(draws, G)))
    rest = rewards[:, 1:]
    theta = rovrl.rovr(torch.as_tensor(rest), Blocks.contiguous(15, 3), RewardChannel()).numpy()
    products = theta * (y[:, 0] - p)
    assert abs(products.mean()) < 4 * products.std() / math.sqrt(draws)


def test_the_reference_survives_one_arbitrary_block_and_the_mean_does_not():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 16))
    x[:, :6] = 1e6
    blocks, channel = Blocks.contiguous(16, 3), RewardChannel()
    ours = rovrl.rovr(torch.as_tensor(x), blocks, channel).abs()
    mean = rovrl.REFERENCES["mean"](torch.as_tensor(x), blocks, channel).abs()
    assert ours.median() < 1.5  # the larger of two good centers, sd 1 / sqrt(5) each, plus a correction of at most C_B
    assert mean.min() > 1e5


def test_random_partitions_spread_corruption_as_the_hypergeometric_law_says(generator):
    """prop:random_partition: the load of a block of n_b among N with m corrupted has mean n_b m / N."""
    draws, corrupted = 3000, {0, 1, 2, 3}
    loads = np.array([len(corrupted & set(Blocks.random(16, 3, generator).members[0])) for _ in range(draws)])
    mean, variance = 6 * 4 / 16, 6 * (4 / 16) * (12 / 16) * (10 / 15)
    assert abs(loads.mean() - mean) < 4 * math.sqrt(variance / draws)
    assert (loads >= 4).mean() <= math.exp(-2 * 2.5**2 / 6) + 0.02
