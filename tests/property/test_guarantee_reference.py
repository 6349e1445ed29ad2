"""The reference's bounds against an adversary that sees everything and uses its whole budget.

Failure rates are Monte Carlo: a rate may exceed its bound by four standard errors of a rate that equals the bound.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rovrl import REFERENCES, Blocks, RewardChannel, m_center
from rovrl import guarantees as g
from rovrl.robust.score import psi, psi_deriv

BIG = 1e12
DRAWS = {
    "normal": stats.norm(),
    "heavy": stats.t(2),
    "skewed": stats.expon(),
    "bimodal": stats.rv_discrete(values=([-1, 1], [0.5, 0.5])),
}


@cache
def quantiles(name: str) -> np.ndarray:
    """20,000 equally likely points of the law: a mean of a bounded monotone function over them errs by less than 1e-4."""
    return DRAWS[name].ppf((np.arange(20_000) + 0.5) / 20_000).astype(float)


def separation(name: str, t: float, c: float) -> tuple[float, float]:
    """θ_ρ and nearly the largest a with g(θ + u) ≤ -a u, g(θ - u) ≥ a u on 0 < u ≤ t, from the distribution itself."""

    def score(at: float) -> float:
        z = (quantiles(name) - at) / c
        return float((z / np.sqrt(1 + z * z)).mean()) / c

    low, high = -3.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if score(middle) > 0 else (low, middle)
    theta = (low + high) / 2
    return theta, 0.99 * min(min(-score(theta + u), score(theta - u)) / u for u in np.linspace(t / 20, t, 20))


def attack(x: torch.Tensor, sizes: tuple[int, ...], replaced: int, arbitrary: int, sign: float) -> torch.Tensor:
    """The whole budget in one direction: `arbitrary` blocks and the `replaced` most opposed values elsewhere go to ±1e12."""
    pieces = []
    for b, block in enumerate(x.split(sizes, dim=-1)):
        order = (sign * block).argsort(-1)
        hit = order[..., : block.shape[-1] if b < arbitrary else replaced]
        pieces.append(block.scatter(-1, hit, sign * BIG))
    return torch.cat(pieces, -1)


def attacked(x, sizes, replaced, arbitrary, channel) -> tuple[torch.Tensor, torch.Tensor]:
    """The median of centers and RoVR [2, trials], under the attack downwards and upwards."""
    blocks = Blocks.contiguous(sum(sizes), len(sizes))
    assert blocks.sizes == sizes
    y = torch.stack([attack(x, sizes, replaced, arbitrary, sign) for sign in (-1.0, 1.0)])
    median, theta_hat = (REFERENCES[name](y, blocks, channel) for name in ("robust_mom", "rovr"))
    envelope = g.correction_envelope(sizes, channel.num_levels, channel.scale_cap)
    assert float((theta_hat - median).abs().max()) <= envelope * (1 + 1e-12)
    return median, theta_hat


def failure_rates(median, theta_hat, theta, t) -> tuple[float, float]:
    """How often one direction or the other moves the median of centers by more than t, and RoVR by more than t + Ĉ_B."""
    median_fails = (median - theta).abs() > t
    rovr_fails = (theta_hat - theta).abs() > t + (theta_hat - median).abs()
    return float(median_fails.any(0).double().mean()), float(rovr_fails.any(0).double().mean())


def within(rate: float, bound: float, trials: int) -> bool:
    return rate <= bound + 4 * math.sqrt(bound * (1 - bound) / trials) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(
    ("sizes", "replaced", "arbitrary", "c"),
    [
        ((21,) * 9, 1, 1, 1.0),
        ((30,) * 5, 2, 0, 0.5),
        ((40, 40, 39), 3, 0, 1.0),
        ((25,) * 8, 0, 2, 2.0),
        ((60,), 6, 0, 1.0),
    ],
)
def test_no_adaptive_adversary_within_budget_beats_the_failure_bound(name, sizes, replaced, arbitrary, c):
    trials, channel = 1500, RewardChannel(score_width=c)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(DRAWS[name].rvs(size=(trials, sum(sizes)), random_state=rng).astype(np.float64))
    estimates = attacked(x, sizes, replaced, arbitrary, channel)
    spoke = 0
    for t in (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0):
        theta, a = separation(name, t, c)
        if a <= 0:
            continue  # this law does not separate that far
        bound = g.reference_failure(t, sizes, replaced, arbitrary, a, c, radius=t)
        spoke += bound < 1
        for rate in failure_rates(*estimates, theta, t):
            assert within(rate, bound, trials), (t, rate, bound)
    assert spoke, "no threshold at which the theorem says anything"


def test_the_failure_bound_is_about_this_budget_and_breaks_beyond_it():
    """The same attack with more than the declared budget does beat the bound: it has teeth."""
    sizes, t, channel = (21,) * 9, 1.4, RewardChannel()
    theta, a = separation("normal", t, 1.0)
    bound = g.reference_failure(t, sizes, 1, 1, a, 1.0)
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(200, sum(sizes))))
    assert bound < 0.7
    assert failure_rates(*attacked(x, sizes, 1, 1, channel), theta, t)[0] <= bound
    assert failure_rates(*attacked(x, sizes, 10, 1, channel), theta, t)[0] == 1.0
    assert failure_rates(*attacked(x, sizes, 1, 5, channel), theta, t)[0] == 1.0


@pytest.mark.parametrize("name", ["normal", "skewed", "bimodal"])
def test_the_tail_of_one_attacked_block_stays_below_its_bound(name):
    trials, n = 5_000, 24
    x = torch.from_numpy(DRAWS[name].rvs(size=(trials, n), random_state=np.random.default_rng(2)).astype(np.float64))
    for s in (0, 1, 3):
        up, down = (m_center(attack(x, (n,), s, 0, sign)) for sign in (1.0, -1.0))
        for t in (0.3, 0.6, 1.0, 1.5):
            theta, a = separation(name, t, 1.0)
            bound = g.block_tail(t, n, s, a, 1.0)
            for tail in (up - theta, theta - down):
                assert within(float((tail > t).double().mean()), bound, trials), (s, t)


def test_one_replacement_moves_the_score_by_the_two_bounds_that_the_tail_charges_for_it():
    """2 s_b M_c/n_b is attained: half of the clean mass at each of ±1e6, where the score is ±M_c, and s low ones go up."""
    n, s = 40, 8
    x = torch.from_numpy(np.random.default_rng(3).choice([-1e6, 1e6], size=(400, n)))
    score = psi(attack(x, (n,), s, 0, 1.0)).mean(-1) - psi(x).mean(-1)
    enough = (x < 0).sum(-1) >= s
    assert torch.allclose(score[enough], torch.tensor(2 * s / n, dtype=torch.float64), atol=1e-9)


@given(st.data())
def test_no_replacement_moves_a_center_further_than_its_bound(data):
    n = data.draw(st.integers(2, 20))
    s = data.draw(st.integers(1, n))
    c = data.draw(st.sampled_from([0.1, 1.0, 5.0]))
    value = st.floats(-10, 10) | st.sampled_from([1e12, -1e12, 1e300, -1e300])
    x = torch.tensor(data.draw(st.lists(st.floats(-10, 10), min_size=n, max_size=n)), dtype=torch.float64)
    y = x.clone()
    y[:s] = torch.tensor(data.draw(st.lists(value, min_size=s, max_size=s)), dtype=torch.float64)
    before, after = float(m_center(x, c)), float(m_center(y, c))
    for sample in (x, y):  # the condition may be imposed on either dataset
        curvature = least_curvature(sample, before, after, c)
        if curvature > 0:
            bound = g.block_replacement(n, s, curvature, c)
            assert abs(after - before) <= bound * (1 + 1e-9) + 1e-12


def least_curvature(x: torch.Tensor, low: float, high: float, c: float) -> float:
    """A lower bound of inf mean ψ' between the two centers: a fine grid, less its mesh times sup|ψ''| < 0.86/c³."""
    grid = torch.linspace(min(low, high), max(low, high), 2001, dtype=torch.float64)
    mean = psi_deriv(x[None] - grid[:, None], c).mean(-1)
    return float(mean.min()) - abs(high - low) / 4000 * 0.86 / c**3


