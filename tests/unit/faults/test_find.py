"""Which rewards are faults: what is found, what is spared, and what the answer does not depend on."""

import json
import warnings

import numpy as np
import pytest
import torch

from rovrl.faults import FaultWindow, find_faults

SIZE = 16 * 1.165


def batch(seed=0, prompts=256, group=16, rate=0.0, sign="both", kind="score"):
    """Rewards, which of them are faults, and their group."""
    rng = np.random.default_rng(seed)
    shape = prompts, group
    right = rng.random(shape) < rng.beta(0.7, 0.7, prompts)[:, None]
    score = rng.normal(0, 1.15, (prompts, 1)) + 0.33 * right + rng.normal(0, 0.05, shape)
    rewards = {"score": score, "verdict": right.astype(float), "bonus": right + 0.1 * rng.random(shape)}[kind]
    hit = rng.random(shape) < rate
    direction = {"both": rng.choice([-1, 1], shape), "up": 1}[sign]
    values = torch.from_numpy((rewards + hit * direction * SIZE).ravel())
    return values, torch.from_numpy(hit.ravel()), torch.arange(prompts).repeat_interleave(group)


def found(rewards, group, window=None):
    return find_faults(rewards, group, int(group.max()) + 1, window)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("sign", ["both", "up"])
@pytest.mark.parametrize("kind", ["score", "verdict", "bonus"])
def test_spikes_are_found_and_honest_rewards_are_not(rate, sign, kind):
    rewards, hit, group = batch(rate=rate, sign=sign, kind=kind)
    rejected = found(rewards, group).rejected
    assert rejected[hit].double().mean() > 0.98
    assert rejected[~hit].double().mean() < 0.005


@pytest.mark.parametrize("kind", ["score", "verdict", "bonus"])
@pytest.mark.parametrize("group", [4, 8, 16])
def test_clean_rewards_lose_no_response(kind, group):
    for seed in range(5):
        rewards, _, ids = batch(seed, group=group, kind=kind)
        assert not found(rewards, ids).rejected.any()


def test_both_sides_have_a_threshold_of_their_own():
    rewards, hit, group = batch(rate=0.1, sign="up")
    result = found(rewards, group)
    assert 0.5 < result.above.threshold < SIZE
    assert result.below.threshold == np.inf
    assert result.above.hits == int(hit.sum())
    assert 0.8 < result.above.dispersion < 1.2


def test_most_responses_of_a_group_may_be_hit():
    rewards, hit, group = batch(rate=0.45)
    rejected = found(rewards, group).rejected
    assert rejected[hit].double().mean() > 0.9
    assert rejected[~hit].double().mean() < 0.04


def test_a_small_batch_shows_nothing_by_itself_and_all_with_a_window():
    window = FaultWindow()
    for step in range(20):
        rewards, hit, group = batch(100 + step, prompts=16, rate=0.1)
        alone, together = found(rewards, group).rejected, found(rewards, group, window).rejected
        assert not alone[~hit].any()
        assert not together[~hit].any()
        if step >= 8:
            assert torch.equal(together, hit)
        window.add(rewards, group)
    assert len(window) == 4096


def test_faults_that_begin_within_the_window_are_found_though_their_rate_has_changed():
    window = FaultWindow()
    for step in range(14):
        rewards, hit, group = batch(step, prompts=16, rate=0.3 if step >= 8 else 0.0)
        rejected = found(rewards, group, window).rejected
        window.add(rewards, group)
    assert rejected[hit].double().mean() > 0.9
    assert not rejected[~hit].any()


def test_a_window_survives_json_and_goes_on_exactly():
    window, restored = FaultWindow(512), FaultWindow()
    for step in range(4):
        rewards, _, group = batch(step, prompts=16, rate=0.1)
        window.add(rewards, group)
    restored.load_state_dict(json.loads(json.dumps(window.state_dict())))
    assert restored.state_dict() == window.state_dict()
    assert len(window) == 512
    rewards, _, group = batch(9, prompts=64, rate=0.1)
    one, other = found(rewards, group, window), found(rewards, group, restored)
    assert torch.equal(one.rejected, other.rejected)
    assert one.above == other.above


@pytest.mark.parametrize(
    ("state", "word"),
    [({"steps": []}, "capacity"), ({"capacity": 9, "steps": [[[3], [1.0, 2.0]]]}, "as many"), ({}, "missing")],
)
def test_a_damaged_window_is_refused_in_a_sentence(state, word):
    with pytest.raises(ValueError, match=word):
        FaultWindow().load_state_dict(state)


def test_the_answer_follows_shifts_units_and_order():
    rewards, _, group = batch(rate=0.1)
    plain = found(rewards, group).rejected
    shifts = torch.linspace(-5, 5, 256, dtype=torch.float64)[group]
    order = torch.randperm(len(rewards), generator=torch.Generator().manual_seed(0))
    assert torch.equal(found(rewards + shifts, group).rejected, plain)
    assert torch.equal(found(rewards * 1e-9, group).rejected, plain)
    assert torch.equal(found(rewards * 2.0**40, group).rejected, plain)
    assert torch.equal(found(rewards[order], group[order]).rejected, plain[order])
    assert torch.equal(found(rewards, 255 - group).rejected, plain)
    assert torch.equal(found(rewards.float(), group).rejected, plain)


