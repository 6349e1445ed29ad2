"""The sharper probability statements: the numbers they must give, exact enumeration, and laws that come close."""

import itertools
import math
from statistics import NormalDist

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rovrl import REFERENCES, Blocks, RewardChannel
from rovrl import guarantees as g
from rovrl.robust.location import rovr_parts
from rovrl_paper.paper.attacks import FAR, attack_law, attack_scattered, far_law

SIXTEEN, LARGE = (6, 5, 5), (100,) * 9
NORMAL = NormalDist().inv_cdf
CASES = [(1, 1, 4.0, 0.195, 0.0267), (0, 1, 3.0, 0.062, 0.0036), (1, 0, 3.0, 0.031, 0.0040)]


@pytest.mark.parametrize(("q", "s", "t", "entropy", "binomial"), CASES)
def test_at_sixteen_responses_the_paper_is_silent_and_the_sharper_bounds_are_not(q, s, t, entropy, binomial):
    a = g.separation(NORMAL, t, 1.0)
    assert g.reference_failure(t, SIXTEEN, s, q, a, 1.0) == 1.0
    by_entropy = g.sharp_reference_failure(t, SIXTEEN, s, q, a, 1.0, tails="entropy")
    assert round(by_entropy, 3) == entropy
    sharpest = g.sharp_reference_failure(t, SIXTEEN, s, q, a, 1.0)
    assert sharpest == pytest.approx(binomial, rel=0.02)
    attained = attack_law(SIXTEEN, s, q, a * t)
    assert attained <= sharpest <= 3 * attained


@pytest.mark.parametrize(("q", "s", "t"), [case[:3] for case in CASES])
def test_the_law_of_the_attack_meets_the_whole_premise_and_fails_as_often_as_it_says(q, s, t):
    """The event |θ̂ − θ| > t + Ĉ_B of the real estimator on every draw of a group of 16, at the largest ν̂."""
    separation = g.separation(NORMAL, t, 1.0) * t
    points, weights = far_law(separation)
    assert g.separation(points, FAR, 1.0, weights) * FAR == pytest.approx(separation, rel=1e-12)
    failing = probability_of_the_event(points, weights, s, q, FAR)
    assert attack_law(SIXTEEN, s, q, separation) == pytest.approx(failing, rel=1e-9)


def probability_of_the_event(points, weights, replaced, arbitrary, t):
    """The attacker sends the arbitrary blocks, the last ones, and the values farthest from a side all to that side."""
    per_block = []
    for b, n in enumerate(SIXTEEN):
        if b >= len(SIXTEEN) - arbitrary:
            per_block.append([([1e12] * n, [-1e12] * n, 1.0)])
            continue
        per_block.append([])
        for low, high in itertools.product(range(n + 1), repeat=2):
            if low + high <= n:
                values = [points[2]] * low + [points[0]] * (n - low - high) + [points[1]] * high
                chance = stats.multinomial.pmf([n - low - high, high, low], n, weights)
                up, down = [*values[replaced:], *[1e12] * replaced], [*[-1e12] * replaced, *values[: n - replaced]]
                per_block[-1].append((up, down, chance))
    draws = list(itertools.product(*per_block))
    fails = []
    for side in (0, 1):
        x = torch.tensor([[v for block in draw for v in block[side]] for draw in draws], dtype=torch.float64)
        found = rovr_parts(x, Blocks.contiguous(16, 3), RewardChannel(scale_source=10.0))
        fails.append(found.reference.abs() > t + found.correction)
    chances = torch.tensor([math.prod(block[2] for block in draw) for draw in draws], dtype=torch.float64)
    return float(chances[fails[0] | fails[1]].sum())


def test_an_attack_at_places_fixed_before_the_draws_has_fewer_draws_of_its_own():
    """A block of four with one replaced: one clean value of the other three, or of all four, on either side is enough."""
    rest = far_law(0.9)[1][0]
    assert attack_scattered((4,), 1, 0.9) == pytest.approx(1 - rest**3, rel=1e-12)
    assert attack_law((4,), 1, 0, 0.9) == pytest.approx(1 - rest**4, rel=1e-12)


