"""The paper's probability statements with less given away: the same premises, the same events, smaller numbers.

Three losses of the paper's proofs are recovered (docs/certificates.md has each argument in full): sums of bounded scores
are compared with a binomial law instead of a normal one, how many of B independent blocks fail has an exact law, and so has
the number of corrupted responses that a random partition puts into a block. The premises are those at the top of
`guarantees.reference`, and each value is at most the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rovrl.guarantees.premises import block_budgets, block_sizes, count, probability
from rovrl.guarantees.reference import correction_envelope, score_separation


def entropy_block_tail(
    t: float, n: int, replaced: int, a: float, score_width: float, *, radius: float | None = None
) -> float:
    """Bound on each tail of an honest block's center, eq:block_mixed_tail with Hoeffding's relative-entropy form.

        P(T_b > θ + t) ≤ exp[−n_b kl(x/n_b ‖ p)],   x = n_b/2 − s_b,   p = ½ − a t c/2;   1 where x ≤ n_b p

    kl is the relative entropy of two coins. By Pinsker's inequality kl ≥ 2(x/n_b − p)², which is the paper's exponent.
    """
    n, x, p = _coins(t, n, replaced, a, score_width, radius)
    return math.exp(-n * _relative_entropy(x / n, p)) if x > n * p else 1.0


def sharp_block_tail(
    t: float, n: int, replaced: int, a: float, score_width: float, *, radius: float | None = None
) -> float:
    """Bound on each tail of an honest block's center, eq:block_mixed_tail by comparison with a binomial law.

        P(T_b > θ + t) ≤ min_{h < x} E(N − h)₊/(x − h),   N ~ Binomial(n_b, p),   x, p as in `entropy_block_tail`

    No convex function of a sum of independent scores in [0, 1] has a larger mean than that of the coins with the same means;
    exponentials give the relative-entropy form, so this is never above it.
    """
    n, x, p = _coins(t, n, replaced, a, score_width, radius)
    beyond = np.cumsum(_binomial(n, p)[::-1])[::-1]  # P(N ≥ k)
    excess = np.cumsum(beyond[:0:-1])[::-1]  # E(N − h)₊ = Σ_{k > h} P(N ≥ k)
    return min([1.0, *(float(excess[h]) / (x - h) for h in range(math.ceil(x)))])


TAILS = {"comparison": sharp_block_tail, "entropy": entropy_block_tail}
"""Which bound on a block's tail `sharp_reference_failure` counts; the first is the sharper one."""


