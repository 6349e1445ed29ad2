"""Prompts whose scales differ: each group's unit, shrunk towards the common one by as much as its bulk is uncertain.

The logarithm b of a group's bulk is that of its unit, plus an error of known variance v. If the b of a batch vary by more, and
the groups' whole standard deviations vary along with them, it is the unit that varies, and

    log u_j = m + τ²/(τ² + v_j)·(b_j - m),    τ² = Var b - v

is the best linear prediction of it. Noise that differs from prompt to prompt while right and wrong differ by the same moves
the bulks alone; grades with a little noise move them when half of a group is no longer at one level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

VARIES = 0.5
"""τ² from which on units vary: a factor of two up or down is usual."""
FOLLOWS, BY_CHANCE = 0.75, 0.4
"""The slope of the standard deviations on the bulks that shows it, and the slope of both errors on each other."""
MIDDLE = 1.683
"""The distance between the 20 % and the 80 % quantile of a normal distribution, in standard deviations: a few groups full of
outliers are no units of their own."""
ENOUGH = 256
"""Members of groups from which on variances say something: sixteen groups of sixteen."""
STEPS = 2
"""Units are rounded to so many steps per factor of two."""


def own_units(rows: Sequence[Float[Tensor, "group n"]], bulks: Float[Tensor, " g"]) -> list[Float[Tensor, " group"]]:
    """For each matrix the unit of each group, relative to the common one; all are 1 unless units are shown to vary."""
    sizes = [len(own) for own in rows]
    used = bulks > 0
    exponent = torch.zeros(len(bulks), dtype=torch.float64, device="cpu")
    if sum(own.numel() for own in rows) >= ENOUGH and bool(used.any()):
        size = torch.cat(
            [torch.full((len(own),), float(own.shape[-1]), dtype=torch.float64, device="cpu") for own in rows]
        )
        log_sd = torch.cat([own.std(-1, correction=0) for own in rows])[used].clamp(1e-300, 1e300).log()
        exponent[used] = _exponents(bulks[used].log(), log_sd, _error(size[used]))
    return list((2.0 ** (exponent / STEPS)).split(sizes))


def _exponents(b: Tensor, log_sd: Tensor, v: Tensor) -> Tensor:
    """log₂ of each unit in whole steps; 0 where nothing shows that units vary."""
    deviation = b - b.mean()
    error, variance = float(v.mean()), float((deviation**2).mean())
    low, high = (float(torch.quantile(b, share)) for share in (0.2, 0.8))
    excess = min(variance, ((high - low) / MIDDLE) ** 2) - error
    slope = (float((deviation * log_sd).mean()) - BY_CHANCE * error) / max(variance - error, 1e-300)
    if not (excess >= VARIES and slope >= FOLLOWS):
        return torch.zeros_like(b)
    return (STEPS * excess / (excess + v) * deviation / math.log(2)).round()


def _error(size: Tensor) -> Tensor:
    """The variance of log bulk in groups of one unit: simulated, for scores with right and wrong answers, and fitted."""
    return 3.2 / size + 38 / size**3
