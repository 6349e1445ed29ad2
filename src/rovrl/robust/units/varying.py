"""Prompts whose scales differ: each group's unit, shrunk towards the common one by as much as its bulk is uncertain.

The logarithm b of a group's bulk is that of its unit, plus an error of known variance v. If the b of a batch vary by more, and
where right and wrong answers differ by more than the bulk they differ by more along with it, it is the unit that varies, and

    log u_j = m + τ²/(τ² + v_j)·(b_j - m),    τ² = Var b - v

is the best linear prediction of it. Noise that differs from prompt to prompt moves the bulks alone; groups that are all noise
do not show what right and wrong differ by. Grades with a little noise move the bulks when half of a group is no longer at one
level: so the standard deviations of all groups have to follow their bulks, and those of groups with a contrast as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Signs(NamedTuple):
    """What must be seen before units count as varying."""

    varies: float
    """τ²: at 0.5 a factor of two up or down is usual."""
    shown: float
    """The share of the groups that show a contrast beyond their bulk."""
    follows: float
    """The slope of the standard deviations on the bulks."""


SIGNS = ((11.5, Signs(0.5, 0.3, 0.75)), (7.5, Signs(0.75, 0.5, 1.0)))
"""From which mean size of the groups on, which signs are enough: twelve or eight, less a few responses that do not count. Fewer
have a small bulk by chance: nothing is."""
BEYOND, BY_CHANCE = 2.0, 0.2
"""A contrast is beyond the bulk if the standard deviation is so many times as large; the slope of both errors on each other."""
MIDDLE = 1.683
"""The distance between the 20 % and the 80 % quantile of a normal distribution, in standard deviations: a few groups full of
outliers are no units of their own."""
ENOUGH = 256
"""Members of groups from which on variances say something: sixteen groups of sixteen."""
STEPS = 2
"""Units are rounded to so many steps per factor of two."""
FARTHEST = 400
"""The largest number of steps."""


def own_units(rows: Sequence[Float[Tensor, "group n"]], bulks: Float[Tensor, " g"]) -> list[Float[Tensor, " group"]]:
    """For each matrix the unit of each group, relative to the common one; all are 1 unless units are shown to vary."""
    sizes, members = [len(own) for own in rows], sum(own.numel() for own in rows)
    used = bulks > 0
    exponent = torch.zeros_like(bulks)
    signs = next((enough for size, enough in SIGNS if members >= size * len(bulks)), None)
    if members >= ENOUGH and signs and bool(used.any()):
        size = torch.cat([torch.full_like(own[:, 0], own.shape[-1]) for own in rows])
        sd = torch.cat([(own - own.mean(-1, keepdim=True)).square().mean(-1).sqrt() for own in rows])
        exponent[used] = _exponents(bulks[used].log(), sd[used].clamp(1e-300, 1e300).log(), _error(size[used]), signs)
    return list((2.0 ** (exponent / STEPS)).split(sizes))


def _exponents(b: Tensor, log_sd: Tensor, v: Tensor, signs: Signs) -> Tensor:
    """log₂ of each unit in whole steps; 0 where nothing shows that units vary."""
    error = float(v.mean())
    low, high = (float(torch.quantile(b, share)) for share in (0.2, 0.8))
    excess = min(float(b.var(correction=0)), ((high - low) / MIDDLE) ** 2) - error
    contrast = log_sd - b > math.log(BEYOND)
    if excess < signs.varies or float(contrast.sum()) < signs.shown * len(b):
        return torch.zeros_like(b)
    if min(_slope(b[some], log_sd[some], error) for some in (slice(None), contrast)) < signs.follows:
        return torch.zeros_like(b)
    deviation = STEPS * excess / (excess + v) * (b - b.mean()) / math.log(2)
    return deviation.round().clamp(-FARTHEST, FARTHEST)


def _slope(b: Tensor, log_sd: Tensor, error: float) -> float:
    """How the logarithms of the standard deviations follow those of the units, of which the bulks tell with an error."""
    deviation = b - b.mean()
    variance = float((deviation**2).mean()) - error
    return (float((deviation * log_sd).mean()) - BY_CHANCE * error) / variance if variance > 0 else 0.0


def _error(size: Tensor) -> Tensor:
    """The variance of log bulk in groups of one unit: simulated, for scores with right and wrong answers, and fitted."""
    return 3.2 / size + 38 / size**3
