"""Bounded credit under attack: a hill climb over rewards, replacements and magnitudes up to 1e300 tries to break each bound."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rovrl import ADVANTAGES, REFERENCES, Blocks, RewardChannel, rovr
from rovrl import guarantees as g
from rovrl.credit import credit_map

CHANNELS = {
    "paper": RewardChannel(),
    "wide floor": RewardChannel(credit_bound=0.5, credit_floor=0.5),
    "floor above bound": RewardChannel(credit_bound=0.05, credit_floor=1.0),
}
LARGEST = 1e300


def ratios(clean: torch.Tensor, attacked: torch.Tensor, replaced: int, channel: RewardChannel) -> torch.Tensor:
    """For each pair of groups the largest |change of a credit| / bound, with the references' true distance."""
    group = clean.shape[-1]
    blocks = Blocks.contiguous(group, channel.num_blocks)
    before, after = (ADVANTAGES["credit"](x, channel, blocks=blocks) for x in (clean, attacked))
    e_theta = (rovr(attacked, blocks, channel) - rovr(clean, blocks, channel)).abs()
    e_R = (attacked - clean).abs()
    kappa, s_min = channel.credit_bound, channel.credit_floor
    bounds = [
        [g.credit_stability(float(e), float(e_t), replaced, group, kappa, s_min) for e in row]
        for row, e_t in zip(e_R, e_theta, strict=True)
    ]
    limit = g.credit_bound(kappa, s_min, group)
    assert float(after.abs().max()) <= limit * (1 + 1e-12)
    rounding = 1e-12 / s_min  # rewards of order 1 are known to 1e-16, credits to that over the floor
    return ((after - before).abs() / (torch.tensor(bounds, dtype=torch.float64) + rounding)).amax(-1)


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(("group", "replaced"), [(9, 1), (16, 1), (16, 6), (5, 5)])
def test_a_hill_climb_over_replacements_never_passes_the_credit_bound(name, group, replaced, generator):
    channel, climbers = CHANNELS[name], 24

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def magnitude(*shape):
        exponent = torch.rand(*shape, generator=generator, dtype=torch.float64) * 310 - 10
        return draw(*shape).sign() * (10.0**exponent).clamp(max=LARGEST)

    clean, values = draw(climbers, group), magnitude(climbers, replaced)

    def attacked(clean, values):
        return torch.cat([values, clean[:, replaced:]], -1)

    best = ratios(clean, attacked(clean, values), replaced, channel)
    for _ in range(12):
        step = 10.0 ** (-3 * torch.rand(climbers, 1, generator=generator, dtype=torch.float64))
        fresh = torch.rand(climbers, 1, generator=generator) < 0.3
        new_clean = clean + step * draw(climbers, group)
        new_values = torch.where(fresh, magnitude(climbers, replaced), values * (1 + step * draw(climbers, replaced)))
        new_values = new_values.clamp(-LARGEST, LARGEST)
        found = ratios(new_clean, attacked(new_clean, new_values), replaced, channel)
        better = (found > best).unsqueeze(-1)
        clean, values = torch.where(better, new_clean, clean), torch.where(better, new_values, values)
        best = torch.maximum(best, found)
    assert float(best.max()) <= 1
    if name != "paper":  # whose s_min = 1e-3 makes the bound "numerically loose", as the paper says: κ³/s_min³
        assert float(best.max()) > 0.1, "the climb got nowhere"


def test_the_credit_bound_is_nearly_attained_by_a_reward_that_changes_sides():
    """κ far below s_min: the focal numerator moves by 2κ and the scale hardly at all."""
    channel = RewardChannel(credit_bound=0.01, credit_floor=1.0)
    clean = torch.linspace(-1, 1, 16, dtype=torch.float64)
    clean[0] = -1e9
    attacked = clean.clone()
    attacked[0] = 1e9
    assert 0.9 < float(ratios(clean[None], attacked[None], 1, channel)) <= 1


def test_the_scale_bound_is_nearly_attained_by_rewards_that_leave_the_center():
    channel = RewardChannel(credit_bound=0.01, credit_floor=1.0, arbitrary_blocks=None)
    clean = torch.zeros(16, dtype=torch.float64)
    attacked = clean.clone()
    attacked[:4] = torch.tensor([1e9, -1e9, 1e9, -1e9])  # opposite pairs: the reference stays
    center = float(rovr(attacked, Blocks.contiguous(16, 1), channel))

    def scale(x, theta):
        return math.sqrt(1.0 + float((credit_map(x - theta, 0.01) ** 2).mean()))

    moved = abs(scale(attacked, center) - scale(clean, 0.0))
    bound = g.credit_scale_stability(abs(center), 4, 16, 0.01, 1.0)
    assert 0.95 * bound < moved <= bound


@pytest.mark.parametrize(
    ("kappa", "floor", "group"), [(1.0, 1e-3, 16), (1.0, 1e-3, 64), (0.01, 1.0, 16), (1.0, 5.0, 8)]
)
def test_the_global_bound_is_nearly_attained_by_a_lone_spike(kappa, floor, group):
    rewards = torch.zeros(group, dtype=torch.float64)
    rewards[0] = 1e12
    largest = float(ADVANTAGES["credit"](rewards, RewardChannel(credit_bound=kappa, credit_floor=floor)).abs().max())
    bound = g.credit_bound(kappa, floor, group)
    assert 0.95 * bound <= largest <= bound * (1 + 1e-12)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_the_bounded_map_takes_no_more_than_the_fidelity_bound(u, kappa):
    shaped = float(credit_map(torch.tensor(u, dtype=torch.float64), kappa))
    assert abs(shaped - u) <= g.credit_fidelity(u, kappa) * (1 + 1e-9) + 4e-16 * abs(u) + 5e-323


