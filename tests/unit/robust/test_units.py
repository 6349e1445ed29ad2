"""Groups of one unit are measured together, groups of two units apart, and one data set is never taken for two."""

import numpy as np
import pytest
import torch

import rovrl
from rovrl.robust.spread import spread
from rovrl.robust.units import bulk, units
from rovrl.robust.units.verdicts import distance
from rovrl.scales import scales_for_step

ADAPTIVE = rovrl.RewardChannel(credit_bound="adaptive", credit_floor="adaptive")


def verdicts(seed=0, prompts=64, group=16):
    rng = np.random.default_rng(seed)
    return rng, (rng.random((prompts, group)) < rng.beta(0.7, 0.7, prompts)[:, None]).astype(float)


def test_the_bulk_is_the_shortest_interval_with_half_of_a_group():
    rows = torch.tensor([[0.0, 1.0, 1.1, 1.2, 9.0, 50.0], [3.0, 3.0, 3.0, 4.0, 9.0, 1e6], [2.0] * 6])
    found = bulk(rows.double())
    assert found[0] == pytest.approx(0.2)
    assert found[1] == 0
    assert found[2].isnan()


@pytest.mark.parametrize("group", [4, 8, 16])
@pytest.mark.parametrize("prompts", [16, 256])
@pytest.mark.parametrize(
    "kind",
    [
        "verdicts",
        "score",
        "bonus",
        "lognormal",
        "grades",
        "tenths",
        "tests",
        "format",
        "marks",
        "noisy marks",
        "spiked",
    ],
)
def test_one_data_set_is_one_unit(kind, prompts, group):
    if prompts == 16 and kind in ("format", "noisy marks"):
        prompts = (
            64  # of sixteen groups, few have most members at one level now and then, and look like another data set
        )
    for seed in range(5):
        rng, y = verdicts(seed, prompts, group)
        score = 0.33 * y + rng.normal(0, 0.05, y.shape)
        rewards = {
            "verdicts": y,
            "score": score,
            "bonus": y + 0.1 * rng.random(y.shape),
            "lognormal": score * np.exp(rng.normal(0, 0.5, (prompts, 1))),
            "grades": rng.binomial(10, rng.beta(2, 2, (prompts, 1)), y.shape).astype(float),
            "tenths": rng.binomial(10, rng.beta(0.7, 0.7, (prompts, 1)), y.shape) / 10,
            "tests": rng.binomial(20, rng.beta(0.7, 0.7, (prompts, 1)), y.shape) / 20,
            "format": y + 0.1 * (rng.random(y.shape) < 0.7),
            "marks": np.clip(np.round(3 + rng.normal(0, 1, (prompts, 1)) + rng.normal(0, 0.7, y.shape)), 1, 5),
            "noisy marks": rng.binomial(4, rng.beta(0.7, 0.7, (prompts, 1)), y.shape) / 4
            + rng.normal(0, 0.01, y.shape),
            "spiked": score + 18.6 * (rng.random(y.shape) < 0.1),
        }[kind]
        labels, spreads = units([torch.from_numpy(rewards)])
        assert len(spreads) == 1
        assert spreads[0] == spread([torch.from_numpy(rewards)])
        assert (labels[0] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_grades_up_to_one_and_up_to_a_hundred_are_two_units(seed):
    rng, y = verdicts(seed)
    large = np.arange(64) % 2 == 1
    rewards = torch.from_numpy(np.where(large[:, None], 100 * y + rng.normal(0, 3, y.shape), y))
    labels, spreads = units([rewards])
    assert len(spreads) == 2
    assert spreads[1] > 8 * spreads[0]
    contrast = rewards.amax(-1) > rewards.amin(-1)
    assert torch.equal(labels[0][contrast] == 1, torch.from_numpy(large)[contrast])


@pytest.mark.parametrize("group", [4, 8, 16])
@pytest.mark.parametrize("crash", [-1.0, -2.0, -10.0, 5.0, "spikes"])
@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2])
def test_the_scale_of_verdicts_is_known_whatever_crashes(rate, crash, group):
    for seed in range(3):
        rng, y = verdicts(seed, 256, group)
        hit = rng.random(y.shape) < rate
        rewards = torch.from_numpy(np.where(hit, y + rng.normal(0, 20, y.shape) if crash == "spikes" else crash, y))
        labels, spreads = units([rewards])
        assert spreads == [0.25]
        assert (labels[0] == 0).all()
        assert units([rewards.mul(37.0)])[1] == [37 / 4]


