"""The peers on cases worked out by hand: right where they are right, and weak where their docstrings say so."""

import math

import numpy as np
import pytest
import torch

import rovrl
from rovrl.baselines import ADVANTAGES, WEIGHTS
from samples import extreme_groups


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


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
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


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
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


def test_every_peer_names_its_source_and_its_weakness():
    for f in [*ADVANTAGES.values(), *WEIGHTS.values()]:
        assert "Weakness:" in f.__doc__
