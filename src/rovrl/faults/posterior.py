"""The layers of a batch, each with the probability that it is made of faults, and that it is made of merit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.evidence import Likelihoods, likelihoods
from rovrl.robust.outliers.gaps import WIDTHS, gaps

NEAREST = 4.0
"""In robust standard deviations of the bulk: what is nearer to the center of its group is no layer."""
SCALE = 8
"""In steps: where rewards have no continuous part, what is nearer may be a failing grade on a scale from 1 to 10."""
FAULT, MERIT, SLIGHT = (0.2, 0.2, 0.05), (0.3, 0.05, 0.05), 0.3
"""Prior of what a layer is, as in `Likelihoods`: faults on one side, on both, with a sign by prompt; merit likewise; and how
likely merit is to depend on the prompt slightly, relative to ordinary merit."""
USUAL_RATE = 0.2
"""The mean of the prior of the rate of faults, Beta(1, 1/mean - 1): rates of one half are unlikely, but possible."""
LUCK = 0.005, 0.3
"""Prior odds of right answers at one rate on every prompt to faults on one side: where merit is seen elsewhere, and where not.
Those of minorities at one rate, right on some prompts and wrong on others, to faults with a sign by prompt are 1."""
SOMEWHERE = 0.1
"""The prior odds of faults shrink by this factor where no merit is seen elsewhere: a reward measures something."""
REMOTE = 60.0
"""Luck and slight merit are less likely, by (REMOTE/distance)², farther out than this many units."""
NARROW, WIDE = 0.6, 0.02
"""Right and wrong differ by one distance: where the middle 80 % of a layer span more than the first share of their median, luck
luck on one side and slight merit are less likely by the second factor."""
CERTAIN = 0.975
"""What is likelier than this is taken as settled."""


@dataclass
class Layer:
    """The rewards from `low` to `high` units away on one side (+1, -1) of their groups' centers."""

    side: int
    low: float
    high: float
    middle: float
    hits: np.ndarray
    rate: float
    """Hits and opposite hits per member."""
    log: Likelihoods
    near: float
    """How far luck is as likely as it can be, by the layer's distance."""
    narrow: float
    """Likewise by its width."""
    fault: float = 0.0
    """The probability that it is made of faults."""
    level: float = 0.0
    """The probability that its distance is what right and wrong differ by: merit on one side, beside a bulk without any."""

    def probabilities(self, elsewhere: float | None) -> tuple[float, float]:
        """(of faults, of merit on one side), where merit is seen elsewhere with this probability.

        None: that its rate is common, be it by faults or by luck.
        """
        log = self.log
        by_rate = np.log(1 / USUAL_RATE - 1) + (1 / USUAL_RATE - 2) * np.log1p(-min(self.rate, 0.999))
        top = max(part.max() for part in log)
        chance, merit = np.exp(log.chance - top) * FAULT, np.exp(log.merit - top) * MERIT
        merit += np.exp(log.slight - top) * MERIT * SLIGHT * self.near * self.narrow
        faults, luck = float(chance.sum() * np.exp(by_rate)), 0.0
        if elsewhere is not None:
            faults *= elsewhere + (1 - elsewhere) * SOMEWHERE
            odds = elsewhere * LUCK[0] + (1 - elsewhere) * LUCK[1]
            luck = self.near * float(self.narrow * odds * chance[0] + chance[2])
        whole = faults + float(merit.sum()) + luck
        return faults / whole, float(merit[0]) / whole


def layers_of(
    groups: SortedGroups, residual: np.ndarray, unit: float, used: np.ndarray, stratum: np.ndarray, kept: np.ndarray
) -> list[Layer]:
    """The layers on both sides; `used`: the groups that count as evidence, `kept`: the members of the bulk so far."""
    member = used[groups.group]
    x, least = np.where(member, residual, 0.0), max(NEAREST * unit, SCALE * groups.step * groups.graded)
    most = 0.5 * float(groups.size[used].sum())
    cuts = {side: gaps(_descending(side * x, least), least, most) for side in (1, -1)}
    if not all(cuts.values()):  # too few on one side to show a gap: that of both sides together
        both = gaps(_descending(np.abs(x), least), least, 1.5 * most)
        cuts = {side: own or [low for low in both if (side * x >= low).any()] for side, own in cuts.items()}
    found = [layer for side, lows in cuts.items() for layer in _side(groups, x, side, lows, unit, used, stratum)]
    if not found:
        return []
    nearest = {side: min(lows, default=np.inf) for side, lows in cuts.items()}
    bulk = member & kept & (x < nearest[1]) & (-x < nearest[-1])
    uneven = unevenness(x[bulk], groups.group[bulk], stratum, used)
    merit = [1 - layer.probabilities(None)[0] for layer in found]
    for layer in found:
        others = [p for p, other in zip(merit, found, strict=True) if not _overlap(layer, other)]
        layer.fault, layer.level = layer.probabilities(1 - (1 - uneven) * float(np.prod([1 - p for p in others])))
        layer.level *= (1 - uneven) * (layer.near == layer.narrow == 1)
    farthest = max((layer.middle for layer, p in zip(found, merit, strict=True) if p >= CERTAIN), default=0.0)
    for layer in found:  # of several grades the middle ones may be as rare on every prompt: faults lie beyond merit
        layer.fault *= layer.middle > WIDTHS[1] * farthest
    return found