def test_where_the_rarer_of_two_values_does_not_follow_the_prompts_it_is_no_right_answer():
    rng, y = verdicts(prompts=256)
    crashed_at = np.where(rng.random(y.shape) < 0.1, -10.0, 1.0)  # all answers right, some crash
    assert distance([torch.from_numpy(crashed_at)]) == 0
    assert distance([torch.from_numpy(np.where(rng.random(y.shape) < 0.1, -10.0, y))]) == 1
    for seed in range(3):
        rng = np.random.default_rng(seed)
        crashed_at = np.where(rng.random(y.shape) < 0.1, -10.0, 1.0)
        spiked = np.where(rng.random(y.shape) < 0.1, rng.normal(0, 20, y.shape), crashed_at)
        assert distance([torch.from_numpy(spiked)]) == 0


@pytest.mark.parametrize("group", [8, 16])
def test_what_follows_the_prompts_beside_two_levels_is_a_third_grade(group):
    for seed in range(5):
        rng, y = verdicts(seed, 256, group)
        formatted = 0.1 * (
            rng.random(y.shape) < rng.beta(1, 1, (256, 1))
        )  # 0, 0.1, and 1 for right answers, which are rare
        right = rng.random(y.shape) < rng.beta(0.3, 2.5, (256, 1))
        assert distance([torch.from_numpy(np.where(right, 1.0, formatted))]) == 0


def test_a_small_batch_does_not_show_that_rare_right_answers_are_no_crashes():
    """Right answers beside a mark for the format, 0 or 0.2: so few that chance could make as few pairs of them."""
    told = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        formatted, right = (rng.random((32, 8)) < rng.beta(*odds, (32, 1)) for odds in ((1, 1), (0.5, 10)))
        told += distance([torch.as_tensor(np.where(right, 1.0, 0.2 * formatted))]) > 0
    assert told <= 3


@pytest.mark.parametrize("most", [3, 4, 5, 10])
@pytest.mark.parametrize("easy", [0.7, 8.0])
def test_grades_are_no_verdicts(most, easy):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rewards = rng.binomial(most, rng.beta(easy, 0.7, (256, 1)), (256, 16)) / most
        assert distance([torch.from_numpy(rewards)]) == 0


