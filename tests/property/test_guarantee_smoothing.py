"""prop:smoothing and eq:rovr_lipschitz against the maps themselves: nearly tied centers, and gradient ascent on the ratio."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rovrl import Blocks, RewardChannel, rovr
from rovrl import guarantees as g
from rovrl.guarantees.efficiency import grid_offsets
from rovrl.robust.correction import logistic_step, mid_indicator, soft_correction
from rovrl.robust.location import auxiliary
from rovrl.robust.solve import masked_median

GAMMAS = [1e-6, 1e-3, 0.01, 0.3]


def both_maps(centers, sizes, scale, num_levels, gamma):
    """|S_γ - RoVR| of blocks that are constant at the given centers, with a pilot scale."""
    n = sum(sizes)
    starts = [sum(sizes[:b]) for b in range(len(sizes))]
    blocks = Blocks.of([range(s, s + k) for s, k in zip(starts, sizes, strict=True)])
    x = torch.cat([torch.full((k,), m, dtype=torch.float64) for m, k in zip(centers, sizes, strict=True)])
    assert x.shape == (n,)
    channel = RewardChannel(num_levels=num_levels, scale_source=scale, tie_tolerance=0.0)
    return abs(float(auxiliary(x, blocks, channel, gamma) - rovr(x, blocks, channel)))


@given(st.data())
def test_smoothing_nearly_tied_centers_costs_no_more_than_the_margin_allows(data):
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=9))
    num_levels, gamma = data.draw(st.sampled_from([1, 2, 3, 9])), data.draw(st.sampled_from(GAMMAS))
    scale = data.draw(st.sampled_from([0.1, 1.0, 7.0]))
    near = st.sampled_from([0.0, 1e-15, -1e-12, 1e-9, -1e-6, 1e-3, 0.01, 1.0]) | st.floats(-2, 2)
    centers = [data.draw(near) for _ in sizes]
    margin = g.smoothing_margin(centers, sizes, scale, num_levels)
    bound = g.smoothing(margin, gamma, scale, sizes, num_levels)
    # both maps are sums of B·K steps of order 1, each rounded once
    rounding = 1e-15 * g.smoothing(0, 1, scale, sizes, num_levels) + 1e-15 * max(map(abs, centers))
    assert both_maps(centers, sizes, scale, num_levels, gamma) <= bound * (1 + 1e-9) + rounding


def test_each_step_attains_its_exponential_when_the_margin_is_large_against_the_temperature():
    u = torch.tensor([12.0, -12.0, 5.0], dtype=torch.float64)
    error = (logistic_step(u, 1.0) - mid_indicator(u)).abs()
    bound = torch.exp(-u.abs())
    assert bool((error <= bound).all())
    assert bool((error >= 0.99 * bound).all())


def test_the_margin_bound_is_attained_up_to_the_ties_and_cancellation_that_a_median_forces():
    """Of 3 blocks the median one ties at K = 1 and the others cancel unless one is far: a third of the bound is the most."""
    sizes, gamma, delta = (4, 4, 4), 0.01, 0.08
    moved = both_maps([0.0, delta, -50.0], sizes, 1.0, 1, gamma)
    bound = g.smoothing(g.smoothing_margin([0.0, delta, -50.0], sizes, 1.0, 1), gamma, 1.0, sizes, 1)
    assert 0.99 / 3 * bound <= moved <= bound


def test_the_expected_smoothing_error_stays_below_its_bound(generator):
    """Four normal centers: given the others, u_bk moves at least half as fast as center b, so its density is ≤ 2 φ(0)/σ."""
    draws, sigma, scale, sizes = 4000, 0.5, 1.0, (4, 4, 4, 4)
    T = sigma * torch.randn(draws, 4, generator=generator, dtype=torch.float64)
    x, blocks = T.repeat_interleave(4, -1), Blocks.contiguous(16, 4)
    for num_levels in (1, 9):
        channel = RewardChannel(num_levels=num_levels, scale_source=scale)
        for gamma in (1e-3, 0.01, 0.1):
            errors = (auxiliary(x, blocks, channel, gamma) - rovr(x, blocks, channel)).abs()
            bound = g.expected_smoothing(2 / (sigma * math.sqrt(2 * math.pi)), gamma, scale, sizes, num_levels)
            assert float(errors.mean()) <= bound + 4 * float(errors.std()) / math.sqrt(draws)


def test_the_expected_smoothing_error_is_nearly_attained_by_spread_out_centers(generator):
    """Nine uniform centers: every threshold is met from both sides, one at a time, and only the median's block is a tie."""
    draws, gamma, sizes, K = 60_000, 2e-4, (4,) * 9, 3
    T = 2 * torch.rand(draws, 9, generator=generator, dtype=torch.float64) - 1
    x, blocks = T.repeat_interleave(4, -1), Blocks.contiguous(36, 9)
    channel = RewardChannel(num_levels=K, scale_source=0.5)
    errors = (auxiliary(x, blocks, channel, gamma) - rovr(x, blocks, channel)).abs()
    margins = (T - T.median(-1, keepdim=True).values).flatten()
    offsets = 0.25 * torch.tensor(grid_offsets(K), dtype=torch.float64)  # ν Δ_k/√n
    near = torch.stack([((margins - u).abs() < 0.02) & (margins != 0) for u in offsets]).double().mean(-1)
    density = float(near.max()) / 0.04  # of the margins where the thresholds are
    bound = g.expected_smoothing(density, gamma, 0.5, sizes, K)
    error = 4 * float(errors.std()) / math.sqrt(draws)
    assert 0.6 * bound < float(errors.mean()) <= bound + error


