"""The peers on cases worked out by hand: right where they are right, and weak where their docstrings say so."""

import math

import numpy as np
import pytest
import torch

import rovrl
from rovrl.baselines import ADVANTAGES, OBJECTIVES, WEIGHTS
from rovrl.baselines.objectives import m2po_mask
from samples import extreme_groups

PER_GROUP = sorted(set(ADVANTAGES) - {"batch_scale"})


def peer(name, rewards):
    return ADVANTAGES[name](torch.tensor(rewards, dtype=torch.float64), rovrl.RewardChannel())


def test_dr_grpo_is_the_residual_to_the_mean():
    assert peer("dr_grpo", [1.0, 0.0, 0.0, 3.0]).tolist() == [0.0, -1.0, -1.0, 2.0]


def test_rloo_is_the_residual_to_the_mean_of_the_others():
    ours = peer("rloo", [1.0, 0.0, 0.5, 3.0])
    np.testing.assert_allclose(ours.numpy(), [1 - 3.5 / 3, 0 - 4.5 / 3, 0.5 - 4 / 3, 3 - 1.5 / 3], atol=1e-14)


def test_median_mad_divides_by_the_consistent_mad():
    # median 2, deviations 2, 1, 0, 1, 8: MAD 1
    ours = peer("median_mad", [0.0, 1.0, 2.0, 3.0, 10.0])
    np.testing.assert_allclose(ours.numpy(), np.array([-2, -1, 0, 1, 8]) / 1.4826, rtol=1e-5)


def test_shortest_half_finds_the_cluster():
    # the shortest interval that holds three of five is [1, 1.2]; its median is 1.1
    rewards = [1.0, 1.1, 1.2, 5.0, 9.0]
    residual = np.array(rewards) - 1.1
    np.testing.assert_allclose(
        peer("shortest_half", rewards).numpy(), residual / np.sqrt((residual**2).mean()), rtol=1e-5
    )


def test_winsor_clamps_a_tenth_of_each_tail_before_grpo():
    rewards = np.arange(10.0)
    rewards[9] = 1000.0
    clamped = np.clip(rewards, 1.0, 8.0)
    expected = (clamped - clamped.mean()) / clamped.std(ddof=1)
    np.testing.assert_allclose(peer("winsor", list(rewards)).numpy(), expected, rtol=1e-5)


def test_the_known_weaknesses_are_really_there():
    spike = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1000.0]
    assert peer("dr_grpo", spike).max() > 500
    assert peer("rloo", spike).max() > 500
    assert peer("median_mad", [0.0] * 6 + [1.0] * 3).max() > 1e5
    keep = torch.tensor([True] * 7 + [False])
    assert rovrl.contrast(peer("shortest_half", spike), keep) < 0.01
    mine = rovrl.ADVANTAGES["credit"](torch.tensor(spike, dtype=torch.float64), rovrl.RewardChannel())
    assert rovrl.contrast(mine, keep) > 0.5


def test_mc_grpo_measures_from_the_lower_median_in_units_of_the_mad_plus_a_thousandth():
    # the responses are 0, 1, 2, 3, 10 and 20: lower median 2, deviations 0, 1, 1, 2, 8, 18, whose lower median is 1
    ours = peer("mc_grpo", [0.0, 1.0, 2.0, 3.0, 10.0, 20.0])
    np.testing.assert_allclose(ours.numpy(), np.array([-2, -1, 0, 1, 8, 18]) / 1.001, rtol=1e-12)


