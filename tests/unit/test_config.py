"""The channels refuse what they cannot mean, in a sentence with the name, the value and what is allowed."""

import dataclasses
import math
from dataclasses import replace

import pytest
import torch

import rovrl
from rovrl import RatioChannel, RewardChannel
from rovrl.integrations import environment
from rovrl.integrations.verl import run as verl_settings

REWARD_BAD = [
    ("num_blocks", 0, "at least 1"),
    ("num_blocks", 2.5, "whole number"),
    ("num_blocks", True, "whole number"),
    ("arbitrary_blocks", -1, "at least 0"),
    ("replaced_per_block", -1, "at least 0"),
    ("replaced_per_block", 0.5, "whole number"),
    ("failure_unit", "token", "response"),
    ("partition", "sorted", "contiguous"),
    ("num_levels", 0, "at least 1"),
    ("score_width", 0.0, "positive"),
    ("score_width", -1.0, "positive"),
    ("score_width", math.nan, "finite"),
    ("score_width", math.inf, "finite"),
    ("score_width", "wide", "positive"),
    ("credit_bound", 0.0, "adaptive"),
    ("credit_bound", "auto", "adaptive"),
    ("credit_floor", -1e-3, "adaptive"),
    ("curvature_floor", 0.0, "positive"),
    ("scale_floor", 0.0, "positive"),
    ("scale_cap", 1e-9, "scale_floor"),
    ("scale_source", "running", "lagged"),
    ("scale_source", -1.0, "lagged"),
    ("scale_source", math.nan, "lagged"),
    ("tie_tolerance", -1e-9, "at least 0"),
]
RATIO_BAD = [
    ("num_blocks", 0, "at least 1"),
    ("min_block", 0, "at least 1"),
    ("num_levels", 0, "at least 1"),
    ("iterations", 0, "at least 1"),
    ("score_width", 0.0, "positive"),
    ("temperature", 0.0, "positive"),
    ("median_width", -0.01, "positive"),
    ("curvature_floor", 0.0, "positive"),
    ("scale_cap", math.inf, "finite"),
    ("regularizer", -1e-8, "at least 0"),
    ("gradient", "exact", "unrolled"),
    ("units", "relative", "robust"),
]


@pytest.mark.parametrize(
    ("channel", "name", "value", "allowed"),
    [(RewardChannel, *c) for c in REWARD_BAD] + [(RatioChannel, *c) for c in RATIO_BAD],
)
def test_a_bad_value_is_refused_with_its_name_the_value_and_what_is_allowed(channel, name, value, allowed):
    with pytest.raises(ValueError, match=allowed) as refusal:
        channel(**{name: value})
    assert f"{channel.__name__}.{name}" in str(refusal.value)
    assert repr(value) in str(refusal.value)


def test_the_reward_channel_has_the_papers_numbers():
    c = RewardChannel()
    assert (c.num_levels, c.score_width, c.credit_bound, c.credit_floor) == (9, 1.0, 1.0, 1e-3)
    assert (c.curvature_floor, c.scale_floor, c.scale_cap) == (1e-6, 1e-6, 10.0)
    assert (c.num_blocks, c.arbitrary_blocks, c.replaced_per_block) == (3, 1, 1)
    assert (c.failure_unit, c.partition, c.scale_source, c.tie_tolerance) == ("response", "random", "auto", 1e-9)


def test_the_ratio_channel_has_the_papers_numbers():
    c = RatioChannel()
    assert (c.num_blocks, c.min_block, c.num_levels, c.score_width) == (8, 4, 9, 1.0)
    assert (c.temperature, c.median_width, c.iterations, c.regularizer) == (0.01, 0.01, 32, 1e-8)
    assert (c.curvature_floor, c.scale_floor, c.scale_cap) == (1e-6, 1e-6, 10.0)
    assert (c.gradient, c.units) == ("implicit", "absolute")


@pytest.mark.parametrize("channel", [RewardChannel, RatioChannel])
def test_from_dict_is_the_inverse_of_to_dict_and_refuses_unknown_fields_by_name(channel):
    changed = channel(num_blocks=5, score_width=0.5)
    assert channel.from_dict(changed.to_dict()) == changed
    assert channel.from_dict({}) == channel()
    with pytest.raises(ValueError, match="kappa") as refusal:
        channel.from_dict({"kappa": 1.0})
    assert "num_blocks" in str(refusal.value)


def test_channels_cannot_be_changed_after_the_fact():
    for channel in (RewardChannel(), RatioChannel()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            channel.num_blocks = 4


def test_the_default_design_of_sixteen_responses_stands_on_the_resolution_frontier():
    c = RewardChannel()
    sizes = rovrl.Blocks.contiguous(16, c.num_blocks).sizes
    assert len(sizes) >= 2 * c.arbitrary_blocks + 1
    assert min(sizes) >= 2 * c.replaced_per_block + 1


PRESETS = {
    "paper": RewardChannel(),
    "adaptive": RewardChannel(credit_bound="adaptive", credit_floor="adaptive"),
    "guarded": RewardChannel(credit_bound="adaptive", credit_floor="adaptive", faults="reject"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_its_settings_wherever_a_channel_is_given(name, monkeypatch):
    channel = PRESETS[name]
    assert getattr(RewardChannel, name)() == channel
    assert RewardChannel.from_dict({"preset": name, "num_blocks": 4}) == replace(channel, num_blocks=4)
    rewards = torch.randn(64, generator=torch.Generator().manual_seed(0))
    ids = [i // 16 for i in range(64)]
    expected = rovrl.grouped_advantages(rewards, ids, channel)
    assert torch.equal(rovrl.grouped_advantages(rewards, ids, name), expected)
    assert torch.equal(rovrl.ADVANTAGES["credit"](rewards.view(4, 16), name).flatten(), expected)
    assert rovrl.RewardRun(name).channel == channel
    for text in (name, f'{{"preset": "{name}"}}'):
        monkeypatch.setenv("ROVRL_REWARD_CHANNEL", text)
        assert environment.channels().reward == channel
    assert verl_settings.reward_channel({"rovr": {"preset": name}}) == channel
    assert verl_settings.reward_channel({"rovr": name}) == channel


def test_the_ratio_channel_of_the_paper_has_a_name_too(monkeypatch):
    monkeypatch.setenv("ROVRL_RATIO_CHANNEL", "paper")
    assert RatioChannel.paper() == RatioChannel() == environment.channels().ratio
    x = torch.randn(2, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rovrl.soft_rovr(x, channel="paper"), rovrl.soft_rovr(x))


def test_an_unknown_preset_is_refused_with_those_that_there_are(monkeypatch):
    sentence = 'RewardChannel by name is "paper" or "adaptive" or "guarded", not .*did you mean guarded'
    with pytest.raises(ValueError, match=sentence):
        rovrl.grouped_advantages([1.0, 0.0], ["a", "a"], "gaurded")
    with pytest.raises(ValueError, match="by name is"):
        RewardChannel.from_dict({"preset": "gspo"})
    monkeypatch.setenv("ROVRL_REWARD_CHANNEL", "gaurded")
    with pytest.raises(rovrl.RovrlError, match="ROVRL_REWARD_CHANNEL must be none, paper, adaptive, guarded, or JSON"):
        environment.channels()