def test_the_replacement_bound_is_nearly_attained():
    """2 of 200 values jump from -∞ to +∞ around a tight cluster: 0.99 of the bound, so 30 % less would be false."""
    x = torch.zeros(200, dtype=torch.float64)
    x[:2] = -BIG
    y = x.clone()
    y[:2] = BIG
    before, after = float(m_center(x)), float(m_center(y))
    bound = g.block_replacement(200, 2, least_curvature(x, before, after, 1.0), 1.0)
    assert 0.98 * bound <= abs(after - before) <= bound


def test_the_correction_envelope_is_half_attained_whatever_the_centers_and_never_exceeded(generator):
    """The median keeps half of the centers on each side, so one side can give at most about half of the envelope."""
    sizes, blocks = (4,) * 9, Blocks.contiguous(36, 9)
    channel = RewardChannel(scale_source=3.0, scale_cap=3.0)
    centers = torch.randn(4000, 9, generator=generator, dtype=torch.float64)
    centers = centers.sign() * centers.abs() ** 6 * 30
    centers[0] = torch.tensor([0.0] * 5 + [1e9] * 4)
    x = centers.repeat_interleave(4, -1)
    moved = (REFERENCES["rovr"](x, blocks, channel) - REFERENCES["robust_mom"](x, blocks, channel)).abs()
    envelope = g.correction_envelope(sizes, 9, 3.0)
    assert 0.4 * envelope <= float(moved.max()) <= envelope


