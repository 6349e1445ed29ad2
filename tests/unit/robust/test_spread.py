"""The spread that "adaptive" credit is measured in: its defining equation, its unit, and what spikes do to it."""

from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import rovrl
from rovrl import RewardChannel
from rovrl.robust.spread import FEW, caution, core_spread, minimax_bound, spread
from rovrl.scales import within_group_scale, within_group_spread

ALWAYS = lambda distance: True  # noqa: E731 - what is far is scattered by chance
ADAPTIVE = RewardChannel(credit_bound="adaptive", credit_floor="adaptive")


def sandwich(groups, c):
    """Independent and slow: every group's M-center by bisection, then √(mean ψ²)/mean ψ' over all responses."""
    residuals = []
    for x in groups:
        center = brentq(lambda m, x=x: np.sum((x - m) / np.sqrt(c**2 + (x - m) ** 2)), x.min(), x.max(), xtol=1e-15)
        residuals.extend(x - center)
    u = np.array(residuals)
    psi, slope = u / c**2 / np.sqrt(1 + (u / c) ** 2), (1 + (u / c) ** 2) ** -1.5 / c**2
    return np.sqrt(np.mean(psi**2)) / np.mean(slope)


def scores(rate=0.0, groups=32, seed=0, size=18.64, group=16):
    """Like a learned reward: prompt offset, a contrast of 0.33 at mixed accuracies, noise 0.05; some of them spiked."""
    rng = np.random.default_rng(seed)
    right = rng.random((groups, group)) < rng.beta(0.7, 0.7, (groups, 1))
    clean = rng.normal(0, 1.15, (groups, 1)) + 0.33 * right + rng.normal(0, 0.05, (groups, group))
    return torch.as_tensor(clean + size * rng.choice([-1, 1], clean.shape) * (rng.random(clean.shape) < rate))


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_its_own_sandwich_scale_at_five_quarters_of_it(rate, seed):
    x = scores(rate, seed=seed)
    s = spread([x])
    assert sandwich(x.numpy(), 1.25 * s) == pytest.approx(s, rel=1e-8)


def test_for_normal_rewards_it_is_about_the_standard_deviation():
    x = torch.as_tensor(np.random.default_rng(0).normal(3.0, 0.2, (2000, 16)))
    assert spread([x]) == pytest.approx(0.2, rel=0.06)


@given(
    factor=st.floats(1e-6, 1e6),
    shifts=st.lists(st.floats(-100, 100), min_size=32, max_size=32),
    seed=st.integers(0, 3),
    sign=st.sampled_from([-1, 1]),
)
def test_it_follows_a_change_of_unit_and_ignores_offsets_of_prompts(factor, shifts, seed, sign):
    x = scores(0.1, seed=seed)
    moved = sign * factor * (x + torch.tensor(shifts, dtype=torch.float64).unsqueeze(1))
    assert spread([moved]) == pytest.approx(factor * spread([x]), rel=1e-6)


@pytest.mark.parametrize(
    ("group", "rate", "limit"), [(16, 0.05, 1.5), (16, 0.1, 2.0), (16, 0.2, 5.0), (8, 0.1, 2.0), (4, 0.1, 3.0)]
)
@pytest.mark.parametrize("size", [1.0, 18.64, 1e6, 1e300])
def test_spikes_of_any_size_move_it_little(group, rate, limit, size):
    groups = 512 // group
    moved = [
        spread([scores(rate, groups, seed, size, group)]) / spread([scores(0.0, groups, seed, size, group)])
        for seed in range(40)
    ]
    assert min(moved) > 0.8
    assert max(moved) < limit


def test_the_median_over_groups_of_the_sandwich_scale_triples():
    """What the spread is there for."""
    ids = np.repeat(np.arange(32), 16)
    scales = [within_group_scale(scores(rate).flatten(), ids, RewardChannel()) for rate in (0.0, 0.1)]
    assert scales[1] > 2.5 * scales[0]


@pytest.mark.parametrize("accuracy", [0.05, 0.3, 0.5, 0.93])
@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_of_two_valued_rewards_it_is_at_least_half_their_step_and_at_most_that_step(accuracy, rate, step):
    """Rare honest answers are not outliers: a spread near 0 would make credit a sign."""
    rng = np.random.default_rng(1)
    right = (rng.random((64, 16)) < accuracy).astype(float)
    x = step * (right + 16 * rng.choice([-1, 1], right.shape) * (rng.random(right.shape) < rate))
    assert 0.5 * step <= spread([torch.as_tensor(x)]) < step


@pytest.mark.parametrize("tied", [0.5, 0.8, 0.9])
def test_spikes_in_groups_without_contrast_are_not_taken_for_the_step(tied):
    """Late in training most groups are all right or all wrong, and what differs in them is the spike."""
    rng = np.random.default_rng(2)
    sure = (rng.random((256, 1)) < 0.7).astype(float)
    accuracy = np.where(rng.random((256, 1)) < tied, sure, 0.5)
    x = (rng.random((256, 16)) < accuracy).astype(float)
    x += 16 * rng.choice([-1, 1], x.shape) * (rng.random(x.shape) < 0.1)
    assert 0.5 <= spread([torch.as_tensor(x)]) < 1


def test_rounding_is_no_step():
    rng = np.random.default_rng(5)
    right = (rng.random((64, 16)) < 0.1).astype(float)
    assert spread([torch.as_tensor(right * (1 - 6e-8 * (rng.random(right.shape) < 0.5)))]) == pytest.approx(
        0.5, rel=1e-6
    )
    assert spread([torch.tensor([[1.0, 1.00000001, 1.0]])]) == 0.0


