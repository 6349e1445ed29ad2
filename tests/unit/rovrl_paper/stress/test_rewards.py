"""The reward stress protocol against a loop over responses, and the stream that it runs on."""

import math

import pytest
import torch

from rovrl.config import RewardChannel
from rovrl_paper.stress.rewards import MEASURES, contenders, far_apart, measure, suggestions, summarize
from rovrl_paper.worlds import GLOBAL_SD, WITHIN_SD, Knobs, draw, published_rewards


def median(values: list[float]) -> float:
    ordered, n = sorted(values), len(values)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def slow(rewards, contender, shift, sigma):
    """sec:reward_contamination in words: every response in turn, both signs, medians within the group, mean of signs."""
    found = {name: [] for name in MEASURES}
    for group in rewards:
        clean = contender.apply(group.unsqueeze(0))
        signs = {name: [] for name in MEASURES}
        for sign in (1, -1):
            each = {name: [] for name in MEASURES}
            for i in range(len(group)):
                spiked = group.clone()
                spiked[i] += sign * shift
                after = contender.apply(spiked.unsqueeze(0))
                others = [k for k in range(len(group)) if k != i]
                a, b = after.advantages[0, others], clean.advantages[0, others]
                each["reference_displacement"].append(abs(float(after.reference - clean.reference)) / sigma)
                each["scale_inflation"].append(float(after.scale / clean.scale))
                each["contrast_retention"].append(float(a.std() / b.std()))
                each["rms_deviation"].append(math.sqrt(float((a - b).square().mean())))
            for name in MEASURES:
                signs[name].append(median(each[name]))
        for name in MEASURES:
            found[name].append(sum(signs[name]) / 2)
    return found


@pytest.mark.parametrize("name", ["grpo", "center", "credit", "credit_b1", "credit_adaptive"])
def test_the_batched_protocol_is_the_loop_over_responses(name, generator):
    rewards = published_rewards(5, 9, generator)
    contender = next(c for c in contenders(rewards, RewardChannel()) if c.name == name)
    fast = measure(rewards, contender, 4.0, 0.7)
    for key, values in slow(rewards, contender, 4.0, 0.7).items():
        torch.testing.assert_close(fast[key], torch.tensor(values, dtype=torch.float64), rtol=1e-9, atol=1e-12, msg=key)


def test_a_peer_has_contrast_and_deviation_but_no_reference_to_displace(generator):
    rewards = published_rewards(4, 8, generator)
    winsor = next(c for c in contenders(rewards, RewardChannel()) if c.name == "winsor")
    found = measure(rewards, winsor, 18.0, 1.0)
    assert found["reference_displacement"].isnan().all()
    assert found["scale_inflation"].isnan().all()
    assert (found["contrast_retention"] > 0.5).all()


def test_the_calibrated_stream_has_the_published_facts(generator):
    rewards = published_rewards(500, 16, generator)
    assert float(rewards.std(correction=0)) == pytest.approx(GLOBAL_SD, rel=0.005)
    assert float(rewards.std(-1, correction=0).quantile(0.5)) == pytest.approx(WITHIN_SD, rel=1e-9)
    assert (GLOBAL_SD, WITHIN_SD) == (1.165, 0.165)


def test_groups_without_contrast_are_left_out_of_the_summary():
    values = torch.tensor([1.0, math.nan, 3.0, math.nan, 2.0], dtype=torch.float64)
    draws = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 1]])
    middle, low, high = summarize(values, draws)
    assert middle == 2.0
    assert 1.0 <= low <= high <= 2.0


def test_suggestions_trade_contrast_for_fidelity(generator):
    scale, found = suggestions(published_rewards(60, 16, generator), RewardChannel(), GLOBAL_SD)
    kept = [s.contrast_retention for s in found]
    assert scale == pytest.approx(WITHIN_SD, rel=0.25)
    assert kept == sorted(kept, reverse=True)
    assert found[0].clean_correlation < found[-1].clean_correlation
    assert found[2].multiple == 2.0
    assert found[2].credit_bound == pytest.approx(2 * scale)


def test_rewards_without_any_contrast_suggest_nothing():
    scale, found = suggestions(torch.ones(4, 8), RewardChannel(), 1.0)
    assert (scale, found) == (0.0, [])


def test_groups_in_which_a_few_stand_far_apart_are_counted_and_those_of_two_halves_are_not():
    rare = torch.from_numpy(draw("rarebonus", 1, Knobs(prompts=128)).rewards)
    clean = torch.from_numpy(draw("clean", 1, Knobs(prompts=128)).rewards)
    assert far_apart(rare, 0.1) > 30
    assert far_apart(clean, 0.15) == 0
    assert far_apart(torch.tensor([[0.0, 1.0] * 8]), 0.01) == 0  # half of a group is no minority
    assert far_apart(torch.zeros(4, 16), 0.0) == 0
