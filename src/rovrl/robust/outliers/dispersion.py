"""Are hits spread over groups as chance would spread them? Exact conditional moments, for sparse counts and ragged groups.

The statistic is T = Σ_j C(n_j, 2), the pairs of hits that share a group. Given the number of hits and the group sizes, and
if hits fall on anyone with the same chance, the counts n_j are multivariate hypergeometric and the first three moments of T
are rational numbers (`chance`). If hits follow the group, T is larger: with an intraclass correlation ρ and a rate π,
E T = Σ_j C(m_j, 2)·(π² + ρπ(1 - π)). Hits are exchangeable within a stratum only, and T is summed over strata: rates may
differ between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rovrl.robust.outliers.beta_binomial import Shape

CORRELATION, VARIATION = 0.15, 2.0
"""What ordinary differences between groups look like: an intraclass correlation of 0.15; for rare hits, whose correlation
vanishes with their rate, rates with a squared coefficient of variation of 2."""


EVIDENT = 1e-3
"""Below this probability an excess of pairs is not chance."""


class Moments(NamedTuple):
    """Mean, variance and third central moment."""

    mean: float
    variance: float
    third: float


@dataclass(frozen=True)
class Design:
    """The sizes of the groups and the stratum of each; a size of 0 takes a group out."""

    sizes: np.ndarray
    strata: np.ndarray

    @cached_property
    def num_strata(self) -> int:
        """The number of strata."""
        return int(self.strata.max(initial=0)) + 1

    @cached_property
    def members(self) -> np.ndarray:
        """M of each stratum."""
        return self.by_stratum(self.sizes)

    @cached_property
    def edges(self) -> np.ndarray:
        """Pairs of members that share a group, of each stratum."""
        return self.by_stratum(_falling(self.sizes, 2) / 2)

    @cached_property
    def tuples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each stratum Σ m^(3), Σ m^(4), and the ordered triples of edges that touch five members."""
        m = self.sizes.astype(float)
        three = _falling(m, 3)
        a = self.by_stratum(three)
        beside = 3 * (
            a * self.edges + self.by_stratum(three * (_falling(np.maximum(m - 3, 0), 2) - _falling(m, 2)) / 2)
        )
        return a, self.by_stratum(_falling(m, 4)), beside

    @cached_property
    def mean_size(self) -> float:
        """The mean size of the groups that are in; 0 without any."""
        return float(self.sizes.sum() / max((self.sizes > 0).sum(), 1))

    @cached_property
    def touched(self) -> tuple[np.ndarray, ...]:
        """Of each stratum the ordered triples of edges that touch 2, 3, 4, 5 and 6 members, and pairs that touch four."""
        p, (a, b, beside) = self.edges, self.tuples
        apart = p * p - p - a  # ordered pairs of edges without a common member
        rest = p**3 - p - 4 * a - 3 * apart - 4 * b - beside
        return p, 4 * a, 3 * apart + 4 * b, beside, rest, apart

    @cached_property
    def shapes(self) -> list[Shape]:
        """The sizes that occur in each stratum; strata whose largest groups are equal stand together."""
        inside = self.sizes > 0
        base = int(self.sizes.max(initial=0)) + 1
        found, groups = np.unique(self.strata[inside] * base + self.sizes[inside].astype(np.int64), return_counts=True)
        stratum, size = np.divmod(found, base)
        largest = np.zeros(self.num_strata, size.dtype)
        np.maximum.at(largest, stratum, size)
        rows = [np.flatnonzero(largest[stratum] == most) for most in set(largest[stratum].tolist())]
        return [Shape(*np.unique(stratum[some], return_inverse=True), size[some], groups[some]) for some in rows]

    def by_stratum(self, values: np.ndarray) -> np.ndarray:
        """Sums over the groups of each stratum."""
        return np.bincount(self.strata, weights=values, minlength=self.num_strata)


def pairs(counts: np.ndarray) -> float:
    """T = Σ_j C(n_j, 2)."""
    return float((counts * (counts - 1) / 2).sum())


def chance(hits: np.ndarray, design: Design) -> Moments:
    """The moments of T if the hits [stratum] fall on any members of their stratum with equal chance.

    T sums one product of indicators per edge (pair of members of one group), so E T^k counts k-tuples of edges by the number v
    of members they touch, each with probability h_v = N^(v)/M^(v) (falling factorials). Exact; strata add up. No hits: 0.
    """
    (a, _, _), (p, three, four, five, six, apart) = design.tuples, design.touched
    h2, h3, h4, h5, h6 = _all_hit(hits, design.members)
    first = p * h2
    second = p * h2 + a * h3 + apart * h4
    third = p * h2 + three * h3 + four * h4 + five * h5 + six * h6
    return Moments(
        float(first.sum()),
        float((second - first**2).sum()),
        float((third - 3 * first * second + 2 * first**3).sum()),
    )


