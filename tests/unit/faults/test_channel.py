"""RewardChannel(faults="reject"): rejected rewards leave every statistic as a NaN does, in the pure functions and in a run."""

import json
import warnings

import numpy as np
import pytest
import torch

import rovrl
from rovrl import RewardChannel, RewardRun
from rovrl.advantage import explain_groups
from rovrl.diagnostics import reward_metrics
from rovrl.faults import Faults
from rovrl.groups import Groups, Partitions

ADAPTIVE = {"credit_bound": "adaptive", "credit_floor": "adaptive"}
GUARDED = RewardChannel(**ADAPTIVE, faults="reject")


def batch(seed=0, prompts=256, group=16, rate=0.1):
    rng = np.random.default_rng(seed)
    shape = prompts, group
    right = rng.random(shape) < rng.beta(0.7, 0.7, prompts)[:, None]
    rewards = rng.normal(0, 1.15, (prompts, 1)) + 0.33 * right + rng.normal(0, 0.05, shape)
    hit = rng.random(shape) < rate
    values = torch.from_numpy((rewards + hit * rng.choice([-18.6, 18.6], shape)).ravel())
    return values, torch.from_numpy(hit.ravel()), np.repeat(np.arange(prompts), group)


@pytest.mark.parametrize("settings", [{}, ADAPTIVE, {"scale_source": "lagged"}])
@pytest.mark.parametrize("method", ["credit", "center", "grpo", "loo"])
def test_a_rejected_reward_is_left_out_as_a_nan_is(settings, method):
    rewards, hit, ids = batch(prompts=64)
    info = rovrl.explain(rewards, ids, RewardChannel(**settings, faults="reject"), method=method)
    assert torch.equal(info.rejected, hit)
    assert info.finite.all()
    gaps = torch.where(info.rejected, torch.nan, rewards)
    expected = rovrl.explain(gaps, ids, RewardChannel(**settings), method=method)
    torch.testing.assert_close(info.advantages, expected.advantages, rtol=0, atol=0)
    torch.testing.assert_close(info.reference, expected.reference, rtol=0, atol=0)
    assert torch.equal(info.finite_size, expected.finite_size)
    assert (info.advantages[info.rejected] == 0).all()


@pytest.mark.parametrize("method", ["credit", "center", "grpo"])
def test_dense_and_ragged_functions_reject_alike(method):
    rewards, hit, ids = batch(prompts=64)
    dense = rovrl.ADVANTAGES[method](rewards.view(64, 16), GUARDED)
    ragged = rovrl.grouped_advantages(rewards, ids, GUARDED, method=method)
    torch.testing.assert_close(dense.flatten(), ragged, rtol=0, atol=0)
    assert (dense.flatten()[hit] == 0).all()


def test_a_reward_of_probability_p_is_left_out_with_probability_two_p_minus_one():
    """By one number for the batch: those as uncertain are left out together, and what is as likely merit as fault never is."""
    faults = Faults(torch.tensor([0.2, 0.5, 0.75, 0.98, 0.85], dtype=torch.float64))
    cases = [(share, out.nonzero().flatten().tolist()) for share, out in faults.cases()]
    assert cases == [(pytest.approx(0.3), [3]), (pytest.approx(0.2), [3, 4]), (pytest.approx(0.5), [2, 3, 4])]
    assert faults.rejected.tolist() == [False, False, False, True, False]
    assert [share for share, _ in Faults(torch.zeros(5)).cases()] == [1.0]


def test_the_advantages_are_the_mean_over_what_is_left_out():
    rewards, hit, ids = batch(prompts=64)
    doubtful = hit & (rewards > 5)
    faults = Faults(torch.where(doubtful, 0.85, hit.double()))
    found = explain_groups(rewards, Groups.of(ids, rewards), GUARDED, Partitions(GUARDED), faults=faults)
    without = [
        rovrl.explain(torch.where(out, torch.nan, rewards), ids, RewardChannel(**ADAPTIVE))
        for out in (hit & ~doubtful, hit)
    ]
    torch.testing.assert_close(found.advantages, 0.3 * without[0].advantages + 0.7 * without[1].advantages)
    assert torch.equal(found.rejected, hit & ~doubtful)
    assert torch.equal(found.fault_probability, faults.probability)


def test_without_faults_rejecting_changes_nothing():
    rewards, _, ids = batch(rate=0.0)
    info = rovrl.explain(rewards, ids, GUARDED)
    assert not info.rejected.any()
    assert torch.equal(info.advantages, rovrl.grouped_advantages(rewards, ids, RewardChannel(**ADAPTIVE)))


def test_the_default_bounds_and_rejects_nothing():
    rewards, _, ids = batch()
    info = rovrl.explain(rewards, ids)
    assert not info.rejected.any()
    assert info.faults is None
    assert "rovr/rejected" not in reward_metrics(info)


