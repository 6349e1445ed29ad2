"""The theorems about the hard reference (prop:calibration and around it), attacked by hypothesis."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rovrl
from rovrl import Blocks, RewardChannel
from rovrl.robust.kernels import use_kernel
from rovrl.robust.location import rovr_parts

LATTICE = st.integers(-64, 64).map(lambda k: k / 16)
SCORES = st.one_of(st.sampled_from([0.0, 1.0]), LATTICE, st.floats(-4, 4, allow_nan=False))
SHIFTS = st.integers(-4096, 4096).map(lambda k: k / 4)
HUGE = st.sampled_from([1e3, 1e6, 1e12, 1e18, 1e100, 1e300])


@st.composite
def designs(draw, values=SCORES, least=2, most=20):
    """A group, balanced blocks for it and a channel."""
    x = draw(st.lists(values, min_size=least, max_size=most))
    num_blocks = draw(st.integers(1, len(x)))
    blocks = Blocks.random(len(x), num_blocks, torch.Generator().manual_seed(draw(st.integers(0, 99))))
    levels = draw(st.sampled_from([1, 2, 3, 8, 9]))
    source = draw(st.sampled_from(["auto", "local", "lagged", 0.3]))
    return (
        torch.tensor(x, dtype=torch.float64),
        blocks,
        RewardChannel(num_blocks=num_blocks, num_levels=levels, scale_source=source),
    )


@given(designs(values=LATTICE), SHIFTS)
def test_rovr_is_translation_equivariant(design, shift):
    x, blocks, channel = design
    moved = rovrl.rovr(x + shift, blocks, channel) - shift
    # the lattice makes x + shift exact; the center keeps an ulp of |shift| <= 1024, amplified by a flat score
    assert abs(moved.item() - rovrl.rovr(x, blocks, channel).item()) < 1e-9


@given(st.floats(-1e12, 1e12), st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 2, 3, 4, 9, 10]))
def test_constants_are_preserved_for_even_and_odd_k(value, n, num_blocks, levels):
    blocks = Blocks.contiguous(n, min(n, num_blocks))
    channel = RewardChannel(num_blocks=min(n, num_blocks), num_levels=levels)
    x = torch.full((n,), value, dtype=torch.float64)
    for name in rovrl.REFERENCES:
        got = rovrl.REFERENCES[name](x, blocks, channel).item()
        assert abs(got - value) <= 4 * math.ulp(value), name


@given(designs(), st.integers(0, 10**6))
def test_a_permutation_inside_the_blocks_changes_nothing(design, seed):
    x, blocks, channel = design
    rng = np.random.default_rng(seed)
    y = x.clone()
    for members in blocks.members:
        y[members] = x[rng.permutation(members)]
    # half a unit of the indicator is worth nu / (D_K W_B) > 1e-3 here: a lost tie could not hide
    assert abs(rovrl.rovr(y, blocks, channel).item() - rovrl.rovr(x, blocks, channel).item()) < 1e-9


@given(designs(), st.integers(0, 10**6))
def test_exchanging_two_blocks_of_equal_size_changes_nothing(design, seed):
    x, blocks, channel = design
    sizes = blocks.sizes
    a, b = np.random.default_rng(seed).choice(len(sizes), 2)
    if sizes[a] == sizes[b]:
        y = x.clone()
        y[blocks.members[a]], y[blocks.members[b]] = x[blocks.members[b]], x[blocks.members[a]]
        assert abs(rovrl.rovr(y, blocks, channel).item() - rovrl.rovr(x, blocks, channel).item()) < 1e-9


@given(designs())
def test_rovr_of_the_mirrored_group_is_the_mirrored_rovr(design):
    x, blocks, channel = design
    assert abs(rovrl.rovr(-x, blocks, channel).item() + rovrl.rovr(x, blocks, channel).item()) < 1e-9


@given(designs(values=st.sampled_from([0.0, 1.0])))
def test_binary_groups_are_treated_the_same_after_exchanging_zeros_and_ones(design):
    x, blocks, channel = design
    assert abs(rovrl.rovr(1 - x, blocks, channel).item() - (1 - rovrl.rovr(x, blocks, channel).item())) < 1e-9


@given(designs(least=3), HUGE, st.sampled_from([-1.0, 1.0]), st.data())
def test_one_replaced_value_moves_the_reference_the_same_way_whatever_its_magnitude(design, huge, sign, data):
    x, blocks, channel = design
    channel = RewardChannel(num_blocks=channel.num_blocks, num_levels=channel.num_levels, scale_source=0.3)
    sizes = blocks.sizes
    if len(sizes) >= 3 or min(sizes) >= 3:
        i = data.draw(st.integers(0, len(x) - 1))
        y = x.clone()
        y[i] = sign * huge
        # the other values are within [-4, 4]: half of the blocks, or most of a block, hold the reference near them
        assert abs(rovrl.rovr(y, blocks, channel).item()) <= 4 + 4 + 1.0


@given(designs())
def test_rovr_stays_within_the_correction_envelope_of_its_median(design):
    """C_B = nu_max B K / (2 D_K W_B) (eq:correction_magnitude)."""
    x, blocks, channel = design
    start = rovrl.REFERENCES["robust_mom"](x, blocks, channel)
    envelope = rovrl.guarantees.correction_envelope(blocks.sizes, channel.num_levels, channel.scale_cap)
    assert abs((rovrl.rovr(x, blocks, channel) - start).item()) <= envelope * (1 + 1e-12)


@given(designs())
def test_the_observed_correction_is_the_distance_from_the_median_of_centers(design):
    """Ĉ_B = |θ̂ - μ̂_0| (eq:correction_magnitude), whichever kernel computes it."""
    x, blocks, channel = design
    for kernel in ("eager", "numba"):
        with use_kernel(kernel):
            found = rovr_parts(x.unsqueeze(0), blocks, channel)
            start = rovrl.REFERENCES["robust_mom"](x, blocks, channel)
        assert abs(found.correction.item() - abs(found.reference.item() - start.item())) <= 1e-12 * (1 + x.abs().max())


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(1e-2, 1e3))
def test_the_m_center_lies_between_the_extremes(x, width):
    x = torch.tensor(x, dtype=torch.float64)
    assert x.min() <= rovrl.m_center(x, width) <= x.max()


@given(st.lists(LATTICE, min_size=1, max_size=30), st.integers(1, 6))
def test_the_m_center_is_scale_equivariant_with_its_width(x, power):
    x = torch.tensor(x, dtype=torch.float64)
    factor = 4.0**power  # exact
    scaled = rovrl.m_center(factor * x, factor).item()
    assert abs(scaled - factor * rovrl.m_center(x).item()) <= 1e-10 * factor


@given(st.lists(LATTICE, min_size=2, max_size=30), st.data())
def test_raising_a_value_never_lowers_the_m_center(x, data):
    x = torch.tensor(x, dtype=torch.float64)
    y = x.clone()
    y[data.draw(st.integers(0, len(x) - 1))] += data.draw(st.floats(0, 1e6))
    assert rovrl.m_center(y).item() >= rovrl.m_center(x).item() - 1e-9


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("offset", [0.0, 0.1, 1e3, -1e6])
@pytest.mark.parametrize("levels", [1, 9])
def test_blocks_that_hold_the_same_values_in_another_order_tie(offset, levels):
    """Their centers may differ in the last bit; an exact comparison would turn that into half a unit of the indicator."""
    rng = np.random.default_rng(0)
    values = rng.choice([0.1, 0.2, 0.3, 0.7, 1.0, 1 / 3], size=(400, 7)) + offset
    x = torch.as_tensor(np.concatenate([rng.permuted(values, axis=-1) for _ in range(3)], -1))
    blocks, channel = Blocks.contiguous(21, 3), RewardChannel(num_levels=levels)
    first = rovrl.REFERENCES["global_m"](torch.as_tensor(values), Blocks.contiguous(7, 1), channel)
    # the least jump would be nu / (2 D_K W_B) > 1e-3; the centers of -1e6 + x have ulps of 1e-10
    torch.testing.assert_close(rovrl.rovr(x, blocks, channel), first, atol=2e-9, rtol=0)