def test_groups_without_contrast_say_nothing():
    x = scores()
    tied = torch.ones(50, 16, dtype=torch.float64)
    assert spread([torch.cat([tied, x])]) == pytest.approx(spread([x]), rel=1e-9)
    assert spread([tied]) == spread([x[:0]]) == spread([x[:, :1]]) == spread([]) == 0.0


def test_ragged_groups_in_any_order_and_failed_rewards():
    rng = np.random.default_rng(4)
    sizes = [16, 12, 7, 16, 3, 1]
    rows = [rng.normal(size=n) for n in sizes]
    rewards, ids = np.concatenate(rows), np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(rewards))
    expected = within_group_spread(rewards, ids)
    assert sandwich(rows[:5], 1.25 * expected) == pytest.approx(expected, rel=1e-8)
    assert within_group_spread(rewards[order], ids[order]) == pytest.approx(expected, rel=1e-9)
    more = np.concatenate([rewards, [np.nan, np.inf, -np.inf]])
    assert within_group_spread(more, np.concatenate([ids, [0, 1, 2]])) == pytest.approx(expected, rel=1e-9)


def test_the_type_of_the_rewards_does_not_matter():
    x = scores(0.1).float()
    assert spread([x]) == spread([x.double()])
    assert spread([torch.tensor([[0, 1, 1, 5], [2, 2, 3, 9]])]) > 0


@pytest.mark.parametrize(
    "rows",
    [
        [[0, 0, 0, 5e-324]],
        [[-1.7e308, 1.7e308]],
        [[-1.7e308, 1.7e308]] * 5 + [[0.0, 1.0]] * 2,
        [[1e-310, 2e-310, 5e-310]],
        [[-1e-300, 1e-300, 5e-301, 0]],
        [[-1e150, 1e150, 5e149, 0]],
    ],
)
def test_no_finite_rewards_break_it(rows):
    x = torch.tensor(rows, dtype=torch.float64)
    assert 0 <= spread([x]) < np.inf
    assert rovrl.ADVANTAGES["credit"](x, ADAPTIVE).isfinite().all()


@pytest.mark.parametrize("group", [4, 8, 16])
def test_the_core_spread_is_the_spread_where_nothing_is_far(group):
    rows = scores(0.0, groups=128, group=group)
    assert core_spread([rows], ALWAYS) == spread([rows])  # the tails of its noise are few
    assert core_spread([], ALWAYS) == core_spread([torch.ones(5, group).double()], ALWAYS) == 0


@pytest.mark.parametrize("size", [3.0, 18.64])
@pytest.mark.parametrize("group", [8, 16])
def test_a_fifth_of_spikes_leaves_the_core_spread_what_it_was_and_doubles_the_spread(group, size):
    clean, spiked = (scores(rate, groups=256, group=group, size=size) for rate in (0.0, 0.2))
    assert core_spread([spiked], ALWAYS) == pytest.approx(caution(0.2) * spread([clean]), rel=0.1)
    assert spread([spiked]) > 2 * spread([clean])
    assert core_spread([1e6 * spiked], ALWAYS) == pytest.approx(1e6 * core_spread([spiked], ALWAYS), rel=1e-9)


def test_no_rounding_of_a_discrete_variable_puts_its_values_beyond_the_limit():
    """Its spread is half a step, so four spreads are two steps, where values lie: in any unit and from any origin."""
    rng = np.random.default_rng(5)
    steps = rng.random((256, 16)) < rng.beta(2, 1, (256, 1))
    grades = torch.as_tensor(steps + 2.0 * (rng.random(steps.shape) < 0.05))
    assert spread([grades]) == 0.5
    expected = core_spread([grades], ALWAYS)
    for unit, origin in ((3.7, 0), (0.1, 0), (1, 1 / 3), (0.1, 1 / 7), (0.1, 10), (0.05, 70)):
        for dtype in (torch.float32, torch.float64):
            moved = (unit * grades + origin).to(dtype)
            assert core_spread([moved], ALWAYS) == pytest.approx(unit * expected, rel=1e-4)


def test_the_core_of_ragged_groups_is_that_of_their_members():
    """Independent and slow: members are left out one group after the other."""
    ragged = [scores(0.2, groups=64, group=16), scores(0.1, groups=64, group=7, seed=3)]
    most = 4 * spread(ragged)
    near = [[x[abs(x - np.sort(x)[(len(x) - 1) // 2]) <= most] for x in rows.numpy()] for rows in ragged]
    by_size = {}
    for x in near[0] + near[1]:
        by_size.setdefault(len(x), []).append(x)
    left = [torch.from_numpy(np.stack(rows)) for rows in by_size.values()]
    far = 1 - sum(rows.numel() for rows in left) / sum(rows.numel() for rows in ragged)
    assert core_spread(ragged, ALWAYS) == pytest.approx(caution(far) * spread(left), rel=1e-12)


def test_the_bound_beside_faults_is_hubers_minimax_bound():
    """Huber (1964), table I: k for shares of 0.01 to 0.5; at that k no other has a smaller worst variance."""
    table = {0.01: 1.945, 0.02: 1.717, 0.05: 1.398, 0.1: 1.140, 0.2: 0.862, 0.3: 0.6845, 0.5: 0.436}
    normal = NormalDist()
    for share, known in table.items():
        found = minimax_bound(share)
        assert found == pytest.approx(known, abs=5e-4)

        def worst(k, share=share):
            inside = 2 * normal.cdf(k) - 1
            square = inside - 2 * k * normal.pdf(k) + 2 * k**2 * normal.cdf(-k)
            return ((1 - share) * square + share * k**2) / ((1 - share) * inside) ** 2

        assert worst(found) < min(worst(0.98 * found), worst(1.02 * found))
    assert caution(FEW) == 1
    assert caution(0.1) == pytest.approx(1.140 / 1.717, abs=1e-3)
