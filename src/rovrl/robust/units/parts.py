"""Which groups may be of one data set, by what they look like inside: verdicts, ties, and noise of one size.

*Verdicts* have the same two levels in group after group, and no group has a third beside these two. Of the others, a group's
*bulk* is the length of the shortest interval that holds half of it: the noise around the commonest outcome, which neither the
mix of outcomes nor a minority of outliers changes. Bulks may be 0 or not, and may lie on two sides of a wide gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.spread import ROUNDING

GAP = 3.0
"""Bulks that differ by this factor, with none in between, may be of two units."""
SHARE, LEAST = 0.1, 3
"""A part of its own needs this share of the groups with contrast, and at least so many."""
LEAST_VERDICTS = 5
"""Verdicts are told from a few groups that have two of several grades by chance if at least so many groups are verdicts, and so
many are not."""
EXACT = ((16, 0.7), (8, 0.75), (0, 0.85))
"""From which mean size of the groups on, which share of the groups with both levels of a verdict must have no third one: small
groups miss levels by chance."""


class Part(NamedTuple):
    """Groups with contrast that may be of one unit."""

    mask: Bool[Tensor, " group"]
    verdicts: bool = False

    def joined(self, other: Part) -> Part:
        """Both together: verdicts lose what sets them apart."""
        return Part(self.mask | other.mask)


def parts(rows: Sequence[Float[Tensor, "group n"]], bulks: Float[Tensor, " g"]) -> list[Part]:
    """The groups with contrast of all matrices, in parts that may differ in unit; there must be one."""
    contrast = ~bulks.isnan()
    enough = max(LEAST, SHARE * float(contrast.sum()))
    verdicts = [Part(mask, verdicts=True) for mask in _verdicts(rows, contrast, enough)]
    taken = torch.stack([part.mask for part in verdicts]).any(0) if verdicts else torch.zeros_like(contrast)
    left = bulks.masked_fill(taken, torch.nan)
    return [*verdicts, *(_by_bulk(left, enough) if bool((~left.isnan()).any()) else [])]


def bulk(rows: Float[Tensor, "group n"]) -> Float[Tensor, " group"]:
    """The length of the shortest interval with half of a group in it; 0 for ties (up to rounding), NaN without contrast."""
    ordered = rows.detach().double().cpu().sort(-1).values
    half = max(ordered.shape[-1] // 2, 2)
    length = (ordered[:, half - 1 :] - ordered[:, : ordered.shape[-1] - half + 1]).amin(-1)
    length = length.clamp(max=torch.finfo(torch.float64).max)
    largest = torch.maximum(ordered[:, 0].abs(), ordered[:, -1].abs())
    length = torch.where(length > ROUNDING * largest, length, 0.0)
    return torch.where(ordered[:, -1] > ordered[:, 0], length, torch.nan)


def _verdicts(rows: Sequence[Tensor], contrast: Tensor, enough: float) -> list[Tensor]:
    """Masks of groups with the same two levels, where too few others have both of these."""
    ends = torch.cat([torch.stack([own.amin(-1), own.amax(-1)], -1) for own in rows])
    two = contrast & torch.cat([((own == own.amin(-1, True)) | (own == own.amax(-1, True))).all(-1) for own in rows])
    levels, number, counts = ends[two].unique(dim=0, return_inverse=True, return_counts=True)
    size = sum(own.numel() for own in rows) / max(len(contrast), 1)
    exact, found = next(share for least, share in EXACT if size >= least), []
    others = int(contrast.sum()) - counts
    for k in ((counts >= max(enough, LEAST_VERDICTS)) & (others >= LEAST_VERDICTS)).nonzero().flatten().tolist():
        both = [((own == levels[k, 0]).any(-1) & (own == levels[k, 1]).any(-1)).sum() for own in rows]
        if int(counts[k]) >= exact * int(sum(both)):
            mask = torch.zeros_like(contrast)
            mask[two.nonzero().flatten()[number == k]] = True
            found.append(mask)
    return found


def _by_bulk(bulks: Tensor, enough: float) -> list[Part]:
    """Bulks of 0, and the others between gaps; too few join their neighbours. NaN: groups that are left out."""
    positive = bulks[bulks > 0].sort().values
    limits = [0.0]
    if len(positive) > 1:
        wide = (positive[1:] > GAP * positive[:-1]).nonzero().squeeze(-1)
        limits += [float((positive[k] * positive[k + 1]) ** 0.5) for k in wide.tolist()]
    label = torch.bucketize(bulks.nan_to_num(0.0), torch.tensor(limits, dtype=torch.float64, device="cpu"))
    used = ~bulks.isnan()
    counts = torch.bincount(label[used], minlength=len(limits) + 1).tolist()
    kept = [k for k, count in enumerate(counts) if count >= enough] or [0]
    closest = [min(kept, key=lambda k: abs(k - own)) for own in range(len(counts))]
    label = torch.tensor(closest, device=bulks.device)[label]
    return [Part(used & (label == k)) for k in kept]
