"""How far the reward reference can be moved: budgets, one block's tail, the whole estimator's failure probability.

The probability statements share these premises. The clean observations are independent; the score separates, g(θ + u)
≤ −a u and g(θ − u) ≥ a u for 0 ≤ u ≤ r₀ with g(t) = E ψ_c(X − t); which blocks are arbitrary is fixed before the
data, while what is put there, and up to s_b replacements inside every other block, may be chosen after seeing
everything. a and r₀ are declared, not estimated from the same batch. No distribution has a > 1/c² or a r₀ > M_c = 1/c,
and such a declaration is refused. `radius` is r₀; if it is not given, the separation is assumed up to t and no further,
which is all that the proofs use. They use neither balance nor equality of the block sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rovrl.guarantees.efficiency import density_sum, root_size_sum
from rovrl.guarantees.premises import SLACK, block_budgets, block_sizes, count, positive, probability


def resolution(n: int) -> list[tuple[int, int]]:
    """All budgets (q, s) that n observations can hold at both levels: eq:resolution_frontier.

        (2q + 1)(2s + 1) ≤ N

    q arbitrary blocks need B ≥ 2q + 1 blocks, s replacements in a usable block need n_b ≥ 2s + 1.
    """
    n = count("n", n, 1)
    return [(q, s) for q in range((n + 1) // 2) for s in range((n // (2 * q + 1) + 1) // 2)]


def block_replacement(n: int, replaced: int, curvature: float, score_width: float) -> float:
    """The most that `replaced` arbitrary observations can move a block's M-center: prop:block_replacement.

        |T' − T| ≤ 2 s M_c / (n a₀)   (eq:block_replacement_sensitivity)

    No independence needed. Needs the mean of ψ_c' over one of the two datasets to be at least a₀ = `curvature`
    everywhere between the two centers, so a₀ ≤ 1/c².
    """
    c = positive("score_width", score_width)
    n = count("n", n, 1)
    a0 = positive("curvature", curvature, most=1 / c / c)
    return 2 * count("replaced", replaced, 0, n) / (c * n * a0)


def block_tail(t: float, n: int, replaced: int, a: float, score_width: float, *, radius: float | None = None) -> float:
    """p_b(t), the bound on each tail P(T_b > θ + t), P(T_b < θ − t) of an honest block's center: eq:block_mixed_tail.

        p_b(t) = exp[ −n_b/(2 M_c²) · (a t − 2 s_b M_c/n_b)₊² ],   M_c = 1/c

    Needs 0 < t ≤ r₀ = `radius`, and the premises at the top of this file.
    """
    separation = score_separation(t, a, score_width, radius)
    n = count("n", n, 1)
    s = count("replaced", replaced, 0, n)
    excess = max(separation - 2 * s / n, 0.0)  # in units of M_c
    return math.exp(-n / 2 * excess * excess)


def reference_failure(
    t: float,
    sizes: Sequence[int],
    replaced: int | Sequence[int],
    arbitrary: int,
    a: float,
    score_width: float,
    *,
    radius: float | None = None,
) -> float:
    """β_H(t), the bound on P(|θ̂_RoVR − θ| > t + Ĉ_B) and on P(|θ̂_RoVR − θ| > t + C_B): thm:finite_group.

        β_H(t) = min{1, 2 exp[−2H (η_q − p̄_H(t))²]},   H = B − q,   η_q = (⌈B/2⌉ − q)/(B − q)

    (eq:finite_rovr_bound; eq:main_finite_group in thm:main_finite_credit). `replaced` is s_b, one number or one per
    block; `arbitrary` is q < ⌈B/2⌉, a count: the blocks with the best tails are taken to be the arbitrary ones, the
    worst case. Where p̄_H(t) ≥ η_q the theorem is silent and this is 1.0. Needs 0 < t ≤ r₀ (`radius`) and the
    premises of this file.
    """
    sizes = block_sizes(sizes)
    B = len(sizes)
    majority = -(-B // 2)
    q = count("arbitrary", arbitrary, 0, majority - 1)
    budgets = block_budgets(replaced, sizes)
    tails = [block_tail(t, n, s, a, score_width, radius=radius) for n, s in zip(sizes, budgets, strict=True)]
    honest = sorted(tails)[q:]
    margin = (majority - q) / (B - q) - math.fsum(honest) / len(honest)
    return min(1.0, 2 * math.exp(-2 * len(honest) * margin**2)) if margin > 0 else 1.0


def partition_load(deviation: float, sizes: Sequence[int]) -> float:
    """Bound on P(max_b {S_b − n_b m/N} ≥ u), S_b the corrupted observations in block b: prop:random_partition.

        Σ_b exp(−2u²/n_b)   (eq:random_partition_load)

    cut at 1. Needs u > 0 and a uniformly random partition drawn independently of which m observations are corrupted;
    nothing holds for corruption chosen after seeing the partition.
    """
    u = positive("deviation", deviation)
    return min(1.0, math.fsum(math.exp(-2 * u * (u / n)) for n in block_sizes(sizes)))


def partition_budgets(sizes: Sequence[int], corrupted: int, delta: float) -> tuple[int, ...]:
    """s_b(δ), loads that no block exceeds except with probability δ: cor:partition_to_estimator.

        s_b(δ) = min{n_b, ⌈n_b m/N + √(n_b/2 · log(B/δ))⌉}

    Needs the m = `corrupted` indices fixed before a uniformly random partition, and 0 < δ < 1.
    """
    sizes = block_sizes(sizes)
    N, B = sum(sizes), len(sizes)
    m, delta = count("corrupted", corrupted, 0, N), probability("delta", delta)
    return tuple(min(n, math.ceil(n * m / N + math.sqrt(n / 2 * math.log(B / delta)))) for n in sizes)


def partition_failure(
    t: float,
    sizes: Sequence[int],
    corrupted: int,
    a: float,
    score_width: float,
    delta: float,
    *,
    radius: float | None = None,
) -> float:
    """β_{B,δ}(t), `reference_failure` for m scattered replacements and a random partition: cor:partition_to_estimator.

        β_{B,δ}(t) = min{1, δ + β_H(t)}  with q = 0 and s_b = s_b(δ) of `partition_budgets`

    (eq:partition_estimator_bound). 1.0 where p̄_{B,δ}(t) ≥ η_0 and the corollary is silent. Needs the m = `corrupted`
    indices fixed before an independent uniformly random partition, 0 < δ < 1, 0 < t ≤ r₀ (`radius`), and the premises
    of this file.
    """
    budgets = partition_budgets(sizes, corrupted, delta)
    return min(1.0, float(delta) + reference_failure(t, sizes, budgets, 0, a, score_width, radius=radius))


def correction_envelope(sizes: Sequence[int], num_levels: int, scale_cap: float) -> float:
    """C_B, the most that the outer correction moves the reference from the median of centers: eq:correction_magnitude.

        C_B = ν_max B K / (2 D_K W_B)

    Deterministic; needs only that the pooled scale is at most ν_max = `scale_cap`.
    """
    sizes = block_sizes(sizes)
    K = count("num_levels", num_levels, 1)
    return positive("scale_cap", scale_cap) * len(sizes) * K / (2 * density_sum(K) * root_size_sum(sizes))


def score_separation(t: float, a: float, score_width: float, radius: float | None = None) -> float:
    """a t c ≤ 1, the least |g(θ ± t)| in units of M_c = 1/c that the premises declare.

    Refused: t beyond r₀ = `radius` (None: r₀ = t), and what no distribution has, a > 1/c² or a r₀ > 1/c.
    """
    t, c = positive("t", t), positive("score_width", score_width)
    r0 = t if radius is None else positive("radius", radius)
    if t > r0:
        raise ValueError(f"t must be at most radius = {radius!r}, where the score is declared to separate, not {t!r}")
    a = positive("a", a, most=1 / c / c)
    if a * r0 * c > SLACK:
        raise ValueError(
            f"a must be at most 1/(score_width·radius) = {1 / c / r0:g}, since no distribution's mean score passes "
            f"1/score_width, not {a!r}"
        )
    return min(a * t * c, 1.0)