def test_the_tails_are_the_equations_in_fifty_digits():
    with mpmath.workdps(50):
        for t, n, s, a in ((1.2, 5, 1, 0.7), (0.9, 6, 0, 1.0), (2.0, 40, 7, 0.45), (0.5, 7, 3, 0.9)):
            p, x = (1 - mpmath.mpf(a) * t) / 2, mpmath.mpf(n) / 2 - s
            y = x / n
            kl = y * mpmath.log(y / p) + (1 - y) * mpmath.log((1 - y) / (1 - p)) if y > p else 0
            assert g.entropy_block_tail(t, n, s, a, 1.0) == pytest.approx(float(mpmath.exp(-n * kl)), rel=1e-12)
            law = [mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
            ratios = [
                sum((k - h) * law[k] for k in range(n + 1) if k > h) / (x - h)
                for h in np.linspace(-3, float(x) - 1e-6, 400).tolist()
            ]
            sharpest, over_all = g.sharp_block_tail(t, n, s, a, 1.0), float(min(1, *ratios))
            assert sharpest <= over_all * (1 + 1e-12)  # whole numbers h are enough
            assert sharpest >= over_all * 0.98  # and the grid holds one close to the best


@given(st.integers(1, 200), st.data())
def test_each_tail_is_at_most_the_next_looser_one(n, data):
    s, c = data.draw(st.integers(0, n)), data.draw(st.floats(0.1, 4))
    t = data.draw(st.floats(0.01, 5))
    a = data.draw(st.floats(0.001, 1)) * min(1 / c**2, 1 / (c * t))
    binomial, entropy, paper = (
        tail(t, n, s, a, c) for tail in (g.sharp_block_tail, g.entropy_block_tail, g.block_tail)
    )
    assert binomial <= entropy * (1 + 1e-9)
    assert entropy <= paper * (1 + 1e-9)


@given(st.data())
def test_no_law_of_bounded_scores_passes_the_binomial_tail(data):
    """Exact enumeration: laws on 0, 1/4, ..., 1, their n-fold sums by convolution, the threshold n/2 - s."""
    n, s = data.draw(st.integers(2, 6)), data.draw(st.integers(0, 1))
    mass = np.array(data.draw(st.lists(st.integers(0, 20), min_size=5, max_size=5)), dtype=float)
    mass[0] += 1
    mass /= mass.sum()
    mean = float(mass @ np.arange(5)) / 4
    if not 0 < mean < 0.5:
        return
    sums = np.array([1.0])
    for _ in range(n):
        sums = np.convolve(sums, mass)
    over = float(sums[np.arange(len(sums)) > 4 * (n / 2 - s)].sum())
    assert over <= g.sharp_block_tail(1.0, n, s, 1 - 2 * mean, 1.0) + 1e-12


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6))
def test_blocks_that_fail_are_counted_exactly(fractions):
    """Against the list of all outcomes; sizes of one observation, whose tail without replacements is 2p."""
    sizes = (1,) * len(fractions)
    tails = [g.sharp_block_tail(1.0, 1, 0, 0.6, 1.0)] * len(sizes)
    majority = math.ceil(len(sizes) / 2)
    exact = sum(
        math.prod(p if hit else 1 - p for p, hit in zip(tails, outcome, strict=True))
        for outcome in itertools.product((True, False), repeat=len(sizes))
        if sum(outcome) >= majority
    )
    assert g.sharp_reference_failure(1.0, sizes, 0, 0, 0.6, 1.0) == pytest.approx(min(1, 2 * exact), rel=1e-12)


def test_a_block_of_another_size_is_counted_with_its_own_tail():
    t, a = 1.5, 0.6
    tails = [g.sharp_block_tail(t, n, s, a, 1.0) for n, s in ((12, 1), (9, 0), (20, 3))]
    two = sum(tails[i] * tails[j] * (1 - tails[3 - i - j]) for i, j in ((0, 1), (0, 2), (1, 2))) + math.prod(tails)
    assert g.sharp_reference_failure(t, (12, 9, 20), (1, 0, 3), 0, a, 1.0) == pytest.approx(2 * two, rel=1e-12)
    kept = sorted(tails)[1:]
    one = 1 - (1 - kept[0]) * (1 - kept[1])
    assert g.sharp_reference_failure(t, (12, 9, 20), (1, 0, 3), 1, a, 1.0) == pytest.approx(2 * one, rel=1e-12)


def test_loads_are_the_quantiles_of_the_hypergeometric_law():
    assert g.exact_loads(SIXTEEN, 1, 0.05) == (1, 1, 1)
    assert g.partition_budgets(SIXTEEN, 1, 0.05) == (4, 4, 4)
    assert g.exact_loads(LARGE, 9, 0.02) == (4,) * 9
    assert g.partition_budgets(LARGE, 9, 0.02) == (19,) * 9
    for sizes, m, delta in (((6, 5, 5), 5, 0.1), ((20, 19), 11, 0.01), ((3,) * 7, 0, 0.2), ((4, 4), 8, 0.5)):
        expected = [int(stats.hypergeom(sum(sizes), m, n).isf(delta / len(sizes))) for n in sizes]
        assert list(g.exact_loads(sizes, m, delta)) == expected


