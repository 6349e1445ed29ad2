"""Sandwich scales, pooled and lagged scales, and the settings a step is given."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import LaggedScale, RewardChannel
from rovrl.advantage import explain
from rovrl.robust.centers import m_center, sandwich_scale, smooth_median
from rovrl.robust.scale import pooled_scale
from rovrl.scales import channel_for_step, resolve, within_group_scale, within_group_spread
from samples import reward_groups


@pytest.mark.parametrize("width", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("floor", [1e-6, 0.5])
def test_the_sandwich_scale_agrees_with_its_equation(width, floor):
    x = np.random.default_rng(0).standard_cauchy(size=(80, 6))
    mask = np.random.default_rng(1).random((80, 6)) < 0.8
    mask[:, 0] = True
    t, keep = torch.as_tensor(np.where(mask, x, 7.0)), torch.as_tensor(mask)
    ours = sandwich_scale(t, m_center(t, width, keep), width, keep, floor).numpy()
    for k in range(80):
        row = x[k][mask[k]]
        assert ours[k] == pytest.approx(ref.sandwich_scale(row, ref.m_center(row, width), width, floor), rel=1e-9)


def test_the_sandwich_scale_of_normal_data_is_near_its_standard_deviation_for_a_wide_score():
    """psi is linear for c -> infinity, and nu the population deviation."""
    x = torch.as_tensor(np.random.default_rng(2).normal(size=(5, 1000)) * 0.3)
    every = torch.ones_like(x, dtype=torch.bool)
    nu = sandwich_scale(x, m_center(x, 1e4), 1e4, every, 1e-300)
    torch.testing.assert_close(nu, x.std(-1, unbiased=False), rtol=1e-6, atol=0)


def test_a_constant_block_has_scale_zero_and_the_pooled_scale_its_floor():
    x = torch.full((2, 5), 0.95, dtype=torch.float64)
    every = torch.ones_like(x, dtype=torch.bool)
    assert (sandwich_scale(x, m_center(x), 1.0, every, 1e-6) == 0).all()
    assert pooled_scale(torch.zeros(2, 3, dtype=torch.float64), 1e-6, 10.0).tolist() == [1e-6, 1e-6]
    assert pooled_scale(torch.tensor([[1.0, 99.0, 1e9]]), 1e-6, 10.0).tolist() == [10.0]


def test_the_pooled_scale_is_the_clipped_midpoint_median():
    local = np.random.default_rng(3).random((50, 4)) * 3
    ours = pooled_scale(torch.as_tensor(local), 0.5, 2.0).numpy()
    np.testing.assert_allclose(ours, [ref.clip(ref.midpoint_median(row), 0.5, 2.0) for row in local])


def test_the_smooth_median_is_the_m_center_at_its_width_and_unique_for_even_numbers():
    v = np.random.default_rng(4).normal(size=(40, 8))
    ours = smooth_median(torch.as_tensor(v), 0.01).numpy()
    np.testing.assert_allclose(ours, ref.m_centers(v, 0.01), atol=1e-11)
    assert np.abs(ours - np.median(v, -1)).max() < np.ptp(v, -1).max()
    pair = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert smooth_median(pair, 0.01).item() == pytest.approx(0.5, abs=1e-9)


def test_the_lagged_scale_is_an_average_of_earlier_steps_with_decay_nine_tenths():
    lagged = LaggedScale()
    assert lagged.value is None
    for value, expected in [(1.0, 1.0), (2.0, 1.1), (0.6, 1.05)]:
        lagged.update(value)
        assert lagged.value == pytest.approx(expected)


@pytest.mark.parametrize("nothing", [0.0, math.nan, math.inf, -1.0])
def test_a_step_without_information_leaves_the_lagged_scale_alone(nothing):
    lagged = LaggedScale()
    lagged.update(nothing)
    assert lagged.value is None
    lagged.update(0.3)
    lagged.update(nothing)
    assert lagged.value == 0.3


def test_the_state_of_the_lagged_scale_survives_a_restart():
    import json

    one = LaggedScale(decay=0.8)
    for value in (0.2, 0.5, 0.7):
        one.update(value)
    two = LaggedScale()
    two.load_state_dict(json.loads(json.dumps(one.state_dict())))
    one.update(0.1)
    two.update(0.1)
    assert one.value == two.value
    assert one.state_dict() == two.state_dict()
    fresh = LaggedScale()
    fresh.load_state_dict(LaggedScale().state_dict())
    assert fresh.value is None


@pytest.mark.parametrize("state", [{}, {"value": 1.0}, {"decay": 0.9, "value": -1.0, "steps": 3}])
def test_a_broken_state_is_refused(state):
    with pytest.raises(ValueError, match="LaggedScale"):
        LaggedScale().load_state_dict(state)


@pytest.mark.parametrize("decay", [-0.1, 1.0, math.nan])
def test_a_decay_outside_zero_to_one_is_refused(decay):
    with pytest.raises(ValueError, match="decay"):
        LaggedScale(decay)


def batch(seed, spread, size=9, groups=8):
    x = np.random.default_rng(seed).normal(size=(groups, size)) * spread
    return torch.as_tensor(x.reshape(-1)), np.repeat(np.arange(groups), size)


def test_a_step_uses_the_scale_of_earlier_steps_and_then_takes_its_own_in():
    channel = RewardChannel(scale_source="lagged", credit_bound="adaptive", credit_floor="adaptive")
    lagged = LaggedScale()
    first, second = batch(0, 0.2), batch(1, 5.0)
    scale, spread = within_group_scale(*first, channel), within_group_spread(*first)
    one = channel_for_step(channel, lagged, *first)
    assert (one.scale_source, one.credit_bound, one.credit_floor) == pytest.approx((scale, 2 * spread, spread))
    assert (lagged.value, lagged.spread) == (scale, spread)
    two = channel_for_step(channel, lagged, *second)
    assert (two.scale_source, two.credit_bound, two.credit_floor) == pytest.approx((scale, 2 * spread, spread))
    assert lagged.value == pytest.approx(0.9 * scale + 0.1 * within_group_scale(*second, channel))
    assert lagged.spread == pytest.approx(0.9 * spread + 0.1 * within_group_spread(*second))


def test_adaptive_credit_leaves_the_reference_alone():
    rewards, ids = batch(3, 0.2)
    rewards[::20] += 16
    plain, adaptive = RewardChannel(), RewardChannel(credit_bound="adaptive", credit_floor="adaptive")
    assert torch.equal(explain(rewards, ids, plain).nu, explain(rewards, ids, adaptive).nu)
    steps = [channel_for_step(channel, LaggedScale(), rewards, ids) for channel in (plain, adaptive)]
    assert steps[0].scale_source == steps[1].scale_source


def test_adaptive_settings_are_not_guessed():
    with pytest.raises(ValueError, match="needs the spread"):
        resolve(RewardChannel(credit_bound="adaptive"), 1.0)


def test_auto_becomes_a_number_for_small_blocks_and_stays_local_for_large_ones():
    lagged = LaggedScale()
    lagged.update(0.25)
    assert channel_for_step(RewardChannel(), lagged, *batch(0, 1.0, size=9)).scale_source == 0.25
    lagged = LaggedScale()
    lagged.update(0.25)
    assert channel_for_step(RewardChannel(), lagged, *batch(0, 1.0, size=16)).scale_source == "auto"
    assert channel_for_step(RewardChannel(scale_source="local"), lagged, *batch(0, 1.0)).scale_source == "local"
    assert channel_for_step(RewardChannel(scale_source=3.0), lagged, *batch(0, 1.0)).scale_source == 3.0


def test_the_scale_a_trainer_hands_on_is_the_one_the_reference_uses():
    rewards, ids = batch(2, 1.0)
    channel = RewardChannel(partition="contiguous", scale_source=0.37)
    info = explain(rewards, ids, channel)
    assert info.scale_source == "pilot"
    assert info.nu.tolist() == [0.37] * 8
    expected = ref.references("rovr", rewards.reshape(8, 9).numpy(), ref.contiguous(9, 3), nu=0.37)
    np.testing.assert_allclose(info.reference.numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("source", ["auto", "lagged"])
def test_tied_groups_and_other_sizes_do_not_change_the_scale_of_small_blocks(source):
    """One number for the batch: the median over untied groups of every size."""
    sizes = [9] * 3 + [10] * 3 + [11] * 3 + [9] * 40
    spreads = [1.0] * 3 + [3.0] * 3 + [0.1] * 3 + [0.0] * 40
    rng = np.random.default_rng(5)
    rewards = np.concatenate([rng.normal(size=n) * s for n, s in zip(sizes, spreads, strict=True)])
    ids = np.repeat(np.arange(len(sizes)), sizes)
    channel = RewardChannel(scale_source=source)
    info = explain(rewards, ids, channel)
    pooled = within_group_scale(rewards, ids, channel)
    assert info.scale_source == "lagged"
    assert info.nu.tolist() == pytest.approx([pooled] * len(sizes))
    dense = torch.as_tensor(np.stack([rewards[:9], rewards[9:18], *np.zeros((30, 9))]))
    own = within_group_scale(rewards[:18], ids[:18], channel)
    theirs = ref.references("rovr", dense.numpy(), ref.contiguous(9, 3), nu=own)
    ours = rovrl.rovr(dense, rovrl.Blocks.contiguous(9, 3), channel)
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-9)


def test_adaptive_credit_uses_twice_the_spread_and_the_spread():
    x = reward_groups(45, 16, seed=3)[[0, 2, 3, 9, 11, 12, 18]]
    ids = np.repeat(np.arange(len(x)), 16)
    channel = RewardChannel(partition="contiguous", credit_bound="adaptive", credit_floor="adaptive")
    spread = within_group_spread(x.reshape(-1), ids)
    ours = rovrl.grouped_advantages(x.reshape(-1), ids, channel).reshape(-1, 16)
    for row, mine in zip(x, ours, strict=True):
        theta = ref.reference("rovr", row, ref.contiguous(16, 3))
        np.testing.assert_allclose(mine.numpy(), ref.credit(list(row), theta, 2 * spread, spread), atol=1e-8)


@pytest.mark.parametrize("factor", [1e-3, 10.0, 1e4])
def test_adaptive_credit_with_a_wide_score_does_not_see_the_unit_of_the_rewards(factor):
    """With score_width in the same unit, nothing of the reward channel has a unit left (inside its floors and caps)."""
    x = torch.as_tensor(np.random.default_rng(6).normal(size=(20, 16)))
    adaptive = {"credit_bound": "adaptive", "credit_floor": "adaptive", "scale_cap": 1e9, "scale_floor": 1e-12}
    one = rovrl.ADVANTAGES["credit"](x, RewardChannel(**adaptive, curvature_floor=1e-300))
    other = rovrl.ADVANTAGES["credit"](
        factor * x, RewardChannel(**adaptive, score_width=factor, curvature_floor=1e-300)
    )
    torch.testing.assert_close(other, one, atol=1e-8, rtol=0)


def test_adaptive_settings_of_a_batch_without_contrast_are_a_millionth_and_all_advantages_zero():
    lagged = LaggedScale()
    channel = RewardChannel(credit_bound="adaptive", credit_floor="adaptive", scale_source="lagged")
    rewards, ids = torch.ones(32, dtype=torch.float64), [0] * 16 + [1] * 16
    step = channel_for_step(channel, lagged, rewards, ids)
    assert (step.credit_bound, step.credit_floor) == (1e-6, 1e-6)
    assert lagged.value is None
    assert (explain(rewards, ids, step).advantages == 0).all()


def test_a_lone_spike_in_a_group_without_contrast_gets_less_than_the_full_advantage_with_an_adaptive_floor():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(9, 16)) * 0.2
    x[0] = 0.5
    x[0, 3] = 0.52
    paper = rovrl.ADVANTAGES["credit"](torch.as_tensor(x), RewardChannel())[0, 3]
    adaptive = rovrl.ADVANTAGES["credit"](torch.as_tensor(x), RewardChannel(credit_floor="adaptive"))[0, 3]
    assert paper > 3
    assert 0 < adaptive < 0.5