def loads(total: int, corrupted: int, sizes: tuple[int, ...], draws: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    marks = np.zeros((draws, total))
    marks[:, :corrupted] = 1
    shuffled = rng.permuted(marks, axis=1)
    edges = np.cumsum((0, *sizes))
    return np.stack([shuffled[:, a:z].sum(1) for a, z in itertools.pairwise(edges)], -1)


@pytest.mark.parametrize("sizes", [(6, 5, 5), (40,) * 4, (3,) * 12])
def test_a_random_partition_is_no_more_crowded_than_its_bound(sizes):
    draws, total = 20_000, sum(sizes)
    for corrupted in (1, total // 4, total // 2):
        excess = loads(total, corrupted, sizes, draws, 4) - np.array(sizes) * corrupted / total
        for u in (0.5, 1.0, 2.0, 4.0):
            rate = float((excess.max(-1) >= u).mean())
            assert within(rate, g.partition_load(u, sizes), draws)
        budgets = np.array(g.partition_budgets(sizes, corrupted, 0.05))
        over = (loads(total, corrupted, sizes, draws, 5) > budgets).any(-1).mean()
        assert within(float(over), 0.05, draws)


@pytest.mark.slow
def test_scattered_replacements_under_a_random_partition_stay_below_the_failure_bound():
    sizes, corrupted, delta, trials = (100,) * 9, 9, 0.02, 400
    rng = np.random.default_rng(6)
    clean = rng.normal(size=(trials, sum(sizes)))
    spoke = 0
    for t in (0.6, 0.9, 1.3):
        theta, a = separation("normal", t, 1.0)
        bound = g.partition_failure(t, sizes, corrupted, a, 1.0, delta, radius=t)
        spoke += bound < 1
        failed = np.zeros(trials, dtype=bool)
        for value in (-BIG, BIG):
            y = clean.copy()
            y[:, :corrupted] = value  # indices fixed first, then an independent partition per trial
            y = torch.from_numpy(np.random.default_rng(7).permuted(y, axis=1))
            theta_hat = REFERENCES["rovr"](y, Blocks.contiguous(900, 9), RewardChannel())
            median = REFERENCES["robust_mom"](y, Blocks.contiguous(900, 9), RewardChannel())
            failed |= ((theta_hat - theta).abs() > t + (theta_hat - median).abs()).numpy()
        assert within(float(failed.mean()), bound, trials)
    assert spoke


def far_law(x: float, draws: int, n: int, seed: int = 0) -> torch.Tensor:
    """Draws at 0 and, with mass (1 - x)/2 each, at ±1e6: the separation a t c is x for every t between c and 1e6."""
    p = (1 - x) / 2
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.choice([0.0, 1e6, -1e6], p=[1 - 2 * p, p, p], size=(draws, n)))


def test_the_tail_is_one_and_attained_when_half_of_a_block_may_be_replaced():
    """At s = n/2 the excess is 0, the bound 1, and the attack succeeds every time: half of the bound would be false."""
    x = torch.from_numpy(np.random.default_rng(4).normal(size=(50, 8)))
    assert g.block_tail(1.0, 8, 4, 0.4, 1.0) == 1.0
    assert bool((m_center(attack(x, (8,), 4, 0, 1.0)) > 1.0).all())


@pytest.mark.parametrize("x", [0.05, 0.2])
def test_single_observations_fail_nearly_as_often_as_the_bounds_allow(x):
    """One block of one: it fails with probability 1 - x, and no bound on that may be half as large."""
    t, trials = 1e3, 4000
    draws = far_law(x, trials, 1)
    a = 0.999 * x / t
    rate = float((draws.abs() > t).double().mean())
    error = 4 * math.sqrt(0.25 / trials)
    failure = g.reference_failure(t, (1,), 0, 0, a, 1.0)
    scattered = g.partition_failure(t, (1,), 0, a, 1.0, 1e-6)
    sharp = g.sharp_reference_failure(t, (1,), 0, 0, a, 1.0)
    for bound in (failure, scattered, sharp):
        assert rate - error <= bound <= 2 * rate


def test_seven_blocks_of_one_fail_within_a_few_times_of_what_the_bound_allows():
    """Where β is well below 1: a hundredth of it would be false."""
    t, x, trials = 1e3, 0.8, 40_000
    draws = far_law(x, trials, 7)
    a = 0.999 * x / t
    bound = g.reference_failure(t, (1,) * 7, 0, 1, a, 1.0)
    attacked_draws = draws.clone()
    attacked_draws[:, 0] = 1e6  # the arbitrary block
    up = float((attacked_draws.median(-1).values > t).double().mean())
    attacked_draws[:, 0] = -1e6
    rate = up + float((attacked_draws.median(-1).values < -t).double().mean())
    assert rate <= bound
    assert g.sharp_reference_failure(t, (1,) * 7, 0, 1, a, 1.0) <= 20 * rate
