"""Reward groups on which shipped implementations went wrong, by name, and what comes out here."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import RewardChannel
from rovrl.baselines import ADVANTAGES as PEERS

PAPER = RewardChannel(partition="contiguous")
pytestmark = pytest.mark.usefixtures("kernel")

ADAPTIVE = RewardChannel(partition="contiguous", credit_bound="adaptive", credit_floor="adaptive")


def advantages(method, rewards, channel=PAPER):
    return rovrl.ADVANTAGES[method](torch.tensor(rewards, dtype=torch.float64), channel)


@pytest.mark.parametrize("method", ["grpo", "center", "credit"])
def test_one_zero_among_seven_times_0_95_stays_below_the_root_of_the_group_size(method):
    """NeMo-RL #4158: E[x^2] - E[x]^2 in float32 left a residue and gave -2075."""
    a = advantages(method, [0.0] + [0.95] * 7)
    assert a.abs().max() <= math.sqrt(8)
    assert a[0] < 0
    assert (a[1:] > 0).all()
    assert (a[1:] == a[1]).all()


def test_one_zero_among_seven_times_0_95_with_leave_one_out_is_its_residual_over_the_floor_and_no_rounding_residue():
    a = advantages("loo", [0.0] + [0.95] * 7)
    assert a[0].item() == pytest.approx(
        -950.0, rel=1e-12
    )  # (0 - 0.95) / s_min: the scale of seven equal rewards is s_min
    np.testing.assert_allclose(a.numpy(), ref.loo([0.0] + [0.95] * 7), rtol=1e-9)
    mild = advantages("loo", [0.0] + [0.95] * 7, ADAPTIVE)
    assert mild.abs().max() < 10


def test_one_success_among_four_with_leave_one_out_is_bounded_by_the_floor():
    """NeMo-RL #1518: leave-one-out baseline over a leave-one-out deviation gave +-1,000,000."""
    a = advantages("loo", [1.0, 0.0, 0.0, 0.0])
    assert a[0].item() == pytest.approx(1000.0, rel=1e-12)
    assert (a[1:] < 0).all()
    assert a[1:].abs().max() < 2
    np.testing.assert_allclose(a.numpy(), ref.loo([1.0, 0.0, 0.0, 0.0]), rtol=1e-9)
    assert advantages("loo", [1.0, 0.0, 0.0, 0.0], ADAPTIVE).abs().max() < 10


@pytest.mark.parametrize("method", ["grpo", "center", "credit"])
def test_one_success_among_four_stays_below_two(method):
    a = advantages(method, [1.0, 0.0, 0.0, 0.0])
    assert a.abs().max() <= 2
    assert a[0] > 0
    assert (a[1:] < 0).all()


@pytest.mark.parametrize("successes", range(10))
def test_odd_binary_groups_get_moderate_credit_where_a_mad_scale_is_zero(successes):
    """MC-GRPO: any odd binary group has MAD 0, and a divisor of 0 + 1e-3 gives thousands."""
    rewards = [1.0] * successes + [0.0] * (9 - successes)
    a = advantages("credit", rewards)
    assert a.abs().max() <= 3
    if 0 < successes < 9:
        assert (a[:successes] > 0).all()
        assert (a[successes:] < 0).all()
        minority = min(successes, 9 - successes)
        peer = PEERS["median_mad"](torch.tensor(rewards, dtype=torch.float64), PAPER)
        assert torch.isfinite(peer).all()
        assert peer.abs().max() > 100 or minority == 0  # the known weakness is really shown by the peer


@pytest.mark.parametrize("sign", [1, -1])
def test_one_reward_of_a_thousand_among_zeros_and_ones_leaves_the_others_their_contrast(sign):
    rewards = [1.0, 0.0] * 8
    clean = advantages("credit", rewards)
    rewards[0] = sign * 1000.0
    keep = torch.tensor([False] + [True] * 15)
    spiked = advantages("credit", rewards)
    kept = rovrl.contrast(spiked, keep) / rovrl.contrast(clean, keep)
    grpo = advantages("grpo", rewards)
    lost = rovrl.contrast(grpo, keep) / rovrl.contrast(advantages("grpo", [1.0, 0.0] * 8), keep)
    assert kept > 0.7
    assert lost < 0.01
    assert (spiked[1::2] < 0).all()
    assert (spiked[2::2] > 0).all()


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_a_broken_score_counts_for_nothing_and_breaks_nothing(bad):
    """TRL #5775: a nan reward poisoned its group's mean and deviation."""
    rewards = [1.0, 0.0, 1.0, bad, 0.0, 1.0, 1.0, 0.0]
    a = rovrl.grouped_advantages(rewards, ["p"] * 8, PAPER)
    assert a[3] == 0
    assert torch.isfinite(a).all()
    finite = [r for i, r in enumerate(rewards) if i != 3]
    assert torch.equal(torch.cat([a[:3], a[4:]]), rovrl.grouped_advantages(finite, ["p"] * 7, PAPER))


def test_a_group_of_one_has_advantage_zero_in_every_method():
    """TRL #5773: groups of one valid sample had a deviation of nan."""
    for method in rovrl.ADVANTAGES:
        assert advantages(method, [0.7]).tolist() == [0.0]


def test_interleaved_groups_are_told_apart_by_id_and_not_by_position():
    """miles #1573: grouping by reshape broke on interleaved batches."""
    a, b = np.random.default_rng(0).normal(size=(2, 16))
    together = torch.as_tensor(np.stack([a, b], 1).reshape(-1))
    ours = rovrl.grouped_advantages(together, [0, 1] * 16, PAPER)
    torch.testing.assert_close(ours[0::2], rovrl.ADVANTAGES["credit"](torch.as_tensor(a), PAPER), atol=1e-12, rtol=0)
    torch.testing.assert_close(ours[1::2], rovrl.ADVANTAGES["credit"](torch.as_tensor(b), PAPER), atol=1e-12, rtol=0)


def test_float32_rewards_give_no_rounding_residue():
    """slime #233: a deviation of 1e-9 over centred float32 rewards."""
    x = torch.full((8,), 0.95, dtype=torch.float32)
    for method in rovrl.ADVANTAGES:
        assert (rovrl.ADVANTAGES[method](x, PAPER) == 0).all()


def test_one_reward_of_1e12_does_not_turn_the_others_into_ties():
    rng = np.random.default_rng(4)
    x = rng.normal(size=16)
    x[3] = 1e12
    theta = rovrl.rovr(torch.as_tensor(x), rovrl.Blocks.contiguous(16, 3), RewardChannel()).item()
    assert abs(theta - ref.reference("rovr", x, ref.contiguous(16, 3))) < 1e-9
