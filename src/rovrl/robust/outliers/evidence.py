"""How likely are the hits of a layer, if they are faults, and if they are merit? Counts per group against two laws.

Of m members of a group n are hits on one side, o are as far out on the other. In every class the number of hits is
beta-binomial: of a rate π that is one for all groups of a stratum, with an intraclass correlation ρ between the members of a
group. **Chance** (faults): ρ = 0, or hardly more. **Merit**: right answers depend on the prompt, ρ = .05 to .8. And either can
show in three ways:

    one side    hits at rate π on this side. The center of a group is at the commoner of two levels: n hits seen from below, or
                m - n misses seen from above, never both; a group all at one level shows nothing
    both sides  n + o hits at rate π, each of them on this side with a common chance near one half
    by prompt   n + o hits at rate π, on this side with a chance that depends on the prompt: a sign for each

Rates are integrated out: their logits are normal about their common value with a deviation of one, by stratum. Every group's
likelihood is at least that of "anything else", as likely as ODD: a few misplaced centers decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

CHANCE = 0.003
"""Intraclass correlation of faults: hardly any (long answers crash a little more often)."""
MERIT = (0.05, 0.15, 0.4, 0.8)
"""That of merit, each as likely: the first where prompts were chosen for their difficulty; verdicts at pass rates drawn evenly
from (0, 1) have 1/3."""
RARE = 13.0
"""Of rarer merit it is less, since the squared coefficient of variation of its rates is at most this many times ρ."""
BALANCE = 1.0
"""The standard deviation of the logit of the chance that a fault strikes upwards, about one half."""
ODD = 0.02
"""The share of groups about which the model may be wrong altogether."""
POINTS, REACH = 13, 4.0
"""Of the quadrature over a rate, and how many of its standard deviations it reaches."""


class Likelihoods(NamedTuple):
    """Log marginal likelihoods of the counts of a layer, class by class."""

    chance: np.ndarray
    """[one side, both sides, by prompt]"""
    slight: np.ndarray
    """The same by merit that hardly depends on the prompt: ρ = MERIT[0]."""
    merit: np.ndarray
    """The same by ordinary merit."""


def likelihoods(n: np.ndarray, opposite: np.ndarray, m: np.ndarray, stratum: np.ndarray) -> Likelihoods:
    """By hits, opposite hits, members and stratum of each group, all whole numbers."""
    _, stratum = np.unique(stratum, return_inverse=True)
    base = int(m.max()) + 1
    keys, times = np.unique(((stratum * base + m) * base + n) * base + opposite, return_counts=True)
    (rest, o), t = np.divmod(keys, base), times.astype(float)
    rest, n = np.divmod(rest, base)
    s, m = np.divmod(rest, base)
    every = np.array([CHANCE, *MERIT])
    one = _Counts(s, m, t, _folded(n, o, m), _floor(m, n, o)).marginal(every, None)
    both = _Counts(s, m, t, lambda law: law(n + o, m), _floor(m, n + o)).marginal(every, _guess(s, n + o, m, t))
    hit = n + o > 0
    if hit.any():
        _, among = np.unique(s[hit], return_inverse=True)
        up, total = n[hit], (n + o)[hit]
        split = _Counts(among, total, t[hit], lambda law: law(up, total), _floor(total, up))
        sides = np.array([CHANCE, *MERIT[2:]])  # signs differ from prompt to prompt more than rates may
        sides = split.marginal(sides, _guess(among, up, total, t[hit]), prior=(0.0, BALANCE))
        even, by_prompt = sides[0], _log_mean(sides[1:])
    else:
        even = by_prompt = 0.0

    each = np.array([one, both + even, both + by_prompt])  # [shape, ρ]
    return Likelihoods(
        each[:, 0],
        each[:, 1],
        _log_mean(each[:, 2:]),
    )


def by_chance(n: np.ndarray, opposite: np.ndarray, m: np.ndarray, stratum: np.ndarray, *, slight: bool = True) -> float:
    """The probability that hits come at one rate in every group, and do not follow the groups; both as likely before.

    `slight`: nor do they hardly follow them, which takes more groups to see.
    """
    used = m > 0
    if not (n + opposite)[used].any():
        return 0.5
    log = likelihoods(n[used], opposite[used], m[used], stratum[used])
    merit = np.append(log.merit, log.slight) if slight else log.merit
    difference = _log_sum(merit) - _log_sum(log.chance)
    return float(1 / (1 + np.exp(np.clip(difference, -700, 700))))


class _Law:
    """log P(n given hits of m) for rates [stratum, ρ, point], without the number of their orders -> [row, ρ, point]."""

    def __init__(self, stratum: np.ndarray, rate: np.ndarray, correlation: np.ndarray, most: int) -> None:
        self.stratum = stratum
        rho = correlation[:, None] * np.minimum(1.0, RARE * rate / (1 - rate))
        a, b = rate * (1 - rho) / rho, (1 - rate) * (1 - rho) / rho
        self.up, self.down, self.both = (self._rising(x, most) for x in (a, b, a + b))

    @staticmethod
    def _rising(x: np.ndarray, most: int) -> np.ndarray:
        """log x(x + 1)...(x + k - 1) for k = 0 ... most, on the first axis."""
        found = np.zeros((most + 1, *x.shape))
        np.cumsum(np.log(x + np.arange(most).reshape(-1, *[1] * x.ndim)), axis=0, out=found[1:])
        return found

    def __call__(self, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        s = self.stratum
        return self.up[n, s] + self.down[m - n, s] - self.both[m, s]


class _Counts(NamedTuple):
    """A table of counts, ordered by stratum: how often each row occurs, its likelihood by a law, and the least of it."""

    stratum: np.ndarray
    members: np.ndarray
    times: np.ndarray
    likelihood: Callable[[_Law], np.ndarray]
    floor: np.ndarray

    def marginal(self, correlation: np.ndarray, guess: np.ndarray | None, prior: tuple | None = None) -> np.ndarray:
        """log ∫ Π_rows P(row | π)^times dN(logit π) for each ρ: quadrature about the `guess` [stratum], None: the likeliest."""
        members = np.bincount(self.stratum, self.times * self.members)
        size = members / np.bincount(self.stratum, self.times)
        if guess is None:
            grid = np.broadcast_to(np.linspace(-6, 6, 25), (len(members), len(correlation), 25))
            guess = np.take_along_axis(grid, self._by_rate(grid, correlation).argmax(-1)[..., None], -1)[..., 0]
        else:
            guess = np.broadcast_to(guess[:, None], (len(members), len(correlation)))
        rate = 1 / (1 + np.exp(-guess))
        each = 1 + (size[:, None] - 1) * correlation
        deviation = np.maximum(members[:, None] * rate * (1 - rate) / each, 0.5) ** -0.5
        points = np.linspace(-REACH, REACH, POINTS)
        logit = guess[..., None] + points * deviation[..., None]
        middle, spread = prior or (np.median(guess, axis=0)[:, None], 1.0)
        value = self._by_rate(logit, correlation) - 0.5 * ((logit - middle) / spread) ** 2
        width = deviation * (points[1] - points[0]) / (spread * (2 * np.pi) ** 0.5)
        return (_log_sum(value) + np.log(width)).sum(0)

    def _by_rate(self, logit: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        """The log-likelihood of each stratum [stratum, ρ, point]."""
        law = _Law(self.stratum, 1 / (1 + np.exp(-logit)), correlation, int(self.members.max()))
        each = np.maximum(self.likelihood(law), self.floor[:, None, None]) * self.times[:, None, None]
        first = np.flatnonzero(np.append(True, self.stratum[1:] != self.stratum[:-1]))
        return np.add.reduceat(each, first, axis=0)


def _folded(n: np.ndarray, o: np.ndarray, m: np.ndarray) -> Callable[[_Law], np.ndarray]:
    """The likelihood of two levels with the center at the commoner one: n above it, or o below it."""

    def likelihood(law: _Law) -> np.ndarray:
        from_above = law(m - o, m)
        alone = np.logaddexp(law(0 * n, m), from_above)
        cases = [((n > 0) & (o > 0))[:, None, None], (n > 0)[:, None, None], (o > 0)[:, None, None]]
        return np.select(cases, [np.full_like(alone, -np.inf), law(n, m), from_above], alone)

    return likelihood


def _guess(stratum: np.ndarray, n: np.ndarray, m: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The logit of the rate of each stratum."""
    hits, members = np.bincount(stratum, times * n), np.bincount(stratum, times * m)
    return np.log((hits + 0.5) / (members - hits + 0.5))


def _floor(m: np.ndarray, n: np.ndarray, o: np.ndarray | None = None) -> np.ndarray:
    """log of ODD over the number of possible rows, for one of the orders of each."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, int(m.max()) + 1)))])
    rows = np.log(m + 1) if o is None else np.log((m + 1) * (m + 2) / 2)
    rest = m - n - (0 if o is None else o)
    orders = log_factorial[m] - log_factorial[n] - log_factorial[rest] - (0 if o is None else log_factorial[o])
    return np.log(ODD) - rows - orders


def _log_mean(x: np.ndarray) -> np.ndarray:
    return _log_sum(x) - np.log(x.shape[-1])


def _log_sum(x: np.ndarray) -> np.ndarray:
    top = x.max(-1, keepdims=True)
    return np.log(np.exp(x - top).sum(-1)) + top[..., 0]