def test_mc_grpo_is_the_formula_of_its_code_on_odd_groups():
    """rewards.median(dim=1), the same of the deviations, + 1e-3 (grpo_trainer_math.py of lotusroot-kim/MC-GRPO)."""
    rewards = torch.randn(7, 17, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    middle = rewards.median(dim=1, keepdim=True).values
    spread = (rewards - middle).abs().median(dim=1, keepdim=True).values + 1e-3
    torch.testing.assert_close(ADVANTAGES["mc_grpo"](rewards, None), (rewards - middle) / spread)


def test_qae_gives_only_the_rare_kind_of_a_binary_group_an_advantage():
    hard, easy = [1.0] * 3 + [0.0] * 13, [1.0] * 13 + [0.0] * 3
    assert (peer("qae", hard)[3:] == 0).all()
    assert (peer("qae", hard)[:3] > 0).all()
    assert (peer("qae", easy)[:13] == 0).all()
    assert (peer("qae", easy)[13:] < 0).all()


def test_clipped_advantages_are_grpo_between_minus_one_and_one():
    rewards = [0.0, 1.0, 0.2, 0.4, 9.0]
    z = (np.array(rewards) - np.mean(rewards)) / np.std(rewards, ddof=1)
    np.testing.assert_allclose(peer("clipped", rewards).numpy(), z.clip(-1, 1), rtol=1e-5)


def test_normal_scores_are_quantiles_of_midranks_whatever_the_size_of_the_largest():
    from scipy.stats import norm, rankdata

    rewards = [0.3, 0.1, 0.3, 0.9, 0.3, -2.0]
    expected = norm.ppf((rankdata(rewards) - 0.5) / 6)
    np.testing.assert_allclose(peer("normal_scores", rewards).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(peer("normal_scores", [*rewards[:3], 1e6, *rewards[4:]]).numpy(), expected, atol=1e-12)


def test_batch_scale_divides_every_group_by_the_sd_of_all_rewards():
    rewards = torch.randn(4, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    rewards[0] *= 50
    expected = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std() + 1e-4)
    torch.testing.assert_close(ADVANTAGES["batch_scale"](rewards, None), expected)


@pytest.mark.parametrize("name", PER_GROUP)
def test_peers_share_our_manners(name):
    """Same signature, any leading axes, ties and single responses 0, non-finite rewards left out."""
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, 16)))
    f = ADVANTAGES[name]
    whole = f(x, rovrl.RewardChannel(), blocks=rovrl.Blocks.contiguous(16, 3), generator=torch.Generator())
    assert whole.shape == x.shape
    torch.testing.assert_close(whole[1, 2], f(x[1, 2], rovrl.RewardChannel()))
    assert (f(torch.full((7,), 0.95), None) == 0).all()
    assert f(torch.tensor([0.7]), None).tolist() == [0.0]
    dirty = torch.cat([x[0, 0, :4], torch.tensor([math.nan, math.inf]).double(), x[0, 0, 4:]])
    ours = f(dirty, None)
    assert ours[4:6].tolist() == [0.0, 0.0]
    torch.testing.assert_close(torch.cat([ours[:4], ours[6:]]), whole[0, 0], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", PER_GROUP)
def test_peers_work_on_ragged_groups_by_id(name):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=5), rng.normal(size=9)
    ours = rovrl.grouped_advantages(
        np.concatenate([a, b]), ["a"] * 5 + ["b"] * 9, rovrl.RewardChannel(), method=ADVANTAGES[name]
    )
    torch.testing.assert_close(ours[:5], peer(name, list(a)), atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(ours[5:], peer(name, list(b)), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", ["dr_grpo", "rloo"])
def test_linear_peers_of_extreme_groups_are_finite(name):
    assert torch.isfinite(ADVANTAGES[name](torch.as_tensor(extreme_groups(16)), None)).all()


def test_gspo_is_the_masked_mean_and_gmpo_the_mean_of_clamped_log_ratios():
    x = torch.tensor([[0.1, -0.2, 5.0, 9.0], [0.3, 0.3, -3.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    np.testing.assert_allclose(WEIGHTS["gspo"](x, mask, None).numpy(), [4.9 / 3, -2.4 / 4], rtol=1e-6)
    np.testing.assert_allclose(WEIGHTS["gmpo"](x, mask, None).numpy(), [0.3 / 3, 0.2 / 4], rtol=1e-5)
    for f in WEIGHTS.values():
        y = x.clone().requires_grad_()
        f(y, mask, rovrl.RatioChannel()).sum().backward()
        assert (y.grad[~mask] == 0).all()


def test_gmpo_clamps_only_where_the_advantage_pushes():
    x = torch.tensor([[5.0, -5.0], [5.0, -5.0]])
    up_then_down = torch.tensor([1.0, -1.0])
    np.testing.assert_allclose(WEIGHTS["gmpo"](x, None, None, up_then_down).numpy(), [-2.3, 2.3], rtol=1e-6)


def test_the_trimmed_mean_and_the_median_ignore_a_burst_and_the_masked():
    x = torch.arange(21.0).repeat(2, 1)
    x[0, 20] = 1e6
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 0] = False
    # twenty tokens 1 ... 19 and the burst: the trimmed mean loses two of each end, the median lies between 10 and 11
    assert WEIGHTS["trimmed"](x, mask, None).tolist() == [10.5, 10.5]
    assert WEIGHTS["median"](x, mask, None).tolist() == [10.5, 10.5]
    assert WEIGHTS["median"](x, torch.zeros_like(mask), None).tolist() == [0.0, 0.0]


def test_m2po_drops_the_largest_of_those_that_move_with_their_advantage_until_the_mean_square_is_small():
    log_ratios = torch.tensor([[0.1, 0.1, 0.9, -3.0], [-0.1, 2.0, -0.3, 0.0]])
    advantages, mask = torch.tensor([1.0, -1.0]), torch.ones(2, 4, dtype=torch.bool)
    keep = m2po_mask(log_ratios, advantages, mask)
    # candidates 0.1, 0.1, 0.9 and -0.1, -0.3: without 0.9 their mean square is 0.03, with it 0.186
    assert keep.tolist() == [[True, True, False, True], [True, True, True, True]]
    assert m2po_mask(0.01 * log_ratios, advantages, mask).all()
    x = log_ratios.clone().requires_grad_()
    OBJECTIVES["m2po"](x, advantages, mask).sum().backward()
    assert x.grad[0, 2] == 0
    assert (x.grad[keep] != 0).all()


def test_every_peer_names_its_source_and_its_weakness():
    for f in [*ADVANTAGES.values(), *WEIGHTS.values(), *OBJECTIVES.values()]:
        assert "Weakness:" in f.__doc__
