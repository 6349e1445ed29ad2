"""On which scale right differs from wrong: a layer far from an even bulk, where it follows the prompts."""

import pickle

import numpy as np
import pytest
import torch

import rovrl
from rovrl.faults import find_faults
from rovrl.faults.posterior import unevenness

GUARDED = {"credit_bound": "adaptive", "credit_floor": "adaptive", "faults": "reject"}


def verdicts(seed, prompts=256, group=16, odds=(0.6, 6.0)):
    """Right answers, rare on most prompts and common on some."""
    rng = np.random.default_rng(seed)
    return rng.random((prompts, group)) < rng.beta(*odds, prompts)[:, None], rng


def faults_of(rewards):
    group = torch.arange(len(rewards)).repeat_interleave(rewards.shape[1])
    return find_faults(torch.from_numpy(np.ascontiguousarray(rewards, float)).ravel(), group, len(rewards))


def level(rewards):
    return faults_of(rewards).level


def alignment(rewards, right, **settings):
    advantages = rovrl.ADVANTAGES["credit"](torch.from_numpy(rewards), rovrl.RewardChannel(**settings)).numpy()
    aim = right - right.mean(-1, keepdims=True)
    return float((advantages * aim).sum() / np.linalg.norm(advantages) / np.linalg.norm(aim))


@pytest.mark.parametrize("shaping", [0.1, 0.25])
@pytest.mark.parametrize("unit", [1e-80, 1.0, 40.0, 1e150])
@pytest.mark.parametrize("group", [8, 16])
def test_verdicts_beside_a_small_shaping_term_are_the_level_of_merit_in_any_unit(shaping, unit, group):
    right, rng = verdicts(1, group=group)
    rewards = unit * (right + shaping * rng.random(right.shape) + rng.normal(0, 5, (len(right), 1)))
    assert level(rewards) == pytest.approx(unit, rel=0.1)


@pytest.mark.parametrize("odds", [(0.6, 6.0), (6.0, 0.6)])
def test_credit_then_follows_the_verdicts_where_they_are_rare_and_where_they_are_common(odds):
    right, rng = verdicts(2, odds=odds)
    rewards = right + 0.1 * rng.random(right.shape)
    assert alignment(rewards, right, **GUARDED) > 0.97
    assert alignment(rewards, right, **GUARDED | {"faults": "bound"}) < 0.8


def test_spikes_beside_them_are_rejected_and_the_level_is_that_of_the_verdicts():
    right, rng = verdicts(3)
    hit = rng.random(right.shape) < 0.1
    rewards = right + 0.1 * rng.random(right.shape) + 30 * hit * rng.choice([-1, 1], right.shape)
    assert level(rewards) == pytest.approx(1, rel=0.1)
    assert alignment(rewards, right, **GUARDED) > 0.85  # a tenth of the responses count for nothing
    assert alignment(rewards, right, **GUARDED | {"faults": "bound"}) < 0.7


def test_faults_that_follow_the_prompts_are_no_merit_where_the_bulk_itself_follows_them():
    """The bulk holds right and wrong answers, so its spread differs from prompt to prompt: the far layer is not the merit."""
    for seed in range(4):
        right, rng = verdicts(seed, odds=(1, 1))
        struck = rng.random(right.shape) < rng.beta(0.3, 2.7, len(right))[:, None]
        assert level(0.33 * right + rng.normal(0, 0.05, right.shape) + 4 * struck) == 0
        even = rng.normal(0, 0.15, right.shape) + 4 * struck
        assert level(even) == pytest.approx(
            4, rel=0.05
        )  # beside mere noise the same layer is all there is to learn from