def test_exact_loads_alone_give_the_partition_bound_content():
    a = 0.99 * g.separation(NORMAL, 0.6, 1.0)
    assert g.partition_failure(0.6, LARGE, 9, a, 1.0, 0.02) == 1.0
    with_loads = 0.02 + g.reference_failure(0.6, LARGE, g.exact_loads(LARGE, 9, 0.02), 0, a, 1.0)
    assert with_loads == pytest.approx(0.041, abs=5e-4)
    assert g.sharp_partition_failure(0.6, LARGE, 9, a, 1.0) < 1e-10


@pytest.mark.parametrize(
    ("sizes", "corrupted"), [((2, 2, 2), 2), ((3, 2), 3), ((3, 3, 2), 0), ((2, 2, 1), 5), ((4,), 2)]
)
def test_the_mean_over_partitions_is_the_mean_over_every_placement(sizes, corrupted):
    t, a, N = 0.9, 0.95, sum(sizes)
    block = np.repeat(np.arange(len(sizes)), sizes)
    found = []
    for hit in itertools.combinations(range(N), corrupted):
        loads = np.bincount(block[list(hit)], minlength=len(sizes)) if hit else np.zeros(len(sizes), dtype=int)
        tails = [g.sharp_block_tail(t, n, int(s), a, 1.0) for n, s in zip(sizes, loads, strict=True)]
        outcomes = itertools.product((0, 1), repeat=len(sizes))
        found.append(
            sum(
                math.prod(p if hit else 1 - p for p, hit in zip(tails, outcome, strict=True))
                for outcome in outcomes
                if sum(outcome) >= math.ceil(len(sizes) / 2)
            )
        )
    assert g.sharp_partition_failure(t, sizes, corrupted, a, 1.0) == pytest.approx(
        min(1, 2 * np.mean(found)), rel=1e-10
    )


@pytest.mark.parametrize(("sizes", "share"), [(SIXTEEN, 1 / 3), ((4,) * 9, 4 / 9), ((4,) * 8, 3 / 8), ((5,), 0.0)])
def test_the_sharp_envelope_is_attained(sizes, share):
    B, n = len(sizes), sum(sizes)
    sharp = g.sharp_correction_envelope(sizes, 9, 2.0)
    assert sharp == pytest.approx(share * g.correction_envelope(sizes, 9, 2.0), rel=1e-12, abs=1e-15)
    far = round(share * B)
    x = torch.tensor([0.0] * sum(sizes[: B - far]) + [1e9] * sum(sizes[B - far :]), dtype=torch.float64)
    moved = REFERENCES["rovr"](x, Blocks.contiguous(n, B), RewardChannel(scale_source=2.0))
    assert float(moved) == pytest.approx(sharp, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("sizes", [(3, 3), (4, 3), (4, 4, 3, 3), SIXTEEN, (4,) * 5, (4,) * 6])
def test_no_centers_pass_the_sharp_envelope(sizes, generator):
    B, n = len(sizes), sum(sizes)
    centers = torch.randn(20_000, B, generator=generator, dtype=torch.float64) * 0.8
    centers[::2] = centers[::2].sign() * centers[::2].abs() ** 5  # some far apart
    x = centers.repeat_interleave(torch.tensor(sizes), -1)
    channel, blocks = RewardChannel(scale_source=1.0), Blocks.contiguous(n, B)
    moved = (REFERENCES["rovr"](x, blocks, channel) - REFERENCES["robust_mom"](x, blocks, channel)).abs()
    assert float(moved.max()) <= g.sharp_correction_envelope(sizes, 9, 1.0) * (1 + 1e-12)


@pytest.mark.slow
def test_the_law_that_comes_close_fails_the_real_estimator_as_often_as_it_says():
    """Blocks of 5 and one arbitrary block: mass 0.04 at each of ±0.6 beyond a threshold far out, 40,000 groups."""
    t, c, mass, trials = 100.0, 1.0, 0.04, 40_000
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, t + 0.6, -t - 0.6], p=[1 - 2 * mass, mass, mass], size=(trials, 16))
    x[:, :6] = 1e12  # the arbitrary block
    for start in (6, 11):
        lowest = x[:, start : start + 5].argmin(-1) + start
        x[np.arange(trials), lowest] = 1e12
    median = REFERENCES["robust_mom"](torch.from_numpy(x), Blocks.contiguous(16, 3), RewardChannel(score_width=c))
    rate = float((median > t).double().mean())
    separation = float(g.separation([0.0, t + 0.6, -t - 0.6], t, c, [1 - 2 * mass, mass, mass]))
    one_sided = g.sharp_reference_failure(t, SIXTEEN, 1, 1, separation, c) / 2
    assert one_sided / 2 < rate <= one_sided + 4 * math.sqrt(one_sided / trials)
