"""Rollout corrections: what each makes of log-ratios between the old policy and the engine that sampled."""

import math
from pathlib import Path

import pytest
import torch

import rovrl
from rovrl.rollout import named_correction
from rovrl_paper.stress.rollouts import RESPONSES, measure, table

PAGE = Path(__file__).parents[2] / "docs" / "rollouts.md"

SEQUENCE = ("tis_sequence", "mis", "geometric", "soft_rovr", "soft_rovr_reject")


@pytest.fixture
def ratios(generator):
    log_ratios = 0.3 * torch.randn(5, 12, generator=generator, dtype=torch.float64)
    return log_ratios, torch.arange(12) < torch.tensor([12, 7, 1, 0, 12]).unsqueeze(1)


@pytest.mark.parametrize("name", rovrl.ROLLOUT_CORRECTIONS)
def test_engines_that_agree_give_weight_one(name):
    shape = (3, 1) if name in SEQUENCE else (3, 8)
    assert torch.equal(rovrl.rollout_weights(torch.zeros(3, 8), None, name), torch.ones(shape))


@pytest.mark.parametrize("name", rovrl.ROLLOUT_CORRECTIONS)
def test_hidden_tokens_and_missing_log_probabilities_have_no_part(name, ratios):
    log_ratios, mask = ratios
    weights = rovrl.rollout_weights(log_ratios, mask, name)
    hidden = torch.where(mask, log_ratios, 7.0)
    assert torch.equal(rovrl.rollout_weights(hidden, mask, name), weights)
    missing = torch.where(mask, log_ratios, math.nan)
    assert torch.equal(rovrl.rollout_weights(missing, None, name), weights)
    assert torch.equal(weights[3], torch.ones_like(weights[3]))  # no token: nothing to correct


def test_the_formulas_of_the_named_ones_by_hand():
    log_ratios = torch.tensor([[math.log(3.0), 0.0, math.log(0.4), 0.0]], dtype=torch.float64)

    def weights(name):
        return rovrl.rollout_weights(log_ratios, None, name)[0].tolist()

    assert weights("tis") == pytest.approx([2.0, 1.0, 0.4, 1.0])  # min(ρ, 2)
    assert weights("icepop") == pytest.approx([3.0, 1.0, 0.0, 1.0])  # ρ in [0.5, 5], else 0
    assert weights("tis_sequence") == weights("mis") == pytest.approx([1.2])  # 3 · 0.4
    assert weights("geometric") == [0.0]  # 1.2 ** (1/4) is above 1.001
    assert rovrl.rollout_weights(2 * log_ratios + 0.3, None, "tis_sequence").item() == 2.0
    assert rovrl.rollout_weights(2 * log_ratios + 0.3, None, "mis").item() == 0.0


def test_ours_is_soft_rovr_which_one_wild_token_moves_ten_times_less_than_the_mean(ratios):
    log_ratios, mask = ratios
    expected = rovrl.soft_rovr(log_ratios, mask).exp().clamp(max=2.0)
    assert torch.equal(rovrl.rollout_weights(log_ratios, mask).squeeze(-1), expected)
    wild = torch.zeros(1, 64)
    wild[0, 30] = -9.0
    moved = {
        name: 1 - rovrl.rollout_weights(wild, None, rovrl.RolloutCorrection(name)).item()
        for name in ("soft_rovr", "mean")
    }
    assert moved["mean"] > 10 * moved["soft_rovr"] >= 0


def test_infinite_ratios_stay_finite_and_carry_no_gradient():
    log_ratios = torch.tensor([[-math.inf, 0.0], [math.inf, 0.0]], requires_grad=True)
    for name in rovrl.ROLLOUT_CORRECTIONS:
        weights = rovrl.rollout_weights(log_ratios, None, name)
        assert weights.isfinite().all()
        assert not weights.requires_grad


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"statistic": "median"},
            "RolloutCorrection.statistic must be one of token, sum, mean, soft_rovr, not 'median'",
        ),
        ({"treatment": "drop"}, "RolloutCorrection.treatment must be one of truncate, mask, reject, not 'drop'"),
        ({"low": 1.5}, "RolloutCorrection.low must be between 0 and 1"),
        ({"high": 0.5}, "RolloutCorrection.high must be a finite number of at least 1"),
        ({"bound": 2.0}, "RolloutCorrection has no field bound"),
        ({"ratio_channel": {"blocks": 2}}, "RatioChannel has no field blocks"),
        ("tsi", "the rollout correction must be one of tis, tis_sequence, mis"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        named_correction(settings)


def test_settings_survive_being_written_as_plain_values():
    correction = rovrl.RolloutCorrection("soft_rovr", "reject", 0.99, 1.01, rovrl.RatioChannel(num_blocks=4))
    assert rovrl.RolloutCorrection.from_dict(correction.to_dict()) == correction


def test_in_the_simulation_sums_grow_with_the_length_and_soft_rovr_sees_shifts_but_no_single_token():
    rows = {row.statistic: row for row in measure(responses=200, seed=1)}
    assert rows["sum"].alarms[4096] > 0.5 > 0.1 > rows["sum"].alarms[64]
    assert rows["mean"].alarms[64] > 3 * rows["soft_rovr"].alarms[64]
    assert rows["soft_rovr"].found["everywhere"] > rows["mean"].found["everywhere"]
    assert rows["soft_rovr"].found["jump"] < 0.2 < 0.5 < rows["mean"].found["jump"]
    assert (
        max(rows[name].found["opposite"] for name in ("sum", "mean", "soft_rovr")) < 0.2 < rows["k3"].found["opposite"]
    )


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints():
    assert table(measure(), RESPONSES) in PAGE.read_text()