@pytest.mark.parametrize("group", [8, 16])
def test_spikes_with_one_sign_per_prompt_are_no_scale_though_each_side_follows_the_prompts(group):
    """In each group they are as rare as in any other: right and wrong answers are not."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        score = rng.normal(0, 1, (256, group))
        signed = score + 16 * rng.choice([-1, 1], (256, 1)) * (rng.random(score.shape) < 0.1)
        assert level(signed) == 0
        assert alignment(signed, score, **GUARDED) >= alignment(signed, score, **GUARDED | {"faults": "bound"})


def unshown(seed, prompts, rate=0.2):
    """(right answers, scores, the same with faults of every size): without a gap nothing can be shown."""
    right, rng = verdicts(seed, prompts, odds=(0.7, 0.7))
    score = rng.normal(0, 1.15, (prompts, 1)) + 0.33 * right + rng.normal(0, 0.05, right.shape)
    return right, score, score + (rng.random(right.shape) < rate) * rng.standard_cauchy(right.shape)


def explained(rewards, **settings):
    ids = np.repeat(np.arange(len(rewards)), rewards.shape[1])
    return rovrl.explain(torch.from_numpy(rewards.ravel()), ids, rovrl.RewardChannel(**GUARDED | settings))


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_what_is_scattered_by_chance_widens_no_bound_though_it_cannot_be_shown_to_be_a_fault(rate):
    for seed in range(3):
        right, score, faulty = unshown(seed, 256, rate)
        found = explained(faulty)
        assert found.rejected.float().mean() < rate / 2
        clean = explained(score).channel.credit_bound
        assert 0.5 < found.channel.credit_bound / clean < 1  # narrower, as Huber has it, and not wider
        assert explained(faulty, faults="bound").channel.credit_bound > 1.15 * found.channel.credit_bound
        assert alignment(faulty, right, **GUARDED) > alignment(faulty, right, **GUARDED | {"faults": "bound"})


def test_what_follows_the_prompts_widens_the_bound_as_it_does_without_the_test():
    """Right answers worth every amount, on some prompts often: no gap, no layer, and no chance."""
    for seed in range(3):
        right, rng = verdicts(seed, odds=(0.6, 3.0))
        rewards = right * rng.uniform(0.3, 1, right.shape) + 0.05 * rng.random(right.shape)
        bounds = [explained(rewards, faults=word).channel.credit_bound for word in ("reject", "bound")]
        assert bounds[0] == bounds[1]


@pytest.mark.parametrize("apart", ["data sets", "prompts"])
def test_in_a_batch_of_several_units_what_is_scattered_is_asked_in_each(apart):
    for seed in range(3):
        right, _, faulty = unshown(seed, 256)
        rng = np.random.default_rng(seed)
        law = 100.0 ** rng.integers(0, 2, (256, 1)) if apart == "data sets" else np.exp(rng.normal(0, 1.5, (256, 1)))
        rewards = faulty * law
        assert len(set(explained(rewards).unit.tolist())) > 1
        gain = alignment(rewards, right, **GUARDED) - alignment(rewards, right, **GUARDED | {"faults": "bound"})
        assert gain > 0.03


def test_groups_without_contrast_say_what_is_by_chance_in_a_batch_of_several_units_too():
    """Failing marks that follow the prompts, so that many prompts have none: without these they look like chance."""
    narrowed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        failed = rng.random((256, 8)) < rng.beta(1.8, 16.2, (256, 1))
        passed = 5.0 - (rng.random((256, 8)) < np.where(rng.random((256, 1)) < 0.1, 0.3, 0))
        marks = np.where(failed, rng.integers(0, 3, (256, 8)), passed)
        other = 1000.0 * (rng.random((256, 8)) < rng.beta(0.7, 0.7, (256, 1))) + rng.normal(0, 30, (256, 8))
        mixed = int((marks.max(-1) > marks.min(-1)).argmax())
        found = [explained(np.concatenate([marks, other]), faults=word) for word in ("reject", "bound")]
        mine, bounded = (float(each.unit[mixed]) * each.channel.credit_bound for each in found)
        narrowed += mine < 0.97 * bounded
    assert narrowed <= 1


@pytest.mark.parametrize("shape", [(16, 8), (64, 16), (256, 16)])
def test_right_and_failed_beside_wrong_and_a_very_small_bonus_keep_their_bound(shape):
    """What is far lies on both sides and follows the prompts: it is all merit, in a batch and from step to step of a run."""
    run, bounded = (rovrl.RewardRun(rovrl.RewardChannel(**GUARDED | {"faults": word})) for word in ("reject", "bound"))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        right, failed = (rng.random(shape) < rng.beta(*odds, (shape[0], 1)) for odds in ((1, 4), (1, 9)))
        rewards = np.where(failed, -1.0, right) + 0.01 * rng.random(shape)
        for each in (run, bounded):
            each.advantages(torch.from_numpy(rewards.ravel()), np.repeat(np.arange(shape[0]), shape[1]))
        assert run.metrics()["rovr/credit_bound"] == pytest.approx(bounded.metrics()["rovr/credit_bound"], rel=0.15)


def test_an_explanation_does_not_hold_the_window():
    run = rovrl.RewardRun(rovrl.RewardChannel(**GUARDED))
    for seed in range(8):
        rewards = torch.from_numpy(unshown(seed, 8)[2].ravel())
        last = run.explain(rewards, np.repeat(np.arange(8), 16))
    alone = rovrl.explain(rewards, np.repeat(np.arange(8), 16), rovrl.RewardChannel(**GUARDED))
    assert len(pickle.dumps(last)) < 1.2 * len(pickle.dumps(alone))
    assert torch.equal(pickle.loads(pickle.dumps(last)).faults.rejected, last.faults.rejected)


def test_few_responses_say_nothing_of_chance():
    _, _, faulty = unshown(0, 4)
    assert explained(faulty).channel.credit_bound == explained(faulty, faults="bound").channel.credit_bound


def test_a_run_knows_what_is_scattered_by_its_earlier_steps():
    run, bounded = (rovrl.RewardRun(rovrl.RewardChannel(**GUARDED | {"faults": word})) for word in ("reject", "bound"))
    for seed in range(40):
        rewards = torch.from_numpy(unshown(seed, 8, 0.25)[2].ravel())
        for each in (run, bounded):
            each.advantages(rewards, np.repeat(np.arange(8), 16))
    assert run.metrics()["rovr/credit_bound"] < 0.8 * bounded.metrics()["rovr/credit_bound"]


def test_a_layer_far_beyond_the_bulk_may_be_the_mark_of_a_failure_and_is_no_scale():
    right, rng = verdicts(6)
    assert level(1000.0 * right + 0.1 * rng.random(right.shape)) == 0


@pytest.mark.parametrize(("farther", "is_layer"), [(1.02, True), (3.0, False)])
def test_a_layer_lies_at_one_distance(farther, is_layer):
    right, rng = verdicts(8)
    rewards = right * np.where(rng.random(right.shape) < 0.3, farther, 1) + 0.1 * rng.random(right.shape)
    assert (level(rewards) > 0) == is_layer


@pytest.mark.parametrize(("law", "even"), [("normal", True), ("tailed", True), ("by prompt", False)])
def test_a_bulk_is_even_if_its_deviations_differ_as_those_of_samples_do_with_tails_as_it_has(law, even):
    """Student's t with 7 degrees of freedom has a kurtosis of 5: deviations differ more than normal ones, by chance alone."""
    group, strata = np.repeat(np.arange(512), 16), np.repeat(np.arange(2), 256)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.standard_t(7, (512, 16)) if law == "tailed" else rng.normal(0, 1, (512, 16))
        x = x * rng.uniform(0.5, 1.5, (512, 1)) if law == "by prompt" else x
        x[256:] *= 7  # a stratum of its own has a unit of its own
        found = unevenness(x.ravel(), group, strata, np.ones(512, bool))
        assert found < 0.5 if even else found > 0.99