def overdispersion(found: float, expected: Moments) -> float:
    """P(T ≥ found) by chance: a gamma distribution with the three exact moments (Pearson III), half a pair of continuity."""
    if expected.variance <= 1e-9:
        return 1.0
    deviation = expected.variance**0.5
    shape = 4 / max(expected.third / deviation**3, 1e-3) ** 2
    place = shape + (found - 0.5 - expected.mean) / deviation * shape**0.5
    return 1.0 if place <= 0 else 1 - gamma_share(shape, place)


def evident(counts: np.ndarray, design: Design, factor: float, error: float = EVIDENT) -> bool:
    """Whether hits per group are evidently overdispersed: chance makes their pairs with a probability below `error`, and they
    are more than `factor` times those that it makes on average."""
    found, expected = pairs(counts), chance(design.by_stratum(counts), design)
    return found > factor * expected.mean and overdispersion(found, expected) < error


def ordinary(
    found: float, expected: Moments, hits: np.ndarray, design: Design, *, hidden: str = "none", share: float = 1.0
) -> float:
    """P(T ≤ found) if the hits followed their groups as ordinary differences do: small where those would have been seen.

    Counts are beta-binomial with intraclass correlation min(0.15, 2π/(1 - π)), or a `share` of it, given their total; each
    stratum has its own rate π. `hidden`, a name of `beta_binomial.HIDDEN`, says which groups show none of their hits. 1 where
    nothing can be seen.
    """
    mean, variance = expected.mean, 0.0
    for shape in design.shapes:
        more, spread = _ordinary_excess(np.atleast_1d(hits), shape, design, hidden, share)
        mean, variance = mean + more, variance + spread
    if mean <= expected.mean:
        return 1.0
    variance = max(variance, 1e-9)
    return gamma_share(mean**2 / variance, (found + 0.5) * mean / variance)


def _ordinary_excess(hits: np.ndarray, shape: Shape, design: Design, hidden: str, share: float) -> tuple[float, float]:
    """How many more pairs ordinary hits make than chance in some strata, and the variance of their pairs given the totals."""
    hits = hits[shape.strata]
    rate = hits / design.members[shape.strata]
    rho = share * np.minimum(CORRELATION, VARIATION * rate / np.maximum(1 - rate, 1e-9))
    rho = np.clip(rho, 1e-6, 0.9)
    aim = rate
    for _ in range(0 if hidden == "none" else 7):  # the rate whose visible part is the observed one
        visible = shape.visible(aim, rho, hidden)
        aim = np.minimum(aim * np.clip(hits / np.maximum(visible, 1e-12), 0.5, 2.0), 0.5)
    pairs, spread, joint, total = shape.law(aim, rho, hidden)
    excess = pairs - design.edges[shape.strata] * rate**2
    return float(excess.sum()), float((spread - joint**2 / np.maximum(total, 1e-12)).sum())


def _all_hit(hits: np.ndarray, members: np.ndarray) -> list[np.ndarray]:
    """h_v = N^(v)/M^(v) for v = 2 ... 6: the chance that v given members are all hit."""
    share, found = np.ones_like(members), []
    for k in range(6):
        share = share * np.maximum(hits - k, 0.0) / np.maximum(members - k, 1.0)
        found.append(share)
    return found[1:]


def _falling(x: np.ndarray, order: int) -> np.ndarray:
    """x^(order) = x(x - 1)...(x - order + 1); 0 where x < order."""
    factors = [np.maximum(np.asarray(x, float) - k, 0.0) for k in range(order)]
    return np.prod(factors, axis=0)


def gamma_share(shape: float, x: float) -> float:
    """P(X ≤ x) for X ~ Gamma(shape, 1), the regularised incomplete gamma function, within 1e-10.

    Below the mean by the series x^a e^-x/Γ(a + 1)·Σ x^k/((a + 1)...(a + k)), above it by Legendre's continued fraction; from
    a shape of 1e5 on by Wilson and Hilferty's cube root, which is then nearer than 1e-6 to it.
    """
    if x <= 0:
        return 0.0
    if shape > 1e5:
        third = ((x / shape) ** (1 / 3) - 1 + 1 / (9 * shape)) * 3 * shape**0.5
        return 0.5 * math.erfc(-third / 2**0.5)
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape + 1))
    if x < shape + 1:
        term, total, k = 1.0, 1.0, shape
        while term > 1e-16 * total:
            k += 1
            term *= x / k
            total += term
        return min(front * total, 1.0)
    b, d = x + 1 - shape, 1 / (x + 1 - shape)
    c, fraction = math.inf, d
    for k in range(1, 100_000):
        step = k * (shape - k)
        b += 2
        d, c = 1 / (b + step * d), b + step / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return max(1 - front * shape * fraction, 0.0)
