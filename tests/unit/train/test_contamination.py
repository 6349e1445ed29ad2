"""Planted corruption: seeded, labelled, the same for every method, and nothing else is touched."""

import numpy as np
import pytest
import torch

from rovrl.errors import RovrlError
from rovrl.train.contamination import Failures, Flips, HeavyTails, Shift, Spikes, contaminate, parse
from rovrl_paper.lab.models.mismatch import PRECISIONS, degraded
from rovrl_paper.lab.rewards import GLOBAL_SD, KINDS, EmbeddedReward

N = 16 * 2000
GROUPS = np.arange(N) // 16
EVERY = [Spikes(), Spikes(decades=2.0, clustering=0.3), HeavyTails(rate=0.3), Failures(), Shift(), Flips()]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("kind", EVERY, ids=lambda k: type(k).__name__)
def test_unlabelled_responses_are_untouched_and_labelled_ones_changed(kind):
    rewards = rng(1).normal(size=N)
    changed, labels = contaminate(rewards, GROUPS, [kind], rng())
    hit = np.array([bool(label) for label in labels])
    assert hit.any()
    assert not hit.all()
    assert np.array_equal(changed[~hit], rewards[~hit])
    assert (changed[hit] != rewards[hit]).all()


@pytest.mark.parametrize("kind", EVERY, ids=lambda k: type(k).__name__)
def test_what_is_hit_does_not_depend_on_the_rewards(kind):
    one = contaminate(rng(1).normal(size=N), GROUPS, [kind], rng(7))
    other = contaminate(rng(2).normal(size=N), GROUPS, [kind], rng(7))
    assert one.labels == other.labels


@pytest.mark.parametrize("kind", EVERY, ids=lambda k: type(k).__name__)
def test_another_seed_hits_other_responses(kind):
    rewards = rng(1).normal(size=N)
    assert contaminate(rewards, GROUPS, [kind], rng(7)).labels != contaminate(rewards, GROUPS, [kind], rng(8)).labels


@pytest.mark.parametrize("kind", [Spikes(rate=0.1), HeavyTails(rate=0.3), Failures(rate=0.05), Flips(rate=0.2)])
def test_the_rate_is_kept(kind):
    labels = contaminate(np.zeros(N) + 0.2, GROUPS, [kind], rng()).labels
    share = np.mean([bool(label) for label in labels])
    assert abs(share - kind.rate) < 4 * (kind.rate * (1 - kind.rate) / N) ** 0.5  # four standard errors


def test_spikes_have_the_size_in_units_and_the_sign_that_their_label_says():
    changed, labels = contaminate(np.zeros(N), GROUPS, [Spikes(size=16)], rng(), unit=1.165)
    expected = {"": 0.0, "spike+": 16 * 1.165, "spike-": -16 * 1.165}
    assert changed.tolist() == [expected[label] for label in labels]
    ups = labels.count("spike+") / (labels.count("spike+") + labels.count("spike-"))
    assert abs(ups - 0.5) < 4 * 0.5 / (0.1 * N) ** 0.5


def test_one_sided_spikes_strike_the_same_responses_as_two_sided_ones():
    both = contaminate(np.zeros(N), GROUPS, [Spikes()], rng(3)).labels
    up = contaminate(np.zeros(N), GROUPS, [Spikes(sign="up")], rng(3)).labels
    assert [bool(label) for label in both] == [bool(label) for label in up]
    assert set(up) == {"", "spike+"}


def test_varied_sizes_are_log_uniform_over_the_declared_decades_on_the_responses_that_plain_spikes_hit():
    plain = contaminate(np.zeros(N), GROUPS, [Spikes(size=16)], rng(3))
    varied = contaminate(np.zeros(N), GROUPS, [Spikes(size=16, decades=2)], rng(3), unit=0.5)
    assert varied.labels == plain.labels
    moved = varied.rewards[varied.rewards != 0]
    assert np.array_equal(np.sign(moved), np.sign(plain.rewards[plain.rewards != 0]))
    below = np.log10(8.0 / np.abs(moved))  # decades below the largest
    assert below.min() >= 0
    assert below.max() <= 2
    share, error = np.histogram(below, 4, (0, 2))[0] / len(moved), (0.25 * 0.75 / len(moved)) ** 0.5
    assert np.abs(share - 0.25).max() < 4 * error


