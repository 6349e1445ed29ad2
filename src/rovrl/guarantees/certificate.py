"""How far the advantages of unchanged responses can move, for the group at hand: a certificate instead of a bound."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.guarantees.premises import count, positive

FIRST_CELLS = 16
"""Cells of the shift to begin with; those that might hold the worst one are halved until the answer is settled."""
ROUNDS, MOST = 40, 2**22
"""The search ends after so many halvings, or when it holds so many numbers, with the bounds of the cells that are left."""
ROUNDING = 1e-12
"""What is added to a maximum, far beyond the roundings of its few sums, so that it is not below the supremum."""
FAR = 1e8
"""Residuals this many κ away are saturated: χ is ±κ to the last bit."""


@torch.no_grad()
def credit_certificate(
    rewards: Float[Tensor, "*batch group"],
    reference: Float[Tensor, "*batch"] | float,
    replaced: int,
    reference_error: float | Tensor | tuple[float | Tensor, float | Tensor],
    credit_bound: float,
    credit_floor: float,
    *,
    precision: float = 0.01,
) -> Float[Tensor, "*batch group"]:
    """The most that each advantage can change if its own reward does not: prop:credit_stability, exactly.

        sup |Â_i(R', θ') − Â_i(R, θ̂)|  over  R'_i = R_i,  R' ≠ R in at most r others,  θ' − θ̂ ∈ [−e, e]

    r = `replaced`; e = `reference_error` is one number or one per group, or a pair of them (down, up); infinite is
    allowed. For a shift δ the worst replacements make the scale smallest (the r largest credits of the others become 0)
    or largest (the r smallest become κ); what remains is a maximum over the one number δ, by branch and bound. The result
    is never below the supremum, and above it by at most the share `precision` (by more only where the search
    holds too many cells to go on). It is at most `credit_stability`, and at most twice `credit_bound`.
    """
    kappa, s_min = positive("credit_bound", credit_bound), positive("credit_floor", credit_floor)
    x = torch.as_tensor(rewards).double()
    if x.ndim == 0 or not bool(x.isfinite().all()):
        raise ValueError(
            f"rewards must be finite, with one entry per response on the last axis, not shape {tuple(x.shape)}"
        )
    group = count("group", x.shape[-1], 1)
    r = count("replaced", replaced, 0, group - 1)
    theta = torch.as_tensor(reference, dtype=x.dtype).expand(x.shape[:-1]).reshape(-1)
    down, up = (error.expand(x.shape[:-1]).reshape(-1) for error in _two_sided(reference_error))
    residuals, below, above = _drawn_together(x.reshape(-1, group), theta, down, up, kappa)
    most = _Search(residuals, r, s_min / kappa).most(below, above, precision)
    limit = _closed_form(torch.maximum(down, up) / kappa, r, group, s_min / kappa)
    return torch.minimum(most * (1 + ROUNDING), limit.unsqueeze(-1)).view(x.shape)


def _drawn_together(x: Tensor, theta: Tensor, down: Tensor, up: Tensor, kappa: float) -> tuple[Tensor, Tensor, Tensor]:
    """Residuals and ends of the shift in units of κ, every gap between neighbours on that line at most `FAR`.

    Within a longer gap every χ is ±κ, and a shift that lies there changes nothing. So infinite shifts are finite ones,
    and no reward is so large that the search could not tell it from its neighbour.
    """
    x, theta, down, up = (value / 8 for value in (x, theta.unsqueeze(-1), down.unsqueeze(-1), up.unsqueeze(-1)))
    points, order = torch.cat((x - theta, -down, up), -1).sort(-1)  # an eighth: no difference of two rewards overflows
    sides = [_steps(side, kappa / 8) for side in (points.clamp(min=0), -points.clamp(max=0).flip(-1))]
    line = torch.empty_like(points).scatter_(-1, order, sides[0] - sides[1].flip(-1))
    return line[:, :-2], -line[:, -2], line[:, -1]


def _steps(ascending: Tensor, unit: float) -> Tensor:
    """Distances from 0 in this unit, gaps cut at `FAR`; summed outwards, so that small ones stay exact."""
    return (ascending.diff(prepend=torch.zeros_like(ascending[:, :1])) / unit).clamp(max=FAR).cumsum(-1)


def _closed_form(error: Tensor, replaced: int, group: int, floor: float) -> Tensor:
    """The smaller of prop:credit_stability and twice eq:credit_global_bound, in units of κ: what `precision` must not pass."""
    stability = error / floor + (replaced / group + 2 * error) / 2 / floor**3
    return stability.clamp(max=2 * min(1 / floor, group**0.5))


def _two_sided(error: float | Tensor | tuple[float | Tensor, float | Tensor]) -> list[Tensor]:
    pair: Sequence[float | Tensor] = error if isinstance(error, tuple) else (error, error)
    errors = [torch.as_tensor(e, dtype=torch.float64) for e in pair]
    if len(errors) != 2 or not all(bool((e >= 0).all()) for e in errors):
        raise ValueError(f"reference_error must be at least 0, one number or a pair (down, up), not {error!r}")
    return errors


class _Search:
    """Branch and bound over the shift δ of the reference, for all groups at once; residuals and floor in units of κ."""

    def __init__(self, residuals: Float[Tensor, "row group"], replaced: int, floor: float) -> None:
        self.u, self.r, self.floor2 = residuals, replaced, floor * floor
        shaped = _shape(residuals)
        self.now = shaped / (self.floor2 + (shaped * shaped).mean(-1, keepdim=True)).sqrt()

    def most(self, down: Tensor, up: Tensor, precision: float) -> Float[Tensor, "row group"]:
        """The certified maximum per response, for shifts in [−down, up]."""
        row, low, high = self._first_cells(down, up)
        settled = torch.zeros_like(self.u)
        attained = self._reached(row, low)
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            attained = torch.maximum(attained, self._reached(row, middle))
            bound = self._bound(row, low, high)
            open_ = (bound > attained[row] * (1 + precision) + 1e-12).any(-1) & (low < middle) & (middle < high)
            open_ &= bound.numel() < MOST
            self._settle(settled, row, bound, ~open_)
            row, low, middle, high = row[open_], low[open_], middle[open_], high[open_]
            if not len(row):
                return settled
            row, low, high = row.repeat(2), torch.cat((low, middle)), torch.cat((middle, high))
        self._settle(settled, row, self._bound(row, low, high), torch.ones_like(row, dtype=torch.bool))
        return settled

    def _first_cells(self, down: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cells that cover [−down, up]; 0 is among their ends, and so are residuals: χ changes fastest there."""
        steps = torch.linspace(0, 1, FIRST_CELLS // 2 + 1, dtype=torch.float64)
        below, above = (e.unsqueeze(-1) * steps for e in (-down, up))
        some = self.u.sort(-1).values[:, :: 1 + (self.u.shape[-1] - 1) // FIRST_CELLS]
        within = some.clamp(-down.unsqueeze(-1), up.unsqueeze(-1))
        edges = torch.cat((below, above, within), -1).sort(-1).values
        row = torch.arange(len(self.u)).repeat_interleave(edges.shape[-1] - 1)
        low, high = edges[:, :-1].flatten(), edges[:, 1:].flatten()
        kept = (low < high) | (down + up == 0)[row]  # of a range that is a point, the point
        return row[kept], low[kept], high[kept]

    def _reached(self, row: Tensor, shift: Tensor) -> Float[Tensor, "row group"]:
        """What the worst replacements do at these shifts: attained, so never above the supremum."""
        return self._by_row(row, self._bound(row, shift, shift))

    def _bound(self, row: Tensor, low: Tensor, high: Tensor) -> Float[Tensor, "cell group"]:
        """An upper bound of the change within each cell; exact where the cell is a point."""
        u = self.u[row]
        top, bottom = _shape(u - low.unsqueeze(-1)), _shape(u - high.unsqueeze(-1))  # χ falls as the reference rises
        squares = torch.stack((top * top, bottom * bottom))
        crosses = (top > 0) & (bottom < 0)
        least, largest = torch.where(crosses, 0.0, squares.amin(0)), squares.amax(0)
        G = u.shape[-1]
        small = self.floor2 + (_others(least) - _largest_others(least, self.r)).clamp(min=0) / G
        large = self.floor2 + (_others(largest) + _largest_others(-largest, self.r) + self.r) / G
        now = self.now[row]
        # χ/√(w + χ²/G) rises with χ, so each end of χ gives the extreme advantage, with the scale that is worse for it
        up = top / (torch.where(top > 0, small, large) + top * top / G).sqrt() - now
        down = now - bottom / (torch.where(bottom > 0, large, small) + bottom * bottom / G).sqrt()
        return torch.maximum(up, down)

    def _by_row(self, row: Tensor, values: Tensor) -> Tensor:
        out = torch.zeros_like(self.u)
        return out.scatter_reduce(0, row.unsqueeze(-1).expand_as(values), values, "amax")

    def _settle(self, settled: Tensor, row: Tensor, bound: Tensor, done: Tensor) -> None:
        torch.maximum(settled, self._by_row(row[done], bound[done]), out=settled)


def _shape(u: Tensor) -> Tensor:
    """χ_1(u)."""
    return u / torch.hypot(u, torch.ones_like(u))


def _others(values: Tensor) -> Tensor:
    """Σ_{j≠i}, for every i."""
    return values.sum(-1, keepdim=True) - values


def _largest_others(values: Tensor, r: int) -> Tensor:
    """The sum of the r largest among j ≠ i, for every i: one value deeper where i is among the r largest itself."""
    if r == 0:
        return torch.zeros_like(values)
    top = values.topk(r + 1, dim=-1).values if r < values.shape[-1] else values.sort(-1, descending=True).values
    sums = top.cumsum(-1)
    return torch.where(values >= top[..., r - 1 : r], sums[..., r : r + 1] - values, sums[..., r - 1 : r])
