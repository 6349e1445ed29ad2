"""The quantile grid, the tie-neutral step, its logistic smoothing and the auxiliary map S_gamma."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import Blocks, RewardChannel
from rovrl.robust.correction import (
    composite,
    hard_correction,
    logistic_step,
    mid_indicator,
    quantile_grid,
    thresholds,
    tie_width,
)
from rovrl.robust.location import auxiliary
from samples import reward_groups


@pytest.mark.parametrize("K", [1, 2, 3, 9, 15, 31, 100])
def test_the_grid_agrees_with_the_normal_distribution(K):
    tau, delta, total = ref.quantile_grid(K)
    grid = quantile_grid(K)
    np.testing.assert_allclose(grid.levels.numpy(), tau, atol=1e-16)
    np.testing.assert_allclose(grid.offsets.numpy(), delta, atol=1e-13)
    assert grid.density == pytest.approx(total, rel=1e-13)
    assert torch.equal(grid.offsets, -grid.offsets.flip(0))


@pytest.mark.parametrize(
    ("K", "published"), [(1, 1.5708), (3, 1.1680), (5, 1.1034), (9, 1.0691), (15, 1.0564), (31, 1.0498)]
)
def test_the_outer_factor_has_the_papers_values(K, published):
    assert rovrl.guarantees.outer_factor(K) == pytest.approx(published, abs=5e-5)
    assert rovrl.guarantees.outer_factor(K) == pytest.approx(ref.outer_factor(K), rel=1e-12)


def test_the_mid_indicator_is_one_half_at_a_tie():
    u = torch.tensor([-1.0, -1e-300, 0.0, -0.0, 1e-300, 1.0], dtype=torch.float64)
    assert mid_indicator(u).tolist() == [1.0, 1.0, 0.5, 0.5, 0.0, 0.0]
    assert mid_indicator(u, 1e-12).tolist() == [1.0, 0.5, 0.5, 0.5, 0.5, 0.0]


def test_the_logistic_step_is_one_half_at_zero_and_tends_to_the_mid_indicator():
    u = torch.tensor([-1e300, -2.0, -1e-3, 0.0, 1e-3, 2.0, 1e300], dtype=torch.float64)
    for gamma in (1.0, 1e-2, 1e-5):
        ours = logistic_step(u, gamma)
        assert ours[3] == 0.5
        np.testing.assert_allclose(ours[1:-1].numpy(), [ref.soft_step(v, gamma) for v in u[1:-1].tolist()], atol=1e-15)
        assert ours[[0, -1]].tolist() == [1.0, 0.0]
    torch.testing.assert_close(logistic_step(u, 1e-5), mid_indicator(u), atol=1e-12, rtol=0)


def test_the_conventional_indicator_would_move_constants_and_ours_does_not():
    """With "<=" odd K gives -nu B / (2 D_K W_B) on constant data (below prop:calibration)."""
    sizes = torch.tensor([6.0, 5.0, 5.0], dtype=torch.float64)
    centers, start, nu = torch.zeros(3).double(), torch.zeros(()).double(), torch.tensor(0.3, dtype=torch.float64)
    for K in (1, 3, 9):
        u = thresholds(centers, start, nu, sizes, K)
        assert composite(mid_indicator(u), nu, sizes) == 0
        moved = composite((u <= 0).double(), nu, sizes).item()
        _, _, D = ref.quantile_grid(K)
        W = sum(math.sqrt(n) for n in (6, 5, 5))
        assert moved == pytest.approx(0.3 * 3 / (2 * D * W), rel=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("num_blocks", [1, 3, 4])
def test_the_auxiliary_map_agrees_with_its_equation(gamma, num_blocks):
    x = reward_groups(90, 16, seed=1)
    x = x[np.abs(x).max(-1) < 100]
    channel = RewardChannel(num_blocks=num_blocks)
    ours = auxiliary(torch.as_tensor(x), Blocks.contiguous(16, num_blocks), channel, gamma).numpy()
    np.testing.assert_allclose(ours, ref.references("rovr", x, ref.contiguous(16, num_blocks), gamma=gamma), atol=1e-9)


def test_the_smoothing_error_obeys_the_margin_bound():
    """eq:smoothing_margin_bound, with m_star computed from the reference's own thresholds."""
    x = np.random.default_rng(2).normal(size=(60, 16))
    members, K = ref.contiguous(16, 3), 9
    blocks, channel = Blocks.contiguous(16, 3), RewardChannel()
    hard = rovrl.rovr(torch.as_tensor(x), blocks, channel).numpy()
    _, delta, D = ref.quantile_grid(K)
    W = sum(math.sqrt(len(m)) for m in members)
    for gamma in (0.1, 0.02):
        soft = auxiliary(torch.as_tensor(x), blocks, channel, gamma).numpy()
        for k, row in enumerate(x):
            parts = [row[m] for m in members]
            centers = [ref.m_center(p) for p in parts]
            nu = ref.pooled_scale(parts, centers)
            start = ref.midpoint_median(centers)
            u = [
                abs(m - start - nu * d / math.sqrt(len(p))) for m, p in zip(centers, parts, strict=True) for d in delta
            ]
            margin = min(v for v in u if v > 1e-9)
            assert abs(soft[k] - hard[k]) <= nu * 3 * K / (D * W) * math.exp(-margin / gamma) + 1e-9


def test_blocks_of_size_zero_do_not_count():
    centers = torch.tensor([0.1, -0.2, 0.4, 9.0], dtype=torch.float64)
    sizes = torch.tensor([4.0, 4.0, 3.0, 0.0], dtype=torch.float64)
    start, nu = torch.tensor(0.1).double(), torch.tensor(0.5).double()
    with_it = composite(mid_indicator(thresholds(centers, start, nu, sizes, 9)), nu, sizes)
    without = composite(mid_indicator(thresholds(centers[:3], start, nu, sizes[:3], 9)), nu, sizes[:3])
    assert with_it == without


def test_centers_that_differ_in_their_last_bits_tie_also_where_the_scale_is_tiny():
    """At 1e6 a bit is 1e-10, far more than the tolerance relative to a scale of 1e-6; a tie counts for a half."""
    sizes = torch.full((3,), 5.0, dtype=torch.float64)
    start, scale = torch.tensor(1e6, dtype=torch.float64), torch.tensor(1e-6, dtype=torch.float64)
    above = torch.nextafter(start, 2 * start)
    for last in (start, above):
        centers = torch.stack((start, start, last))
        moved = hard_correction(centers, start, scale, sizes, num_levels=1, tie_tolerance=1e-9)
        assert float(moved) == 0.0


def test_a_threshold_ties_within_the_tolerance_times_the_scale_and_four_ulp_of_both_centers():
    centers, start = (
        torch.tensor([2.0**20, -(2.0**22)], dtype=torch.float64),
        torch.tensor(2.0**21, dtype=torch.float64),
    )
    width = tie_width(centers, start, torch.tensor(3.0, dtype=torch.float64), 1e-3)
    ulp = 4 * 2.0**-52
    assert width.flatten().tolist() == [3e-3 + ulp * (2**20 + 2**21), 3e-3 + ulp * (2**22 + 2**21)]
