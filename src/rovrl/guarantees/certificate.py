"""How far the advantages of unchanged responses can move, for the group at hand: a certificate instead of a bound."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.guarantees.premises import count, positive

FIRST_CELLS = 16
"""Cells of the shift to begin with; those that might hold the worst one are halved until the answer is settled."""
ROUNDS = 40
FAR = 1e6
"""Beyond this many κ (or the farthest residual) all residuals are saturated, so that one cell serves to infinity."""


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
    is never below the supremum and above it by at most the share `precision`. So it is at most `credit_stability`, and
    at most twice `credit_bound`.
    """
    kappa, s_min = positive("credit_bound", credit_bound), positive("credit_floor", credit_floor)
    x = torch.as_tensor(rewards).double()
    if x.ndim == 0 or not bool(x.isfinite().all()):
        raise ValueError(
            f"rewards must be finite, with one entry per response on the last axis, not shape {tuple(x.shape)}"
        )
    group = count("group", x.shape[-1], 1)
    r = count("replaced", replaced, 0, group - 1)
    rows = (x - torch.as_tensor(reference, dtype=x.dtype).expand(x.shape[:-1]).unsqueeze(-1)).reshape(-1, group)
    down, up = (error.expand(x.shape[:-1]).reshape(-1) for error in _two_sided(reference_error))
    down, up, floor = down / kappa, up / kappa, s_min / kappa
    most = _Search(rows / kappa, r, floor).most(down, up, precision)
    return torch.minimum(most, _closed_form(torch.maximum(down, up), r, group, floor).unsqueeze(-1)).view(x.shape)


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
            attained = torch.maximum(attained, self._reached(row, (low + high) / 2))
            bound = self._bound(row, low, high)
            open_ = (bound > attained[row] * (1 + precision) + 1e-12).any(-1) & (high - low).isfinite()
            self._settle(settled, row, bound, ~open_)
            row, low, high = row[open_], low[open_], high[open_]
            if not len(row):
                return settled
            middle = (low + high) / 2
            row, low, high = row.repeat(2), torch.cat((low, middle)), torch.cat((middle, high))
        self._settle(settled, row, self._bound(row, low, high), torch.ones_like(row, dtype=torch.bool))
        return settled

    def _first_cells(self, down: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cells that cover [−down, up], 0 among their ends; what is infinitely wide is one cell beyond `FAR`."""
        far = FAR * (1 + self.u.abs().amax(-1))
        steps = torch.linspace(0, 1, FIRST_CELLS // 2 + 1, dtype=torch.float64)
        below, above = (torch.minimum(e, far).unsqueeze(-1) * steps for e in (down, up))
        edges = torch.cat((-down.unsqueeze(-1), -below.flip(-1), above[:, 1:], up.unsqueeze(-1)), -1)
        row = torch.arange(len(self.u)).repeat_interleave(edges.shape[-1] - 1)
        return row, edges[:, :-1].flatten(), edges[:, 1:].flatten()

    def _reached(self, row: Tensor, shift: Tensor) -> Float[Tensor, "row group"]:
        """What the worst replacements do at these shifts: attained, so never above the supremum."""
        finite = shift.clamp(-1e300, 1e300)
        return self._by_row(row, self._bound(row, finite, finite))

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
    """χ_1(u), also at infinity."""
    return torch.where(u.isinf(), u.sign(), u / torch.hypot(u, torch.ones_like(u)))


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
