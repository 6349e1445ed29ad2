"""Which groups are measured in the same unit: two data sets graded 0 to 1 and 0 to 100 in one batch have no common spread.

A group's *bulk* is the length of the shortest interval that holds half of it: the noise around the commonest outcome, which
neither the mix of outcomes nor a minority of outliers changes. Groups whose bulks lie on two sides of a wide gap, or of which
some have ties for a bulk and others have not, are measured separately if their spreads differ by a large factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rovrl.robust.spread import ROUNDING, spread

GAP = 3.0
"""Bulks that differ by this factor, with none in between, may be of two units."""
APART = 8.0
"""Two units have spreads that differ at least by this factor."""
SHARE, LEAST = 0.1, 3
"""A unit of its own needs this share of the groups with contrast, and at least so many."""


@torch.no_grad()
def units(groups: Sequence[Float[Tensor, "group n"]]) -> tuple[list[Int[Tensor, " group"]], list[float]]:
    """For each matrix the number of each group's unit, and the spread of each unit, ascending; one unit as a rule.

    `groups` holds one matrix of finite values for each group size. Scales with the unit. No contrast: one unit, 0.
    """
    bulks = torch.cat([bulk(rows) for rows in groups]) if groups else torch.zeros(0, device="cpu")
    parts = _parts(bulks)
    while len(parts) > 1:
        found = sorted((_spread(groups, part), k) for k, part in enumerate(parts))
        near = next(
            (k for k in range(1, len(found)) if found[k][0] < APART * found[k - 1][0] or found[k - 1][0] == 0), None
        )
        if near is None:
            labels = torch.zeros(len(bulks), dtype=torch.long, device=bulks.device)
            for number, (_, k) in enumerate(found):
                labels[parts[k]] = number
            return list(labels.split([len(rows) for rows in groups])), [value for value, _ in found]
        first, second = found[near - 1][1], found[near][1]
        parts = [part for k, part in enumerate(parts) if k not in (first, second)] + [parts[first] | parts[second]]
    return [torch.zeros(len(rows), dtype=torch.long, device=bulks.device) for rows in groups], [spread(groups)]


def bulk(rows: Float[Tensor, "group n"]) -> Float[Tensor, " group"]:
    """The length of the shortest interval with half of a group in it; 0 for ties (up to rounding), NaN without contrast."""
    ordered = rows.detach().double().cpu().sort(-1).values
    half = max(ordered.shape[-1] // 2, 2)
    length = (ordered[:, half - 1 :] - ordered[:, : ordered.shape[-1] - half + 1]).amin(-1)
    length = length.clamp(max=torch.finfo(torch.float64).max)
    largest = torch.maximum(ordered[:, 0].abs(), ordered[:, -1].abs())
    length = torch.where(length > ROUNDING * largest, length, 0.0)
    return torch.where(ordered[:, -1] > ordered[:, 0], length, torch.nan)


def _parts(bulks: Tensor) -> list[Tensor]:
    """Masks of the groups that may be of one unit: tied bulks, and the others between gaps; too few join their neighbours.

    Groups without contrast are of the first, where they do no harm.
    """
    positive = bulks[bulks > 0].sort().values
    limits = [0.0]
    if len(positive) > 1:
        wide = (positive[1:] > GAP * positive[:-1]).nonzero().squeeze(-1)
        limits += [float((positive[k] * positive[k + 1]) ** 0.5) for k in wide.tolist()]
    label = torch.bucketize(bulks.nan_to_num(0.0), torch.tensor(limits, dtype=torch.float64, device="cpu"))
    enough = max(LEAST, SHARE * float((~bulks.isnan()).sum()))
    counts = torch.bincount(label[~bulks.isnan()], minlength=len(limits) + 1).tolist()
    kept = [k for k, count in enumerate(counts) if count >= enough]
    if not kept:
        return [torch.ones_like(bulks, dtype=torch.bool)]
    closest = [min(kept, key=lambda k: abs(k - own)) for own in range(len(counts))]
    nearest = torch.tensor(closest, device=bulks.device)
    label = torch.where(bulks.isnan(), kept[0], nearest[label])
    return [label == k for k in kept]


def _spread(groups: Sequence[Tensor], part: Tensor) -> float:
    masks = part.split([len(rows) for rows in groups])
    return spread([rows[mask.to(rows.device)] for rows, mask in zip(groups, masks, strict=True)])