def test_the_fidelity_bound_is_attained_by_small_residuals():
    u = 0.02
    taken = abs(float(credit_map(torch.tensor(u, dtype=torch.float64), 1.0)) - u)
    assert 0.999 * g.credit_fidelity(u, 1.0) <= taken <= g.credit_fidelity(u, 1.0)


@given(st.data())
def test_two_clean_responses_keep_their_contrast_whatever_the_rest_of_the_group_is(data):
    group = data.draw(st.integers(4, 20))
    rest = st.floats(-5, 5) | st.sampled_from([1e300, -1e300, 1e12, -1e12])
    rewards = data.draw(st.lists(rest, min_size=group, max_size=group))
    rewards[:2] = data.draw(st.lists(st.floats(-3, 3), min_size=2, max_size=2))
    kappa, floor = data.draw(st.floats(0.05, 5)), data.draw(st.floats(1e-3, 2))
    channel = RewardChannel(credit_bound=kappa, credit_floor=floor, scale_source=1.0)
    x, blocks = torch.tensor(rewards, dtype=torch.float64), Blocks.contiguous(group, 3)
    budgeted = min(blocks.sizes) >= 3  # else the advantage falls back to one block
    theta = float(rovr(x, blocks if budgeted else Blocks.contiguous(group, 1), channel))
    advantages = ADVANTAGES["credit"](x, channel, blocks=blocks)
    residual = max(abs(r - theta) for r in rewards[:2])
    least = g.contrast_retention(abs(rewards[0] - rewards[1]), residual * (1 + 1e-12), kappa, floor)
    assert abs(float(advantages[0] - advantages[1])) >= least * (1 - 1e-9) - 1e-12 * g.credit_bound(kappa, floor, group)


def test_the_retained_contrast_is_attained_when_everybody_else_is_saturated():
    rewards = torch.tensor([1.0, 0.999] + [1e9, -1e9] * 500, dtype=torch.float64)
    shaped = credit_map(rewards, 1.0)  # about a reference of 0
    scale = math.sqrt(1e-6 + float((shaped**2).mean()))
    kept = float(shaped[0] - shaped[1]) / scale
    least = g.contrast_retention(0.001, 1.0, 1.0, 1e-3)
    assert least <= kept <= 1.01 * least


def test_the_finite_credit_bound_holds_for_all_responses_at_once():
    """cor:finite_credit against the adversary of thm:finite_group: 9 blocks of 25, one arbitrary, one replacement elsewhere."""
    sizes, trials, t, theta = (25,) * 9, 300, 1.2, 0.0
    channel = RewardChannel(num_blocks=9, credit_bound=1.0, credit_floor=0.3, scale_cap=1.5)
    a = 0.99 * 0.3906  # -g(1.2)/1.2 of a standard normal at c = 1
    settings = {"num_levels": 9, "scale_cap": 1.5, "credit_bound": 1.0, "credit_floor": 0.3}
    clean = torch.from_numpy(np.random.default_rng(8).normal(size=(trials, sum(sizes))))
    attacked = clean.clone()
    attacked[:, :25] = 1e300
    for start in range(25, 225, 25):
        lowest = clean[:, start : start + 25].argmin(-1) + start
        attacked[torch.arange(trials), lowest] = 1e300
    blocks = Blocks.contiguous(225, 9)
    shaped = credit_map(clean - theta, 1.0)
    target = shaped / (0.3**2 + (shaped**2).mean(-1, keepdim=True)).sqrt()
    moved = (ADVANTAGES["credit"](attacked, channel, blocks=blocks) - target).abs()
    changed = attacked != clean
    theta_hat, median = (REFERENCES[n](attacked, blocks, channel) for n in ("rovr", "robust_mom"))
    for correction in (None, float((theta_hat - median).abs().max())):
        replaced = g.finite_credit(t, sizes, 1, 1, a, 1.0, differing=33, correction=correction, **settings)
        kept = g.finite_credit(
            t, sizes, 1, 1, a, 1.0, differing=33, correction=correction, reward_error=0.0, **settings
        )
        assert replaced.failure == kept.failure < 1
        broken = ((moved > kept.bound) & ~changed).any(-1) | ((moved > replaced.bound) & changed).any(-1)
        rate = float(broken.double().mean())
        assert rate <= replaced.failure + 4 * math.sqrt(replaced.failure * (1 - replaced.failure) / trials)


def test_the_finite_credit_bound_is_nearly_attained_by_a_wide_floor():
    """With s_min far above κ the scale hardly matters: a reference that is off by t changes a small credit by t/s_min."""
    t, kappa, floor = 0.2, 1.0, 50.0
    settings = {"num_levels": 9, "scale_cap": 1.0, "credit_bound": kappa, "credit_floor": floor}
    bound = g.finite_credit(t, (60,), 0, 0, 0.4, 1.0, correction=0.0, reward_error=0.0, differing=0, **settings).bound
    rewards = torch.linspace(-0.1, 0.1, 60, dtype=torch.float64)
    credits = [credit_map(rewards - theta, kappa) for theta in (0.0, t)]
    changed = [c / math.sqrt(floor**2 + float((c * c).mean())) for c in credits]
    assert 0.9 * bound < float((changed[1] - changed[0]).abs().max()) <= bound
