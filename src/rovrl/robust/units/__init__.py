"""Which groups are measured in the same unit: two data sets graded 0 to 1 and 0 to 100 in one batch have no common spread.

`parts` tells data sets apart, `varying` prompts whose scales differ, `verdicts` knows a batch of right and wrong; here they
become units with their spreads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rovrl.robust.spread import spread
from rovrl.robust.units.parts import Part, bulk, parts
from rovrl.robust.units.varying import own_units
from rovrl.robust.units.verdicts import distance

__all__ = ["APART", "LARGEST", "Measure", "bulk", "plain", "units"]

Measure = Callable[[Sequence[Tensor], Sequence[Tensor] | None], float]
"""How the spread of groups in one unit is measured, one matrix for each size; and what else says how chance would spread
values over them: they and the groups without contrast, which belong to every unit. None: they are the batch as it is."""

APART = 8.0
"""Two units have spreads that differ at least by this factor."""
OTHER_VERDICTS, OF_FEW, FEW = 1.5, 2.0, 32
"""Likewise verdicts, which have the same two levels in group after group, and anything wider; the second is for fewer than so
many groups of verdicts."""
LARGEST = 1e300
"""Spreads are no larger."""
OF_VERDICTS = 0.25
"""The spread of verdicts, in distances between right and wrong: two of them, credit's bound, reach from the middle to each."""


def plain(groups: Sequence[Float[Tensor, "group n"]], witnesses: Sequence[Tensor] | None) -> float:
    """The `spread`, whatever chance would do."""
    return spread(groups)


@torch.no_grad()
def units(
    groups: Sequence[Float[Tensor, "group n"]], measure: Measure = plain
) -> tuple[list[Int[Tensor, " group"]], list[float]]:
    """For each matrix the number of each group's unit, and the spread of each unit, ascending; one unit as a rule.

    `groups` holds one matrix of finite values for each group size, `measure` finds the spread of those of one unit. Scales with
    the unit. No contrast: one unit, 0.
    """
    rows = [own.detach().double().cpu() for own in groups]
    if not rows:
        return [], [0.0]
    bulks = torch.cat([bulk(own) for own in rows])
    if bool(bulks.isnan().all()):
        return _one(rows, 0.0)
    if bool((bulks == 0).any()) and (step := distance(rows)):
        return _one(rows, min(OF_VERDICTS * step, LARGEST))
    spreads, told_apart = torch.full_like(bulks, torch.nan), _told_apart(rows, parts(rows, bulks))
    tied = _chosen(rows, bulks.isnan())
    for part in told_apart:
        chosen = _chosen(rows, part.mask)
        factors = own_units(chosen, bulks[part.mask])
        scaled = [own / unit.unsqueeze(-1) for own, unit in zip(chosen, factors, strict=True)]
        whole = len(told_apart) == 1 and all(bool((unit == 1).all()) for unit in factors)
        own_spread = measure(scaled, None if whole else [*scaled, *tied])
        spreads[part.mask] = (own_spread * torch.cat(factors)).clamp(max=LARGEST)
    spreads = spreads.nan_to_num(float(spreads[~spreads.isnan()].min()))  # groups without contrast: any unit will do
    found, labels = spreads.unique(return_inverse=True)
    return list(labels.split([len(own) for own in rows])), found.tolist()


def _one(rows: Sequence[Tensor], unit: float) -> tuple[list[Tensor], list[float]]:
    return [torch.zeros(len(own), dtype=torch.long, device="cpu") for own in rows], [unit]


def _told_apart(rows: Sequence[Tensor], found: Sequence[Part]) -> list[Part]:
    """The parts whose spreads differ enough; neighbours that do not are joined, verdicts last of all."""
    if len(found) == 1:
        return list(found)
    measured = [(spread(_chosen(rows, part.mask)), part) for part in found]
    verdicts = [pair for pair in measured if pair[1].verdicts]
    others = _joined(rows, [pair for pair in measured if not pair[1].verdicts])
    return [part for _, part in _joined(rows, verdicts + others)]


def _joined(rows: Sequence[Tensor], measured: list[tuple[float, Part]]) -> list[tuple[float, Part]]:
    """Parts with their spreads, joined with their neighbours until all differ enough."""
    while True:
        measured = sorted(measured, key=lambda pair: pair[0])
        near = next((k for k in range(1, len(measured)) if not _differ(measured[k - 1], measured[k])), None)
        if near is None:
            return measured
        both = measured[near - 1][1].joined(measured[near][1])
        measured[near - 1 : near + 1] = [(spread(_chosen(rows, both.mask)), both)]


def _differ(narrow: tuple[float, Part], wide: tuple[float, Part]) -> bool:
    """Whether the second part, which is the wider one, has another unit than the first."""
    few = int(narrow[1].mask.sum()) < FEW
    least = APART if not narrow[1].verdicts else OF_FEW if few else OTHER_VERDICTS
    return narrow[0] > 0 and wide[0] >= least * narrow[0]


def _chosen(rows: Sequence[Tensor], mask: Tensor) -> list[Tensor]:
    return [own[some] for own, some in zip(rows, mask.split([len(own) for own in rows]), strict=True)]