def sharp_reference_failure(
    t: float,
    sizes: Sequence[int],
    replaced: int | Sequence[int],
    arbitrary: int,
    a: float,
    score_width: float,
    *,
    radius: float | None = None,
    tails: str = "comparison",
) -> float:
    """Bound on P(|θ̂_RoVR − θ| > t + Ĉ_B), thm:finite_group with sharper tails and their exact count.

        min{1, 2 P(Σ_{b∈H} X_b ≥ ⌈B/2⌉ − q)},   X_b independent coins of `sharp_block_tail` (or "entropy": the other one)

    The q = `arbitrary` blocks are those with the best tails, the worst case, as in `reference_failure`. With
    `sharp_correction_envelope` in place of Ĉ_B this is a statement ahead of the data.
    """
    sizes = block_sizes(sizes)
    majority = -(-len(sizes) // 2)
    q = count("arbitrary", arbitrary, 0, majority - 1)
    budgets = block_budgets(replaced, sizes)
    if tails not in TAILS:
        raise ValueError(f"tails must be one of {', '.join(TAILS)}, not {tails!r}")
    tail = TAILS[tails]
    chances = sorted(tail(t, n, s, a, score_width, radius=radius) for n, s in zip(sizes, budgets, strict=True))
    return min(1.0, 2 * _at_least(majority - q, chances[q:]))


def exact_loads(sizes: Sequence[int], corrupted: int, delta: float) -> tuple[int, ...]:
    """Loads that no block exceeds except with probability δ, by the exact law of a block's load: cor:partition_to_estimator.

        s_b = min{s : P(S_b > s) ≤ δ/B},   S_b hypergeometric: n_b draws from N with m corrupted

    Needs the m = `corrupted` indices fixed before a uniformly random partition, and 0 < δ < 1.
    """
    sizes = block_sizes(sizes)
    m, delta = count("corrupted", corrupted, 0, sum(sizes)), probability("delta", delta)
    return tuple(_load_quantile(n, m, sum(sizes), delta / len(sizes)) for n in sizes)


def sharp_partition_failure(
    t: float,
    sizes: Sequence[int],
    corrupted: int,
    a: float,
    score_width: float,
    *,
    radius: float | None = None,
) -> float:
    """Bound on P(|θ̂_RoVR − θ| > t + Ĉ_B) for m scattered replacements and a random partition: cor:partition_to_estimator.

        min{1, 2 E P(Σ_b X_b ≥ ⌈B/2⌉ | S)},   S the blocks' loads, X_b independent coins of `sharp_block_tail` at s_b = S_b

    The mean is over the exact joint law of the loads, so no share δ of the partitions is given up. Needs the m =
    `corrupted` indices fixed before an independent uniformly random partition, and 0 < t ≤ r₀ (`radius`).
    """
    sizes = block_sizes(sizes)
    left, m = sum(sizes), count("corrupted", corrupted, 0, sum(sizes))
    law = np.zeros((m + 1, len(sizes) + 1))  # [corrupted indices still to come, blocks that fail so far]
    law[m, 0] = 1.0
    for n in sizes:
        tail = [sharp_block_tail(t, n, s, a, score_width, radius=radius) for s in range(min(n, m) + 1)]
        law, left = _after_block(law, n, left, tail), left - n
    return min(1.0, 2 * float(law[0, -(-len(sizes) // 2) :].sum()))


def _after_block(law: np.ndarray, n: int, left: int, tail: Sequence[float]) -> np.ndarray:
    """The joint law after one more block of n of the `left` observations, which fails with tail[s] at load s."""
    after = np.zeros_like(law)
    for m in range(len(law)):
        for s in range(max(0, n + m - left), min(n, m) + 1):
            come = law[m] * _hypergeometric(s, n, m, left)
            after[m - s] += (1 - tail[s]) * come
            after[m - s, 1:] += tail[s] * come[:-1]
    return after


def sharp_correction_envelope(sizes: Sequence[int], num_levels: int, scale_cap: float) -> float:
    """The most that the outer correction moves the reference from the median of centers, attained: eq:correction_magnitude.

        C_B h/B,   h = ⌊B/2⌋, and B/2 − 1 for an even number of equal blocks

    A block at the median adds nothing, and at most h can lie on one side without one on the other that cancels it. For odd
    B, and for even B with equal blocks, some data attain it. Needs only that the pooled scale is at most `scale_cap`.
    """
    sizes = block_sizes(sizes)
    return correction_envelope(sizes, num_levels, scale_cap) * one_sided_blocks(sizes) / len(sizes)


def one_sided_blocks(sizes: Sequence[int]) -> int:
    """h, how many blocks can pull the reference to one side uncancelled, of `sharp_correction_envelope`."""
    B = len(sizes)
    return (B - 1) // 2 if len(set(sizes)) == 1 else B // 2


def _coins(
    t: float, n: int, replaced: int, a: float, score_width: float, radius: float | None
) -> tuple[int, float, float]:
    """n, x, p: T_b > θ + t needs a sum above x of n clean scores, mapped to [0, 1], whose means are at most p."""
    p = (1 - score_separation(t, a, score_width, radius)) / 2
    n = count("n", n, 1)
    return n, n / 2 - count("replaced", replaced, 0, n), p


def _binomial(n: int, p: float) -> np.ndarray:
    """P(N = k) for k = 0 ... n, also where the binomial coefficients overflow."""
    if p == 0:
        return np.eye(1, n + 1)[0]
    log_odds = math.log(p) - math.log1p(-p)
    return np.array([math.exp(_log_choose(n, k) + k * log_odds + n * math.log1p(-p)) for k in range(n + 1)])


def _relative_entropy(y: float, p: float) -> float:
    """kl(y ‖ p) = y log(y/p) + (1 − y) log((1 − y)/(1 − p)) for 0 ≤ p < y ≤ ½; infinite at p = 0."""
    if p == 0:
        return math.inf
    return y * math.log(y / p) + (1 - y) * (math.log1p(-y) - math.log1p(-p))


def _at_least(k: int, chances: Sequence[float]) -> float:
    """P(at least k of the independent events), exactly: the Poisson-binomial upper tail."""
    law = [1.0]  # law[j] = P(j of the events so far)
    for p in chances:
        law = [(1 - p) * stay + p * come for stay, come in zip([*law, 0.0], [0.0, *law], strict=True)]
    return math.fsum(law[k:])


def _load_quantile(n: int, m: int, N: int, level: float) -> int:
    """The smallest s with P(S > s) ≤ level, S hypergeometric."""
    over = 0.0
    for s in range(min(n, m), 0, -1):
        over += _hypergeometric(s, n, m, N)
        if over > level:
            return s
    return 0


def _hypergeometric(s: int, n: int, m: int, N: int) -> float:
    """P(s of the m marked are among n drawn from N)."""
    if not max(0, n + m - N) <= s <= min(n, m):
        return 0.0
    return math.exp(_log_choose(m, s) + _log_choose(N - m, n - s) - _log_choose(N, n))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