@pytest.mark.parametrize("kind", ["heavy", "both sides", "luck", "sizes", "grades"])
def test_no_level_without_the_whole_evidence(kind):
    right, rng = verdicts(5)
    noise = 0.1 * rng.random(right.shape)
    if kind == "heavy":
        rewards = rng.standard_t(2, right.shape)
    elif kind == "both sides":  # up and down in the same groups
        rewards = right * rng.choice([-1, 1], right.shape) + noise
    elif kind == "luck":  # the same on every prompt
        rewards = (rng.random(right.shape) < 0.1) + noise
    elif kind == "sizes":
        rewards = right * 10 ** rng.uniform(0, 2, right.shape) + noise
    else:
        rewards = rng.integers(0, 3, right.shape) + 5.0 * right
    assert level(rewards) == 0


@pytest.mark.parametrize(("prompts", "group"), [(32, 16), (16, 16), (64, 8)])
def test_a_small_batch_shows_the_level_as_well(prompts, group):
    right, rng = verdicts(5, prompts, group)
    assert level(right + 0.1 * rng.random(right.shape)) == pytest.approx(1, rel=0.1)


def test_a_run_of_small_steps_finds_it_in_its_window_and_says_so():
    run = rovrl.RewardRun(rovrl.RewardChannel(**GUARDED))
    for step in range(8):  # the shaping term shrinks as the run goes on: each step has a spread of its own
        right, rng = verdicts(10 + step, prompts=16)
        shaping = (0.2 - 0.01 * step) * rng.random(right.shape)
        run.advantages((right + shaping).ravel(), np.repeat(np.arange(16), 16))
    assert run.metrics()["rovr/merit_level"] == pytest.approx(1, rel=0.1)
    assert run.metrics()["rovr/credit_bound"] == pytest.approx(run.metrics()["rovr/merit_level"])
    first = rovrl.RewardRun(rovrl.RewardChannel(**GUARDED))
    first.advantages((right + 0.1 * rng.random(right.shape)).ravel(), np.repeat(np.arange(16), 16))
    assert "rovr/merit_level" not in first.metrics()


@pytest.mark.parametrize("settings", [{"faults": "reject"}, GUARDED | {"credit_bound": 1.0, "credit_floor": 1.0}])
def test_a_level_is_told_only_where_credit_is_measured_in_it(settings):
    right, rng = verdicts(7)
    rewards, ids = (right + 0.1 * rng.random(right.shape)).ravel(), np.repeat(np.arange(256), 16)
    assert rovrl.explain(rewards, ids, rovrl.RewardChannel(**GUARDED)).faults.level > 0.9
    assert rovrl.explain(rewards, ids, rovrl.RewardChannel(**GUARDED), method="loo").faults.level == 0
    assert rovrl.explain(rewards, ids, rovrl.RewardChannel(**settings)).faults.level == 0