@pytest.mark.parametrize("clustering", [0.0, 0.1, 0.3, 1.0])
def test_faults_that_depend_on_the_prompt_keep_the_mean_rate_and_have_the_declared_intraclass_correlation(clustering):
    labels = contaminate(np.zeros(N), GROUPS, [Spikes(rate=0.2, clustering=clustering)], rng()).labels
    counts = np.array([bool(label) for label in labels]).reshape(-1, 16).sum(1)
    rate = counts.mean() / 16
    assert rate == pytest.approx(0.2, abs=4 * (0.2 * 0.8 * (1 + 15 * clustering) / N) ** 0.5)
    # a beta-binomial count has variance n p (1 - p) (1 + (n - 1) rho)
    found = (counts.var() / (16 * 0.2 * 0.8) - 1) / 15
    assert found == pytest.approx(clustering, abs=0.03)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_of_none_or_all_has_nothing_to_cluster(rate):
    labels = contaminate(np.zeros(64), GROUPS[:64], [Spikes(rate=rate, clustering=0.5)], rng()).labels
    assert {bool(label) for label in labels} == {rate == 1.0}


def test_a_shift_moves_the_declared_share_of_a_struck_group_together_and_leaves_the_others():
    changed, labels = contaminate(np.zeros(N), GROUPS, [Shift(rate=0.3, share=0.5, size=4)], rng())
    per_group = np.array([bool(label) for label in labels]).reshape(-1, 16).sum(1)
    assert set(per_group) == {0, 8}
    assert all(len(set(row) - {0.0}) <= 1 for row in changed.reshape(-1, 16))


def test_failures_are_no_scores():
    for value in ("nan", "inf", "-inf"):
        changed, labels = contaminate(np.zeros(N), GROUPS, [Failures(value=value)], rng())
        assert np.array_equal(~np.isfinite(changed), [label == "failure" for label in labels])


def test_two_kinds_on_one_response_are_both_told():
    labels = contaminate(np.zeros(N), GROUPS, [Spikes(rate=1.0, sign="up"), Flips(rate=1.0)], rng()).labels
    assert set(labels) == {"spike+,flip"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spikes", Spikes()),
        ("spikes:rate=0.05,size=8,sign=up", Spikes(0.05, 8.0, "up")),
        ("spikes:decades=2,clustering=0.3", Spikes(decades=2.0, clustering=0.3)),
        ("failures:value=-inf", Failures(value="-inf")),
        ("shift:rate=1,share=0.25", Shift(1.0, 0.25)),
    ],
)
def test_contamination_is_written_in_words(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("spike", "did you mean spikes.*; the kinds are spikes"),
        ("spikes:rates=1", "it has rate, size, sign, decades, clustering"),
        ("spikes:rate=2", "rate must be between 0 and 1, not '2'"),
        ("spikes:decades=-1", "decades must be 0 or above, not '-1'"),
        ("spikes:clustering=2", "clustering must be between 0 and 1, not '2'"),
        ("spikes:size=big", "size must be a finite number, not 'big'"),
        ("spikes:sign=left", "sign must be one of both, up, down"),
        ("failures:value=0", "value must be one of nan, inf, -inf"),
        ("heavy_tails:freedom=0", "freedom must be above 0"),
        ("spikes:rate=nan", "rate must be between 0 and 1"),
    ],
)
def test_a_wrong_word_gets_a_sentence(text, sentence):
    with pytest.raises(RovrlError, match=sentence):
        parse(text)


def test_the_score_reward_has_the_published_facts():
    """Global sd 1.165 and median within-group sd 0.165 at even odds; 2 % is five standard errors of the former."""
    prompts = [f"{g}" for g in range(2000) for _ in range(16)]
    reward = EmbeddedReward("score", seed=3)
    verdicts = (np.random.default_rng(0).random(N) < 0.5).astype(float)
    groups = reward.rewards(verdicts, prompts, step=1).reshape(-1, 16)
    assert groups.std() == pytest.approx(GLOBAL_SD, rel=0.04)
    assert np.median(groups.std(1)) == pytest.approx(0.165, rel=0.05)


def test_the_bonus_reward_recognises_right_answers_on_a_quarter_of_the_prompts_and_always_on_the_same():
    prompts = [f"{g}" for g in range(2000) for _ in range(16)]
    reward = EmbeddedReward("bonus", seed=3)
    right, wrong = (reward.rewards(np.full(N, y), prompts, step=1).reshape(-1, 16) for y in (1.0, 0.0))
    assert wrong.min() >= 0
    assert wrong.max() < 0.1
    gained = np.round(right - wrong, 12)
    assert set(gained.flatten()) == {0.0, 1.0}
    assert (gained == gained[:, :1]).all()
    assert gained.mean() == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 2000) ** 0.5)
    later = reward.rewards(np.ones(N), prompts, step=2) - reward.rewards(np.zeros(N), prompts, step=2)
    assert np.array_equal(np.round(later, 12).reshape(-1, 16), gained)