def test_the_expected_error_of_one_step_is_the_integral_the_bound_uses(generator):
    """A single margin, uniform on (-1, 1), density ½: E|H - J| = 2γ log 2 · ½ up to the tail beyond 1."""
    u = 2 * torch.rand(400_000, generator=generator, dtype=torch.float64) - 1
    error = (logistic_step(u, 0.02) - mid_indicator(u)).abs()
    expected = 0.02 * math.log(2)
    assert float(error.mean()) == pytest.approx(expected, abs=4 * float(error.std()) / math.sqrt(len(u)))


def smooth_map(T, lam, n, num_levels, gamma):
    """S_γ(T, λ) of block centers [..., B] on equal blocks of n."""
    start = masked_median(T, torch.ones_like(T, dtype=torch.bool))
    return start - soft_correction(T, start, lam, torch.full_like(T, float(n)), num_levels, gamma)


def lipschitz_ratio(T, T2, lam, lam2, n, num_levels, gamma, cap):
    moved = (smooth_map(T, lam, n, num_levels, gamma) - smooth_map(T2, lam2, n, num_levels, gamma)).abs()
    d_T, d_lam = (T - T2).abs().amax(-1), (lam - lam2).abs()
    settings = {"n": n, "num_levels": num_levels, "temperature": gamma, "scale_cap": cap}
    per_center, per_scale = g.lipschitz(1.0, 0.0, **settings), g.lipschitz(0.0, cap, **settings) / cap  # it is linear
    return moved / (per_center * d_T + per_scale * d_lam + 1e-13)


@pytest.mark.parametrize("gamma", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize(("blocks", "n", "num_levels"), [(8, 4, 9), (5, 1, 1), (9, 16, 3)])
def test_gradient_ascent_on_pairs_never_passes_the_lipschitz_bound(gamma, blocks, n, num_levels, generator):
    """Half of the pairs start within γ of each other, where the step is steep, half anywhere; λ and λ' move as well."""
    cap, pairs = 2.0, 200

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    spread = torch.cat(
        [torch.full((pairs // 2, 1), gamma), 10.0 ** torch.linspace(-5, 1, pairs // 2)[:, None]]
    ).double()
    T, move = draw(pairs, blocks).requires_grad_(), draw(pairs, blocks).requires_grad_()
    raw = torch.rand(2, pairs, generator=generator, dtype=torch.float64).requires_grad_()
    optimizer, best = torch.optim.Adam([T, move, raw], lr=0.05), 0.0
    for _ in range(60):
        lam = cap * raw.clamp(1e-6, 1)
        ratio = lipschitz_ratio(spread * T, spread * (T + 0.3 * move), lam[0], lam[1], n, num_levels, gamma, cap)
        best = max(best, float(ratio.detach().max()))
        optimizer.zero_grad()
        (-ratio.sum()).backward()
        optimizer.step()
    assert best <= 1 + 1e-9
    # at a sharp step only one of the K thresholds is near, and the median halves what is left
    assert best > 0.2 / num_levels, "the ascent got nowhere"


def test_the_lipschitz_bound_is_attained_by_a_common_shift_and_half_attained_at_a_sharp_step():
    settings = {"n": 4, "num_levels": 1, "scale_cap": 1.0}
    T, one = (
        torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        torch.ones((), dtype=torch.float64),
    )
    shifted = abs(float(smooth_map(T, one, 4, 1, 1e6) - smooth_map(T + 0.3, one, 4, 1, 1e6)))
    assert 0.999 * g.lipschitz(0.3, 0.0, temperature=1e6, **settings) <= shifted
    # 101 tied centers; 51 go up by d and take the median along, 50 go down: their steps move by 2d at full slope
    tied, d, gamma = torch.zeros(101, dtype=torch.float64), 1e-5, 1e-3
    split = torch.where(torch.arange(101) < 51, d, -d).double()
    moved = abs(float(smooth_map(tied, one, 4, 1, gamma) - smooth_map(split, one, 4, 1, gamma)))
    assert 0.45 * g.lipschitz(d, 0.0, temperature=gamma, **settings) <= moved