def test_an_explanation_says_which_thresholds_were_used_and_the_metrics_log_them():
    rewards, hit, ids = batch()
    info = rovrl.explain(rewards, ids, GUARDED)
    assert info.faults is not None
    assert 0.5 < info.faults.above.threshold < 18.6
    metrics = reward_metrics(info)
    assert metrics["rovr/rejected"] == pytest.approx(float(hit.double().mean()))
    assert metrics["rovr/fault_threshold_above"] == info.faults.above.threshold
    assert metrics["rovr/fault_threshold_below"] == info.faults.below.threshold
    assert 0.7 < metrics["rovr/fault_dispersion_above"] < 1.3
    assert metrics["rovr/nonfinite_rate"] == 0


def steps(run, seeds, prompts=8):
    return [run.explain(*batch(seed, prompts=prompts)[::2]) for seed in seeds]


def test_a_run_shows_with_its_window_what_a_small_step_alone_cannot():
    run = RewardRun(GUARDED)
    steps(run, range(20))
    rewards, hit, ids = batch(99, prompts=3)
    assert hit.any()
    assert not rovrl.explain(rewards, ids, GUARDED).rejected.any()
    assert torch.equal(run.explain(rewards, ids).rejected, hit)


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_its_window():
    whole, first = RewardRun(GUARDED, seed=3), RewardRun(GUARDED, seed=3)
    expected = steps(whole, range(24))
    steps(first, range(14))
    second = RewardRun(GUARDED)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for info, before in zip(steps(second, range(14, 24)), expected[14:], strict=True):
        assert torch.equal(info.rejected, before.rejected)
        assert torch.equal(info.advantages, before.advantages)
    assert second.state_dict() == whole.state_dict()


def test_an_evaluation_reads_the_window_and_leaves_it_as_it_is():
    run = RewardRun(GUARDED)
    steps(run, range(20))
    before = run.state_dict()
    rewards, hit, ids = batch(99, prompts=8)
    assert torch.equal(run.evaluate(rewards, ids).rejected, hit)
    assert run.state_dict() == before


def test_each_reward_function_has_faults_of_its_own():
    spiked, hit, ids = batch()
    clean, _, _ = batch(1, rate=0.0)
    both = torch.stack([spiked, clean], 1)
    info = rovrl.explain(both, ids, GUARDED, weights=[1.0, 1.0])
    assert torch.equal(info.parts[0].rejected, hit)
    assert not info.parts[1].rejected.any()
    assert not info.rejected.any()  # every response is still scored by the second function
    metrics = reward_metrics(info, ["judge", "verifier"])
    assert metrics["rovr/rejected/judge"] == pytest.approx(float(hit.double().mean()))
    assert metrics["rovr/rejected/verifier"] == 0


@pytest.mark.parametrize("word", ["drop", "", None, True])
def test_another_word_for_faults_is_refused_in_a_sentence(word):
    with pytest.raises(ValueError, match='faults must be "bound" or "reject"'):
        RewardChannel(faults=word)


