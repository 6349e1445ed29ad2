"""The channels refuse what they cannot mean, in a sentence with the name, the value and what is allowed."""

import dataclasses
import math

import pytest

import rovrl
from rovrl import RatioChannel, RewardChannel

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