def test_ragged_groups_and_gaps_are_tested_like_others():
    rewards, hit, group = batch(rate=0.1)
    keep = torch.rand(len(rewards), generator=torch.Generator().manual_seed(1)) < 0.8
    gaps = torch.rand(len(rewards), generator=torch.Generator().manual_seed(2)) < 0.1
    values = torch.where(gaps, torch.nan, rewards)[keep]
    rejected = found(values, group[keep]).rejected
    assert torch.equal(rejected, (hit & ~gaps)[keep])


@pytest.mark.parametrize(
    "rewards",
    [
        torch.zeros(64),
        torch.full((64,), torch.nan),
        torch.zeros(0),
        torch.arange(64) * 1e300,
        torch.cat([torch.zeros(63), torch.tensor([1e300])]),
        torch.tensor([-1.7e308, 1.7e308] * 32, dtype=torch.float64),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 16, 64])
def test_odd_batches_give_an_answer_without_a_warning(rewards, size):
    group = torch.arange(len(rewards)) // size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not find_faults(rewards, group, len(group)).rejected.any()


def test_faults_at_the_end_of_the_range_of_numbers_are_found_without_a_warning():
    rewards, hit, group = batch(rate=0.1)
    ends = torch.tensor([-1.7e308, 1.7e308], dtype=torch.float64)[torch.arange(len(rewards)) % 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(found(torch.where(hit, ends, rewards), group).rejected, hit)


def test_grades_of_a_long_scale_are_no_faults_and_what_spans_more_than_a_scale_is():
    """Percent, with a failing 0 as rare on every prompt: grades. Quarters moved by 64 steps, both ways in one group: faults."""
    rng = np.random.default_rng(0)
    group = torch.arange(256).repeat_interleave(16)
    percent = np.where(rng.random((256, 16)) < 0.06, 0, 75 + rng.integers(-2, 3, (256, 16)))
    assert not found(torch.from_numpy(percent.ravel().astype(float)), group).rejected.any()
    for prompts in (256, 64):
        quarters = rng.binomial(4, rng.beta(2, 2, (prompts, 1)), (prompts, 16)) / 4
        hit = torch.from_numpy(rng.random(quarters.size) < 0.1)
        moved = torch.from_numpy(quarters.ravel()) + 16 * hit * torch.from_numpy(rng.choice([-1, 1], quarters.size))
        rejected = found(moved, group[: moved.numel()]).rejected
        assert not rejected[~hit].any()
        assert rejected[hit].double().mean() > 0.5


@pytest.mark.parametrize("group", [4, 8, 16])
def test_right_answers_as_rare_on_every_prompt_are_kept_where_rewards_are_grades(group):
    """0/1 minus a cent per turn: a hundred steps apart, and no continuous part."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rewards = (rng.random((256, group)) < 0.12) - 0.01 * rng.integers(1, 6, (256, group))
        ids = torch.arange(256).repeat_interleave(group)
        assert not found(torch.from_numpy(rewards.ravel()), ids).rejected.any()


@pytest.mark.parametrize("spiked", [0.0, 0.1])
def test_a_sum_with_a_part_that_is_luck_does_not_lose_the_verdicts_beyond_it(spiked):
    """Half a point that 80 % of all responses get is luck; the two points farther out follow the prompts, and are no faults."""
    for seed in range(4):
        rng = np.random.default_rng((seed, 70))
        shape, chance = (256, 8), rng.beta(0.7, 0.7, (256, 1))
        form = 0.5 * (rng.random(shape) < rng.beta(5, 1, (256, 1))) + 0.5 * (rng.random(shape) < 0.8)
        hit = rng.random(shape) < spiked
        rewards = 2.0 * (rng.random(shape) < chance) + form + 0.1 * rng.random(shape)
        rewards = rewards + 60.0 * hit * rng.choice([-1, 1], shape)
        rejected = find_faults(torch.from_numpy(rewards).ravel(), torch.arange(256).repeat_interleave(8), 256).rejected
        assert rejected.numpy()[~hit.ravel()].mean() < 0.005


def test_faults_of_two_sizes_on_the_two_sides_do_not_vouch_for_each_others_centers():
    """A center on a lone fault of +20 leaves its group 20 below, which is nearer than the faults of -50 there."""
    for seed in range(4):
        rng = np.random.default_rng((seed, 71))
        values, kind = rng.normal(0, 1, (256, 16)), rng.random((256, 16))
        values += 5 * (rng.random((256, 16)) < rng.random((256, 1)))  # else nothing tells merit from faults
        rewards = np.where(kind < 0.15, -50.0, np.where(kind < 0.2, 20.0, values))
        found = find_faults(torch.from_numpy(rewards).ravel(), torch.arange(256).repeat_interleave(16), 256)
        assert found.level == 0
        assert found.rejected.numpy()[(kind < 0.2).ravel()].mean() > 0.95
        assert found.rejected.numpy()[(kind >= 0.2).ravel()].mean() < 0.005