@pytest.mark.parametrize(
    ("rewards", "ids"),
    [
        (torch.ones(64), [0] * 64),
        (torch.randn(64, generator=torch.Generator().manual_seed(0)), list(range(64))),
        (torch.randn(64, generator=torch.Generator().manual_seed(0)), [0] * 64),
        (torch.full((64,), torch.nan), [0] * 64),
        (torch.randn(64, generator=torch.Generator().manual_seed(0)) * 1e300, [k // 16 for k in range(64)]),
        (torch.zeros(0), []),
    ],
)
def test_odd_batches_are_finite_and_quiet(rewards, ids):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = RewardRun(GUARDED)
        info = run.explain(rewards.double(), ids)
        run.explain(rewards.double(), ids)
    assert info.advantages.isfinite().all()
    assert not info.rejected.any()
    json.dumps(run.state_dict(), allow_nan=False)


def test_the_notes_of_a_step_name_the_rejected_responses_as_plain_values():
    rewards, hit, ids = batch()
    notes = json.loads(json.dumps(rovrl.explain(rewards, ids, GUARDED).notes, allow_nan=False))
    (found,) = notes["faults"]
    assert found["rejected"] == hit.nonzero().squeeze(-1).tolist()
    assert 0.5 < found["thresholds"]["above"] < 18.6
    clean, _, ids = batch(rate=0.0)
    (found,) = rovrl.explain(clean, ids, GUARDED).notes["faults"]
    assert found == {"rejected": [], "thresholds": {"above": None, "below": None}}
    assert "faults" not in rovrl.explain(clean, ids).notes


@pytest.mark.parametrize("value", [1.0, float("nan")])
@pytest.mark.parametrize("channel", [GUARDED, RewardChannel(**ADAPTIVE)])
def test_a_later_step_without_contrast_is_harmless(value, channel):
    run = RewardRun(channel)
    rewards, _, ids = batch(prompts=8)
    run.explain(rewards, ids)
    known = run.state_dict()["memory"][0]["scales"]["spread"]
    assert (run.advantages(torch.full_like(rewards, value), ids) == 0).all()
    assert run.state_dict()["memory"][0]["scales"]["spread"] == known


@pytest.mark.parametrize("factor", [1e-3, 30.0, 100.0])
@pytest.mark.parametrize("group", [8, 16])
def test_steps_in_another_unit_are_not_taken_for_faults(group, factor):
    run, rejected = RewardRun(GUARDED), 0
    for step in range(24):
        rng = np.random.default_rng(step)
        rewards = torch.from_numpy(rng.normal(size=16 * group)) * (factor if step % 4 == 3 or step > 20 else 1.0)
        rejected += int(run.explain(rewards, np.repeat(np.arange(16), group)).rejected.sum())
    assert rejected == 0


@pytest.mark.parametrize(("prompts", "group"), [(256, 8), (256, 16)])
def test_merit_is_spared_where_groups_without_contrast_were_dropped(prompts, group):
    """As dynamic sampling does: the groups that show how dispersed right answers are have gone."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        right = rng.random((6 * prompts, group)) < rng.beta(0.5, 4.5, (6 * prompts, 1))
        right = right[right.any(-1) & ~right.all(-1)][:prompts]
        rewards = torch.from_numpy((right + 0.05 * rng.random(right.shape)).ravel())
        info = rovrl.explain(rewards, np.repeat(np.arange(len(right)), group), GUARDED)
        assert info.rejected.double().mean() < 0.005


def test_a_search_that_goes_in_circles_ends_with_what_all_its_rounds_reject():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        hit = rng.random((64, 8)) < 0.2
        rewards = rng.normal(0, 1, (64, 8)) + hit * rng.choice([-8, 8], hit.shape)
        info = rovrl.explain(torch.from_numpy(rewards.ravel()), np.repeat(np.arange(64), 8), GUARDED)
        assert info.rejected.numpy()[~hit.ravel()].mean() < 0.02


@pytest.mark.parametrize(("best", "usual", "failing"), [(5, 0.9, 0), (10, 0.8, 1)])
def test_a_failing_grade_as_rare_on_every_prompt_is_a_grade(best, usual, failing):
    """No gap shows a fault among rewards without a continuous part: grades are far from each other by nature."""
    draw, run = np.random.default_rng(0), RewardRun(GUARDED)
    rejected = 0
    for _ in range(24):
        grades = draw.binomial(best, draw.beta(16 * usual, 16 * (1 - usual), (16, 1)), (16, 16))
        grades = np.where(draw.random((16, 16)) < 0.03, failing, np.maximum(grades, best - 2)) / 5
        rejected += int(run.explain(grades.ravel(), np.repeat(np.arange(16), 16)).rejected.sum())
    assert rejected == 0


def test_a_spread_that_unseen_faults_made_in_the_first_step_is_forgotten_as_soon_as_they_are_seen():
    """Nearly half of the rewards are spikes: a step of four prompts shows none of them."""
    run, bounds = RewardRun(GUARDED), []
    for step in range(4):
        rewards, hit, ids = batch(step, prompts=16 if step else 4, rate=0.45)
        run.advantages(rewards, ids)
        bounds.append((run.last.rejected[hit].double().mean().item(), run.metrics()["rovr/credit_bound"]))
    (first, poisoned), (second, mended), *_ = bounds
    assert first < 0.5
    assert poisoned > 5
    assert second > 0.9
    assert mended < 0.5


def test_a_step_without_contrast_does_not_make_an_honest_spread_begin_anew():
    run = RewardRun(GUARDED)
    for step in range(6):
        rng = np.random.default_rng(step)
        right = np.ones((16, 16)) if step == 5 else rng.random((16, 16)) < rng.random((16, 1))
        hit = rng.random((16, 16)) < 0.1
        rewards = right + 0.02 * rng.random((16, 16)) + 30 * hit * rng.choice([-1, 1], (16, 16))
        before = run.state_dict()["memory"][0]["scales"]["spread"] if step else None
        run.advantages(rewards.ravel(), np.repeat(np.arange(16), 16))
    assert run.last.rejected.any()
    assert run.last.lagged_spread == before


def test_rewards_that_differ_by_rounding_alone_give_no_warning():
    rewards = 1 + 1e-8 * torch.randn(64, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert rovrl.ADVANTAGES["credit"](rewards, GUARDED).isfinite().all()