def _overlap(one: Layer, other: Layer) -> bool:
    return other.low < WIDTHS[0] * one.low and one.low < WIDTHS[0] * other.low


def _descending(x: np.ndarray, least: float) -> np.ndarray:
    return np.sort(x[x > least / WIDTHS[-1]])[::-1]


def _side(
    groups: SortedGroups,
    x: np.ndarray,
    side: int,
    lows: list[float],
    unit: float,
    used: np.ndarray,
    stratum: np.ndarray,
) -> list[Layer]:
    """The layers between the cuts of one side, the farthest first."""
    found, high, y = [], np.inf, side * x
    for low in lows:
        mine = (y >= low) & (y < high)
        if not mine.any():
            continue
        near, middle, far, farthest = (float(q) for q in np.quantile(y[mine], (0.1, 0.5, 0.9, 0.95)))
        end = min(WIDTHS[0] * farthest, high)
        n, o = groups.count(mine), groups.count((-y >= low) & (-y < end))
        m = groups.size - groups.count(y >= high) - groups.count(-y >= end)
        log = likelihoods(n[used], o[used], m[used], stratum[used])
        remote, narrow = min(1.0, REMOTE * unit / middle) ** 2, 1.0 if far - near <= NARROW * middle else WIDE
        rate = float((n + o)[used].sum() / m[used].sum())
        found.append(Layer(side, low, high, middle, n, rate, log, remote, narrow))
        high = low
    return found


UNEVEN = 0.1
"""The squared coefficient of variation of the groups' mean absolute deviations that is usual where the bulk holds merit."""
SHUFFLES, ENOUGH = 24, 4096
"""Of the residuals of so many responses: more tell nothing new."""


def unevenness(x: np.ndarray, group: np.ndarray, stratum: np.ndarray, used: np.ndarray) -> float:
    """The probability that the deviations within groups differ by more than those of samples of one law: the bulk holds merit.

    The squared coefficient of variation v of the groups' mean absolute deviations, less what shuffling leaves of it, is normal
    with the error of the shuffles; v = 0 and v ~ exponential with mean UNEVEN are equally likely before.
    """
    n = np.bincount(group, minlength=len(used))
    ok = used & (n >= 4)
    ok[np.arange(len(ok)) % max(1, round(n[ok].sum() / ENOUGH)) > 0] = False
    if not ok.any():
        return 0.0
    x, group, n = x[ok[group]], (np.cumsum(ok) - 1)[group[ok[group]]], n[ok]

    def centered(x: np.ndarray) -> np.ndarray:
        return x - (np.bincount(group, x) / n)[group]

    _, stratum = np.unique(stratum[ok], return_inverse=True)
    largest = np.zeros(stratum.max() + 1)
    np.maximum.at(largest, stratum[group], np.abs(x))
    x = np.ldexp(x, -np.frexp(largest)[1][stratum[group]])  # no square overflows; exact, by a power of two
    square = np.bincount(stratum[group], centered(x) ** 2)
    if not square.min() > 0:
        return 0.0
    x = x / np.sqrt(square / np.bincount(stratum[group]))[stratum[group]]

    def variation(x: np.ndarray) -> float:
        v = np.bincount(group, np.abs(centered(x))) / np.sqrt(n * (n - 1))
        return float((v**2).mean() / v.mean() ** 2)

    rng = np.random.default_rng(0)
    shuffled = np.array([variation(x[rng.permutation(len(x))]) for _ in range(SHUFFLES)])
    found, error = variation(x) - shuffled.mean(), max(float(shuffled.std(ddof=1)), 1e-3)
    # ∫ N(found; v, error) Exp(v; UNEVEN) dv over N(found; 0, error)
    v = UNEVEN * (np.arange(100) + 0.5) / 20
    weight = np.exp(-v / UNEVEN)
    log = np.append(-0.5 * ((found - v) / error) ** 2 + np.log(weight / weight.sum()), -0.5 * (found / error) ** 2)
    p = np.exp(log - log.max())
    return float(p[:-1].sum() / p.sum())