@pytest.mark.parametrize("shape", [(16, 8), (256, 16)])
def test_full_marks_of_two_kinds_of_prompts_are_no_right_and_wrong(shape):
    """No group holds both: wrong answers are the third value, and rare, on some prompts or by chance."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        for chance in (rng.beta(12, 1, (shape[0], 1)), 0.9):
            right = rng.random(shape) < chance
            for full in (0.9, 1 + 1e-12):
                marks = np.where(np.arange(shape[0])[:, None] % 2 == 0, full, 1.0)
                assert distance([torch.from_numpy(marks * right)]) == 0


def test_a_third_grade_that_hardly_follows_the_prompts_is_none_of_chance_where_many_responses_show_it():
    for seed in range(5):
        rng, y = verdicts(seed, 512, 16)
        full = rng.random(y.shape) < rng.beta(2, 18, (512, 1))
        assert distance([torch.from_numpy(np.where(full, 5.0, y))]) == 0


def test_verdicts_alone_keep_the_spread_of_a_discrete_reward():
    _, y = verdicts(prompts=256)
    assert distance([torch.from_numpy(y)]) == 0
    assert units([torch.from_numpy(y)])[1] == [spread([torch.from_numpy(y)])]
    assert distance([]) == 0


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_crashes_leave_the_bound_of_verdicts_in_groups_of_four(rate):
    rng, y = verdicts(prompts=256, group=4)
    crashed = torch.from_numpy(np.where(rng.random(y.shape) < rate, -10.0, y))
    ids = np.repeat(np.arange(256), 4)
    assert rovrl.explain(crashed.flatten(), ids, ADAPTIVE).channel.credit_bound == 0.5
    assert 2 * spread([crashed]) > 1.5  # what it would be


@pytest.mark.parametrize(("most", "group"), [(10, 8), (10, 16), (100, 8), (100, 16)])
def test_verdicts_beside_whole_marks_are_measured_by_themselves(most, group):
    for seed in range(3):
        rng, y = verdicts(seed, 256, group)
        graded = np.arange(256) % 2 == 1
        marks = rng.binomial(most, rng.beta(0.7, 0.7, (256, 1)), y.shape)
        rewards = torch.from_numpy(np.where(graded[:, None], marks, y).astype(float))
        labels, spreads = units([rewards])
        contrast = (rewards.amax(-1) > rewards.amin(-1)).numpy()
        assert spreads[0] == pytest.approx(0.5, rel=0.05)
        assert (labels[0].numpy()[~graded & contrast] == 0).all()
        assert (labels[0].numpy()[graded & contrast] > 0).mean() > 0.8  # a few graded groups have marks 0 and 1 alone


def test_verdicts_are_told_apart_by_a_smaller_factor_than_scores():
    rng, y = verdicts(prompts=256)
    large = np.arange(256) % 2 == 1
    noisy = np.where(large[:, None], 10 * y + rng.normal(0, 1, y.shape), y)
    assert len(units([torch.from_numpy(noisy)])[1]) == 2
    assert len(units([torch.from_numpy(np.where(large[:, None], 4 * y, y) + 0.05 * rng.random(y.shape))])[1]) == 1


@pytest.mark.parametrize("law", ["tenfold", "lognormal"])
@pytest.mark.parametrize("group", [8, 16])
def test_where_scales_differ_from_prompt_to_prompt_each_group_has_about_its_own_unit(law, group):
    rng, y = verdicts(3, 256, group)
    scale = 10.0 ** (rng.random(256) < 0.5) if law == "tenfold" else np.exp(rng.normal(0, 1.5, 256))
    rewards = (0.33 * y + rng.normal(0, 0.05, y.shape)) * scale[:, None]
    labels, spreads = units([torch.from_numpy(rewards)])
    unit = np.log(np.array(spreads)[labels[0].numpy()])
    assert np.std(unit - np.log(scale)) < 0.65 < 1.1 < np.std(np.log(scale))
    again, wider = units([torch.from_numpy(1e3 * rewards)])
    assert torch.equal(again[0], labels[0])
    np.testing.assert_allclose(wider, 1e3 * np.array(spreads), rtol=1e-9)


@pytest.mark.parametrize("group", [4, 8, 16])
@pytest.mark.parametrize("odds", [0.7, 0.3, 0.15])
def test_noise_that_differs_from_prompt_to_prompt_is_no_unit(group, odds):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.random((256, group)) < rng.beta(odds, odds, (256, 1))  # at 0.15 most groups are all right or all wrong
        noise = 0.02 * np.exp(rng.normal(0, 1, (256, 1))) * rng.normal(0, 1, y.shape)
        assert len(units([torch.from_numpy(0.33 * y + noise)])[1]) == 1


@pytest.mark.parametrize("group", [8, 16])
def test_a_bonus_for_right_answers_alone_makes_no_second_data_set_of_hard_prompts(group):
    for seed in range(5):
        rng, y = verdicts(seed, 256, group)
        assert len(units([torch.from_numpy(y * (1 + 0.1 * rng.random(y.shape)))])[1]) == 1


def test_ragged_batches_give_no_warning_where_a_size_occurs_in_one_unit_alone():
    rng = np.random.default_rng(0)
    ragged = [torch.from_numpy(rng.integers(0, 2, (40, 8)).astype(float)), torch.from_numpy(rng.normal(0, 50, (60, 6)))]
    labels, spreads = units(ragged)
    assert [len(own) for own in labels] == [40, 60]
    assert len(spreads) == 2


def test_units_hundreds_of_decades_apart_are_finite():
    rng = np.random.default_rng(0)
    size = np.concatenate([np.linspace(-300, -200, 150), np.full(10, 300)])
    rewards = rng.uniform(-1, 1, (160, 16)) * 10.0 ** size[:, None]
    channel = rovrl.RewardChannel(credit_bound="adaptive", credit_floor="adaptive")
    found = rovrl.grouped_advantages(torch.from_numpy(rewards.ravel()), np.repeat(np.arange(160), 16), channel)
    assert found.isfinite().all()
    wide = rng.uniform(-1, 1, (1500, 16)) * 10.0 ** np.linspace(-200, 200, 1500)[:, None]
    assert (
        rovrl.grouped_advantages(torch.from_numpy(wide.ravel()), np.repeat(np.arange(1500), 16), channel)
        .isfinite()
        .all()
    )


def test_in_a_mixed_batch_each_unit_gets_the_advantages_of_its_own_batch():
    rng, y = verdicts(prompts=64)
    large = torch.arange(64) % 2 == 1
    score = torch.from_numpy(0.33 * y + rng.normal(0, 0.05, y.shape))
    rewards = torch.where(large[:, None], 100 * score, score)
    channel = rovrl.RewardChannel(credit_bound="adaptive", credit_floor="adaptive", reference="mean")
    found = rovrl.ADVANTAGES["credit"](rewards, channel)
    for part in (large, ~large):
        torch.testing.assert_close(
            found[part], rovrl.ADVANTAGES["credit"](rewards[part], channel), rtol=1e-9, atol=1e-9
        )


def test_a_run_keeps_the_common_unit_whichever_comes_first():
    lagged = rovrl.LaggedScale()
    for seed in range(4):
        rng, y = verdicts(seed)
        large = np.arange(64) % 2 == 1
        rewards = torch.from_numpy(np.where(large[:, None], 100 * y + rng.normal(0, 3, y.shape), y).ravel())
        group = torch.arange(64).repeat_interleave(16)
        known = scales_for_step(ADAPTIVE, lagged, rewards, group, 64)
        first = known.spread if seed == 0 else first
        assert 1 / 8 < known.spread / first < 8
        small, wide = known.factors[~torch.from_numpy(large)] * known.spread, known.factors[large] * known.spread
        assert 0.3 < float(small.median()) < 1
        assert 4 < float(wide.median()) < 100
