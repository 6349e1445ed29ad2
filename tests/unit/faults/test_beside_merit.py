"""Faults beside right answers that are about as far from the bulk: faults are left out or only bounded, right answers stay."""

import numpy as np
import pytest
import torch

from rovrl.faults import find_faults


def batch(seed, group, kind, rate, moved, prompts=256):
    """Rewards and whether each is a fault, [prompt, group]; `moved` makes faults of the honest rewards."""
    rng = np.random.default_rng(seed)
    shape = prompts, group
    right = (rng.random(shape) < rng.beta(*((0.3, 2.5) if kind == "rare" else (0.7, 0.7)), prompts)[:, None]).astype(
        float
    )
    honest = right if kind == "verdicts" else right + 0.1 * rng.random(shape)
    faults = rng.random(shape) < rate
    return np.where(faults, moved(honest, rng.choice([-1, 1], shape)), honest), faults


def found(rewards):
    group = torch.arange(len(rewards)).repeat_interleave(rewards.shape[1])
    result = find_faults(torch.from_numpy(rewards.ravel()), group, len(rewards))
    return result, result.rejected.numpy().reshape(rewards.shape)


@pytest.mark.parametrize("value", [10.0, -10.0])
@pytest.mark.parametrize(("group", "rate"), [(8, 0.05), (8, 0.1), (16, 0.05), (16, 0.1), (16, 0.2)])
def test_a_crash_at_ten_steps_from_verdicts_that_follow_the_prompts_is_found(group, rate, value):
    rewards, faults = batch(0, group, "verdicts", rate, lambda honest, sign: np.full_like(honest, value))
    rejected = found(rewards)[1]
    assert rejected[faults].mean() > 0.9
    assert not rejected[~faults].any()


@pytest.mark.parametrize("right", [0.1, 0.3])
def test_a_right_answer_beside_a_format_mark_is_no_fault_though_as_likely_on_every_prompt(right):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        shape = 256, 16
        rewards = np.maximum(0.1 * (rng.random(shape) < 0.6), 1.0 * (rng.random(shape) < right))
        assert not found(rewards)[1].any()


@pytest.mark.parametrize("kind", ["common", "rare"])
@pytest.mark.parametrize("move", ["up", "down", "both"])
@pytest.mark.parametrize(("group", "rate"), [(4, 0.05), (4, 0.1), (8, 0.1), (8, 0.2), (16, 0.1), (16, 0.2)])
def test_right_answers_are_not_left_out_together_with_faults_a_little_beyond_them(group, rate, move, kind):
    lost = []
    for seed in range(3):
        rewards, faults = batch(
            seed, group, kind, rate, lambda r, sign: r + 1.65 * {"up": 1, "down": -1, "both": sign}[move]
        )
        lost.append(found(rewards)[1][~faults].mean())
    assert np.mean(lost) < (0.15 if group == 4 else 0.02)  # four responses show few layers
