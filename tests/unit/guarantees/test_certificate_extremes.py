"""Certificates for rewards as large as a float can be: an answer at once, and the one that saturation gives."""

import math

import pytest
import torch

from rovrl import RewardChannel
from rovrl import guarantees as g

LARGEST = 1.7e308


def mixed(generator, size):
    """Ordinary groups in which every other reward is multiplied by `size`."""
    x = torch.randn(20, 16, generator=generator, dtype=torch.float64).clamp(-1, 1)
    x[:, ::2] *= size
    return x


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [1e17, 1e100, LARGEST])
@pytest.mark.parametrize("reference", ["rovr", "global_m", "mean"])
def test_huge_rewards_are_certified_at_once(size, reference, generator):
    """A cell of two neighbouring floats cannot be halved: halving it again and again took 2^40 cells."""
    channel = RewardChannel(reference=reference)
    for replaced in (1, 6):
        found = g.tolerance(mixed(generator, size), channel, replaced=replaced)
        assert bool((found.change > 0.1).all())
        assert bool((found.change <= 8).all())
        assert not bool(found.low.isnan().any() | found.high.isnan().any())
    assert "1 bad: " in g.tolerance_of_groups(mixed(generator, size), channel)


def test_a_reward_beyond_saturation_counts_as_one_at_it(generator):
    """At 1e12 or at 1.7e308 on the same side, χ is the same: so is what others can lose, whatever the shift."""
    x = torch.randn(30, 8, generator=generator, dtype=torch.float64)
    for shift in (0.3, math.inf):
        x[:, 0], x[:, 1] = 1e12, -1e12
        before = g.credit_certificate(x, 0.0, 1, shift, 1.0, 0.1, precision=1e-4)
        x[:, 0], x[:, 1] = LARGEST, -LARGEST
        after = g.credit_certificate(x, 0.0, 1, shift, 1.0, 0.1, precision=1e-4)
        assert torch.allclose(before, after, rtol=2e-4, atol=1e-9)


def test_two_huge_rewards_are_told_apart_and_an_endless_shift_reaches_between_them():
    """With the reference between 1e300 and 2e300 the first has changed its sign; drawn to one point they would not."""
    x = torch.tensor([0.0, 1e300, 2e300], dtype=torch.float64)
    certified = g.credit_certificate(x, 0.0, 0, (0.0, math.inf), 1.0, 1e-3)
    shaped = torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)
    between = shaped / (1e-6 + 1.0) ** 0.5
    before = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64) / (1e-6 + 2 / 3) ** 0.5
    assert bool((certified >= (between - before).abs() * (1 - 1e-9)).all())
    assert float(certified[1]) == pytest.approx(2 * float(before[1]), rel=0.2)


def test_a_small_shift_of_a_large_reference_is_not_rounded_away():
    x = torch.tensor([1e6, 1e6 + 1e-3, 1e6 - 1e-3, 1e6 + 2e-3], dtype=torch.float64)
    near = g.credit_certificate(x - 1e6, 0.0, 0, 1e-9, 1.0, 1e-3, precision=1e-4)
    far = g.credit_certificate(x, 1e6, 0, 1e-9, 1.0, 1e-3, precision=1e-4)
    assert torch.allclose(near, far, rtol=1e-3)
    assert float(near.max()) > 1e-7
