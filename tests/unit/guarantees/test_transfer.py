"""The diagnostic for ass:transfer passes where the premises hold, and sees each way in which they visibly fail."""

import math

import pytest
import torch

from rovrl import Blocks, RewardChannel
from rovrl.guarantees import transfer_diagnostic

LARGE = Blocks.contiguous(240, 6)


def normal(groups, size, generator):
    return torch.randn(groups, size, generator=generator, dtype=torch.float64)


def test_normal_rewards_in_large_blocks_show_nothing(generator):
    found = transfer_diagnostic(normal(4000, 240, generator), LARGE)
    assert not found.doubtful
    assert found.level_gap < 0.01
    assert found.covariance_gap < 0.01
    assert found.ties == 0
    assert found.scale_error < 0.1


def test_the_indicators_are_those_of_a_normal_law_by_hand(generator):
    """Two blocks of two: Z_1 = −Z_2 when the scores are nearly linear, so that F̂ is symmetric about a half."""
    x = 1e-3 * normal(500, 4, generator)
    found = transfer_diagnostic(x, Blocks.contiguous(4, 2), RewardChannel(num_levels=1))
    assert found.level_gap == pytest.approx(0, abs=1e-12)
    assert found.covariance_gap == pytest.approx(1 / 4 * 1 / 999, rel=1e-6)  # a sample covariance of ±½: n/(n − 1)


def test_rewards_of_a_rule_tie_blocks_and_that_is_said(generator):
    x = (normal(500, 16, generator) > 0).double()
    found = transfer_diagnostic(x, Blocks.contiguous(16, 3))
    assert found.doubtful
    assert found.ties > 0.1


def test_blocks_with_the_same_rewards_in_another_order_tie_whatever_their_last_bits(generator):
    x = normal(300, 5, generator)
    x = torch.cat([x[:, torch.randperm(5, generator=generator)] for _ in range(3)], -1)
    assert transfer_diagnostic(x, Blocks.contiguous(15, 3)).ties == 1


def test_skewed_rewards_in_small_blocks_miss_their_levels(generator):
    x = -(
        torch.rand(4000, 15, generator=generator, dtype=torch.float64).log() ** 2
    )  # far to the right, median near 0.5
    found = transfer_diagnostic(x, Blocks.contiguous(15, 3))
    assert found.doubtful
    assert found.level_gap > 8 * found.level_error


def test_constant_groups_are_left_out(generator):
    x = normal(10, 16, generator)
    x[3] = 1.0
    assert transfer_diagnostic(x, Blocks.contiguous(16, 3)).groups == 9


@pytest.mark.parametrize(
    ("x", "blocks"),
    [
        (torch.ones(5, 16), Blocks.contiguous(16, 3)),
        (torch.rand(5, 16), Blocks.contiguous(16, 1)),
        (torch.rand(5, 15), Blocks.contiguous(16, 3)),
        (torch.full((5, 16), math.nan), Blocks.contiguous(16, 3)),
    ],
)
def test_groups_that_say_nothing_are_refused(x, blocks):
    with pytest.raises(ValueError, match="rewards must"):
        transfer_diagnostic(x, blocks)
