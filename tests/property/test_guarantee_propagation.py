"""prop:grpo_broadcast and prop:center_only_impossibility against mean-RMS and center-only advantages themselves."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from rovrl import RewardChannel, contrast, rovr
from rovrl import guarantees as g
from rovrl.credit import FORMULAS
from rovrl.robust.blocks import Blocks

rewards_ = st.lists(st.floats(-100, 100), min_size=2, max_size=24)
spike_ = st.floats(-1e6, 1e6)


def mean_rms(rewards, floor):
    """eq:grpo_advantage, in long double."""
    R = np.asarray(rewards, dtype=np.longdouble)
    s = np.sqrt(((R - R.mean()) ** 2).mean() + np.longdouble(floor))
    return R.mean(), s, (R - R.mean()) / s


@given(rewards_, st.integers(0, 1000), spike_, st.floats(1e-6, 1))
def test_the_spike_formulas_are_exact(rewards, j, delta, floor):
    j %= len(rewards)
    spike = g.grpo_spike(rewards, j, delta, floor)
    moved = [r + delta * (i == j) for i, r in enumerate(rewards)]
    mean, scale, advantages = mean_rms(moved, floor)
    size = max(map(abs, moved))
    assert spike.mean == pytest.approx(float(mean), abs=1e-14 * size)
    assert spike.scale == pytest.approx(float(scale), rel=1e-9, abs=1e-12 * size)
    # a residual is known to a rounding of the rewards, so an advantage to that over the scale
    assert spike.advantages == pytest.approx(advantages.astype(float), rel=1e-9, abs=1e-14 * size / float(scale))
    R = np.asarray(rewards, dtype=np.longdouble)
    G, s_R2 = len(R), R.var() + np.longdouble(floor)
    paper = s_R2 + 2 * np.longdouble(delta) * (R[j] - R.mean()) / G + (G - 1) * np.longdouble(delta) ** 2 / G**2
    assert spike.scale**2 == pytest.approx(float(paper), rel=1e-9, abs=1e-13 * size**2)


@given(rewards_, st.integers(0, 1000), st.floats(-1e300, 1e300), st.floats(0, 1))
def test_no_spike_breaks_the_sum_the_square_sum_or_the_maximum_of_mean_rms_advantages(rewards, j, delta, floor):
    assume(floor > 0 or len({r + delta * (i == j % len(rewards)) for i, r in enumerate(rewards)}) > 1)
    G = len(rewards)
    advantages = g.grpo_spike(rewards, j % G, delta, floor).advantages
    assert math.fsum(advantages) == pytest.approx(0, abs=1e-7 * G)  # the others' mean is rounded once
    assert math.fsum(a * a for a in advantages) <= G * (1 + 1e-9)
    assert max(map(abs, advantages)) <= g.grpo_bound(G) * (1 + 1e-9)


@given(rewards_, st.integers(0, 1000), st.sampled_from([-1.0, 1.0]))
def test_a_growing_spike_reaches_the_broadcast_limit_and_erases_the_contrast(rewards, j, sign):
    G, j = len(rewards), j % len(rewards)
    limit = g.grpo_limit(G)
    spike = g.grpo_spike(rewards, j, sign * 1e9)
    # the limit is approached like (range of the rewards)·G / |Δ|
    assert spike.advantages[j] == pytest.approx(sign * limit.focal, abs=1e-3)
    assert [a for i, a in enumerate(spike.advantages) if i != j] == pytest.approx(
        [sign * limit.clean] * (G - 1), abs=1e-3
    )
    if G >= 3:
        keep = torch.arange(G) != j
        assert float(contrast(torch.tensor(spike.advantages), keep)) <= 1e-3


def test_the_largest_mean_rms_advantage_is_attained():
    for G in (2, 5, 16):
        assert max(g.grpo_spike([0.0] * G, 0, 1.0).advantages) == pytest.approx(g.grpo_bound(G), rel=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("group", [4, 9, 16])
def test_a_robust_center_with_a_raw_scale_goes_to_its_limit(group, sign, generator):
    rewards = torch.randn(50, group, generator=generator, dtype=torch.float64)
    rewards[:, 0] = sign * 1e9
    advantages = FORMULAS["center"](rewards, Blocks.contiguous(group, 3), RewardChannel()).advantages
    limit = g.center_only_limit(group)
    assert torch.allclose(advantages[:, 0], torch.tensor(sign * limit.focal, dtype=torch.float64), atol=1e-6)
    assert float(advantages[:, 1:].abs().max()) <= limit.clean + 1e-6


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=20), st.floats(10, 1e12), st.floats(0.01, 1e6))
def test_no_shared_scale_keeps_the_focal_credit_bounded_and_clean_credits_above_their_bound(rewards, delta, scale):
    """Any divisor d: with L the focal credit it gives, clean credits obey the bound for that L."""
    blocks, x = Blocks.contiguous(len(rewards), 3), torch.tensor(rewards, dtype=torch.float64)
    spiked = x.clone()
    spiked[0] += delta
    center = float(rovr(spiked, blocks, RewardChannel()))
    residual = float((x - center).abs().max())
    assume(delta > residual)
    credits = (spiked - center).abs() / scale
    bound = g.center_only_clean_bound(delta, residual, float(credits[0]))
    assert float(credits[1:].max()) <= bound * (1 + 1e-9)


def test_the_clean_credit_bound_is_attained():
    # one clean residual ρ and a focal reward that starts at -ρ: its residual is exactly Δ - ρ
    delta, rho, d = 50.0, 2.0, 7.0
    assert g.center_only_clean_bound(delta, rho, (delta - rho) / d) == pytest.approx(rho / d)
