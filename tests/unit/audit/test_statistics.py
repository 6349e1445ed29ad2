"""The audit's numbers are the core's, and say what the paper says about one outlier."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import audit_dumps
import rovrl
from rovrl.audit import audit
from rovrl.audit.measure.dominance import Ordered, usual_spread
from rovrl.audit.measure.ratios import RatioTable, weights
from rovrl.loss import clip_branch
from rovrl.scales import channel_for_step


def whole(result):
    """The core's explanation of the same groups."""
    ids = np.repeat(np.arange(result.summary.groups), result.groups.size)
    return rovrl.explain(torch.from_numpy(result.rollouts.reward), ids, result.reward_channel)


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    """Groups of 2 to 20 responses, some tied, some with missing rewards, one single, some with spikes."""
    generator = np.random.default_rng(7)
    sizes = generator.integers(2, 21, 80)
    sizes[3] = 1
    group, reward = np.repeat(np.arange(80), sizes), generator.normal(0, 0.3, sizes.sum())
    reward += generator.normal(0, 1, 80)[group] + 30 * (generator.random(len(group)) < 0.02)
    reward[group == 5] = 2.0
    reward[generator.random(len(group)) < 0.05] = np.nan
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("ragged") / "run.parquet"
    pq.write_table(pa.table({"step": group // 10, "group": group, "reward": reward}), path)
    return path


def test_means_references_and_ties_are_those_of_the_core(ragged):
    result = audit(ragged, reward_channel=rovrl.RewardChannel(scale_source="local"))
    core = whole(result)
    used = ~result.groups.single
    np.testing.assert_array_equal(result.groups.finite, core.finite_size.numpy())
    np.testing.assert_array_equal(result.groups.tied, core.tied.numpy())
    np.testing.assert_array_equal(result.groups.fallback[used], core.fallback.numpy()[used])
    np.testing.assert_allclose(result.groups.mean[used], core.mean.numpy()[used], rtol=1e-12)
    np.testing.assert_allclose(result.groups.reference[used], core.reference.numpy()[used], rtol=1e-9, atol=1e-12)


def test_lagged_scales_come_from_earlier_steps_as_in_training(ragged):
    channel = rovrl.RewardChannel(replaced_per_block=0, credit_bound="adaptive", credit_floor="adaptive")
    result = audit(ragged, reward_channel=channel)
    lagged, seen = rovrl.LaggedScale(), 0
    group = np.repeat(np.arange(result.summary.groups), result.groups.size)
    for step in np.unique(result.rollouts.step).tolist():
        rows = result.rollouts.step[group] == step
        rewards = torch.from_numpy(result.rollouts.reward[rows])
        now = channel_for_step(channel, lagged, rewards, group[rows])
        assert result.settings[step].channel == now
        members = np.unique(group[rows])
        used = ~result.groups.single[members]
        core = rovrl.explain(rewards, group[rows], now)
        np.testing.assert_allclose(
            result.groups.reference[members][used], core.reference.numpy()[used], rtol=1e-9, atol=1e-12
        )
        seen += len(members)
    assert seen == 80


def test_sign_changes_are_the_responses_whose_two_advantages_have_opposite_signs(ragged):
    result = audit(ragged, reward_channel=rovrl.RewardChannel(scale_source="local"))
    core = whole(result)
    group = core.group.numpy()
    grpo = result.rollouts.reward - result.groups.mean[group]
    opposite = np.nan_to_num(grpo) * core.advantages.numpy() < 0
    assert opposite.sum() > 20
    np.testing.assert_array_equal(np.bincount(group[opposite], minlength=80), result.groups.flips)


def test_lost_contrast_is_one_minus_the_ratio_of_the_papers_contrast_with_and_without_the_outlier(tmp_path):
    scores = audit_dumps.rewards(70, 16, spikes=0.0)
    scores[9, 4] = 40.0
    result = audit(audit_dumps.table(tmp_path / "run.parquet", scores))
    assert np.flatnonzero(result.groups.dominating).tolist() == [9]
    assert result.dominating(9) == [4]
    keep = torch.arange(16) != 4
    spiked, clean = torch.from_numpy(scores[9]), torch.from_numpy(scores[9])[keep]
    everyone = torch.ones(15, dtype=torch.bool)
    for name, lost in (("grpo", result.groups.lost[9]), ("credit", result.groups.lost_credit[9])):
        method, channel = rovrl.ADVANTAGES[name], rovrl.RewardChannel()
        kept = rovrl.contrast(method(spiked, channel), keep) / rovrl.contrast(method(clean, channel), everyone)
        assert lost == pytest.approx(1 - float(kept), abs=1e-9)
    assert result.groups.lost[9] > 0.95 > result.groups.lost_credit[9]


def test_zero_one_rewards_never_dominate_however_rare_the_ones():
    generator = np.random.default_rng(1)
    for size in (4, 8, 16, 64):
        for rate in (0.01, 0.1, 0.5, 0.97):
            rewards = (generator.random((400, size)) < rate).astype(float)
            order = Ordered.of(rewards)
            count, _, _ = order.dominating(usual_spread(order.spread))
            assert count.sum() == 0


@given(st.integers(4, 24), st.integers(0, 10**6), st.floats(-3, 12))
def test_the_least_variance_windows_are_those_of_a_search_through_all(size, seed, power):
    generator = np.random.default_rng(seed)
    rewards = generator.normal(0, 1, (3, size)).round(1)
    rewards[:, 0] += 10.0**power
    order = Ordered.of(rewards)
    for j in range(size // 4 + 1):
        for group in range(3):
            ordered = np.sort(rewards[group])
            best = min(np.std(ordered[a : a + size - j], ddof=1) for a in range(j + 1))
            assert order.deviation[j, group] == pytest.approx(best, rel=1e-6, abs=1e-7)


@given(st.integers(0, 10**6), st.floats(-100, 100), st.floats(0.01, 100))
def test_dominating_rewards_do_not_depend_on_shift_scale_or_order(seed, shift, factor):
    generator = np.random.default_rng(seed)
    rewards = audit_dumps.rewards(40, 12, spikes=0.05, seed=seed)

    def count(values):
        order = Ordered.of(values)
        return order.dominating(usual_spread(order.spread))[0]

    expected = count(rewards)
    assert expected.sum() > 0
    np.testing.assert_array_equal(count(rewards * factor + shift), expected)
    np.testing.assert_array_equal(count(generator.permuted(rewards, axis=1)), expected)


def test_a_spike_in_a_group_without_other_contrast_dominates_and_costs_no_contrast(tmp_path):
    scores = (np.random.default_rng(2).random((70, 16)) < 0.5).astype(float)
    scores[3] = 1.0
    scores[3, 7] = 17.0
    result = audit(audit_dumps.table(tmp_path / "run.parquet", scores))
    assert result.dominating(3) == [7]
    assert result.groups.lost[3] == 0.0


def test_rewards_near_the_end_of_the_number_range_give_finite_statistics(tmp_path):
    scores = audit_dumps.rewards(20, 16, spikes=0.0)
    scores[0, 0], scores[1, 1], scores[2] = 1e308, -1.7e308, 5e-324
    scores[3, :8] = 1.7e308
    result = audit(audit_dumps.table(tmp_path / "run.parquet", scores))
    assert np.isfinite(result.groups.reference).all()
    assert result.groups.lost[0] == pytest.approx(1.0)
    assert result.to_dict()["groups"]


@pytest.mark.parametrize("exponent", [200, 600, 990])
def test_what_dominates_and_what_it_costs_is_the_same_in_units_of_any_size(tmp_path, exponent):
    scores = audit_dumps.rewards(40, 16)
    scores[:8] = np.random.default_rng(0).normal(size=(8, 16))  # nothing dominates here
    whole = audit(audit_dumps.table(tmp_path / "a.parquet", scores)).groups
    huge = audit(audit_dumps.table(tmp_path / "b.parquet", scores * 2.0**exponent)).groups
    assert whole.dominating.any()
    np.testing.assert_array_equal(huge.dominating, whole.dominating)
    np.testing.assert_allclose(huge.lost, whole.lost, rtol=1e-4, atol=1e-12)  # GRPO's epsilon is in units of the reward
    np.testing.assert_allclose(huge.spread, whole.spread * 2.0**exponent, rtol=1e-12)


def test_branches_are_those_of_the_loss():
    generator = np.random.default_rng(4)
    n = 500
    mean, advantage = generator.normal(0, 5e-4, n), generator.normal(0, 1, n)
    table = RatioTable(*(np.zeros(n, dtype=np.int64),) * 3, mean, mean, advantage, np.full(n, 3e-4), np.full(n, 4e-4))
    expected = clip_branch(torch.from_numpy(mean), torch.from_numpy(advantage))
    np.testing.assert_array_equal(table.branch(mean), expected.numpy())
    assert len(set(table.branch(mean).tolist())) == 3


def test_weights_of_ragged_rows_are_the_cores_row_by_row():
    generator = np.random.default_rng(4)
    rows = [generator.normal(0, 0.01, n) for n in (1, 50, 7, 300, 7, 2)]
    mean, soft = weights(rows, rovrl.RatioChannel())
    for k, row in enumerate(rows):
        assert mean[k] == pytest.approx(row.mean(), abs=1e-15)
        assert soft[k] == pytest.approx(float(rovrl.soft_rovr(torch.from_numpy(row))), abs=1e-12)


def test_a_burst_in_a_response_is_found_and_its_branch_moved(tmp_path):
    result = audit(audit_dumps.records(tmp_path, audit_dumps.rewards(8, 8), burst=0.5))
    assert result.ratios.bursts.sum() == 2  # one response per step, at its second update
    assert result.summary.ratios.bursts == pytest.approx(2 / 128)
    assert "ratio_bursts" in {finding.code for finding in result.findings}


def test_the_certificate_knows_the_frontier_and_says_what_is_not_known(tmp_path):
    small = audit(audit_dumps.table(tmp_path / "small.parquet", audit_dumps.rewards(20, 8))).certificate
    assert not small.supported
    assert "at least 9 responses" in small.sentence
    usual = audit(audit_dumps.table(tmp_path / "usual.parquet", audit_dumps.rewards(20, 16))).certificate
    assert usual.supported
    assert (1, 2) in usual.budgets
    assert usual.credit_bound == pytest.approx(4.0)
    assert usual.grpo_bound == pytest.approx(3.75)
    assert sum(premise.status == "unknown" for premise in usual.premises) >= 3
    assert all((2 * q + 1) * (2 * s + 1) <= 16 for q, s in usual.budgets)