def test_mixed_units_grade_half_of_the_prompts_from_0_to_100_and_have_the_stated_global_spread():
    prompts = [f"{g}" for g in range(2000) for _ in range(16)]
    verdicts = (np.random.default_rng(0).random(N) < 0.5).astype(float)
    groups = EmbeddedReward("units", seed=3).rewards(verdicts, prompts, step=1).reshape(-1, 16)
    plain = np.isin(groups, (0.0, 1.0)).all(1)
    assert np.array_equal(groups[plain], verdicts.reshape(-1, 16)[plain])
    assert np.abs(groups[~plain] - 100 * verdicts.reshape(-1, 16)[~plain]).max() < 3 * 6  # six standard deviations
    assert plain.mean() == pytest.approx(0.5, abs=4 * 0.5 / 2000**0.5)
    assert groups.std() == pytest.approx(KINDS["units"].unit, rel=0.04)


def test_every_method_meets_the_same_noise_and_spikes_whatever_it_answers():
    prompts = [f"{g}" for g in range(4) for _ in range(16)]
    one, other = (EmbeddedReward("score", 1, [Spikes(rate=0.3)]) for _ in range(2))
    right, wrong = one.rewards(np.ones(64), prompts, 5), other.rewards(np.zeros(64), prompts, 5)
    assert np.allclose(right - wrong, 0.33)
    labels = [r.corrupt(torch.zeros(64, 1), 5)[1] for r in (one, other)]
    assert labels[0] == labels[1]


def test_a_step_met_again_after_a_restart_is_the_same():
    prompts = ["a"] * 8 + ["b"] * 8
    first = EmbeddedReward("score", 1, [Spikes(rate=0.5)], group=8)
    for step in range(1, 4):
        last = first.rewards(np.ones(16), prompts, step), first.corrupt(torch.ones(16, 1), step)
    again = EmbeddedReward("score", 1, [Spikes(rate=0.5)], group=8)
    repeated = again.rewards(np.ones(16), prompts, 3), again.corrupt(torch.ones(16, 1), 3)
    assert np.array_equal(last[0], repeated[0])
    assert torch.equal(last[1][0], repeated[1][0])


def test_flips_turn_verdicts_and_are_told_with_the_rewards():
    reward = EmbeddedReward("rule", 1, [Flips(rate=1.0)], group=4)
    assert reward.rewards(np.array([0.0, 1.0, 1.0, 0.0]), ["a"] * 4, 1).tolist() == [1, 0, 0, 1]
    assert reward.corrupt(torch.zeros(4, 1), 1)[1] == ["flip"] * 4


def test_who_is_told_the_faults_gets_no_number_in_their_place_and_everything_else_as_it_is():
    plan = [Spikes(rate=0.5), Flips(rate=0.2)]
    blind, told = (EmbeddedReward("rule", 1, plan, told=told, group=16) for told in (False, True))
    for reward in (blind, told):
        reward.rewards(np.zeros(64), ["a"] * 64, 1)
    (seen, labels), (known, same) = (reward.corrupt(torch.zeros(64, 1), 1) for reward in (blind, told))
    assert labels == same
    struck = torch.tensor([label != "" for label in labels])
    assert 16 < int(struck.sum()) < 60
    assert torch.equal(known[:, 0].isnan(), struck)
    assert torch.equal(known[~struck], seen[~struck])


def test_the_clamp_comes_after_the_corruption():
    reward = EmbeddedReward("rule", 1, [Spikes(rate=1.0)], clamp=(0.0, 1.0), group=4)
    reward.rewards(np.zeros(4), ["a"] * 4, 1)
    assert set(reward.corrupt(torch.zeros(4, 1), 1)[0].flatten().tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_degraded_weights_are_rounded_inside_and_exactly_themselves_afterwards(precision, generator):
    layer = torch.nn.Linear(32, 16)
    with torch.no_grad():
        layer.weight.normal_(generator=generator)
    before = layer.weight.detach().clone()
    with degraded(layer, precision):
        error = (layer.weight - before).abs()
        # half a step: 2^-9 of the value in bfloat16, 1/254 of the row's largest in int8, 1/14 in int4
        largest = before.abs().amax(1, keepdim=True)
        allowed = {"bfloat16": before.abs() * 2**-8, "int8": largest / 253, "int4": largest / 13.9}[precision]
        assert (error > 0).any()
        assert (error <= allowed).all()
    assert torch.equal(layer.weight, before)


def test_weights_come_back_after_an_error_inside():
    layer = torch.nn.Linear(8, 8)
    before = layer.weight.detach().clone()
    with pytest.raises(RuntimeError, match="inside"), degraded(layer, "int8"):
        raise RuntimeError("inside")
    assert torch.equal(layer.weight, before)
