"""SoftRoVR on the CPU through the compiled row kernels: torch tensors in, torch tensors out, rows over torch's threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from rovrl.config import RatioChannel
from rovrl.robust.correction import quantile_grid
from rovrl.robust.kernels import hard, layout, outer, rows

LIMITS = {torch.float32: (1e7, 2e-4, 1e-7), torch.float64: (1e15, 1e-8, 1e-16)}
"""Per precision: r beyond which P = ±1 to the last bit, the longest last step, the rounding of a mean square."""
THREAD_TOKENS = 1 << 16
"""Fewer tokens per thread than this are not worth a thread."""


def solve(x: Tensor, mask: Tensor | None, bounds: Tensor | None, channel: RatioChannel) -> tuple[Tensor, ...]:
    """The value of every row, and what its gradient needs: (value, edges, coefficients, width, dense).

    x is [row, token] with a bool mask or None, or flat tokens with `bounds`, their cumulative lengths.
    """
    tokens, begin, place, length = _rows(x, bounds)
    keep = None if mask is None else mask.contiguous().view(torch.uint8).view(-1).numpy()
    count, blocks = len(begin), channel.num_blocks
    value, width, dense = np.empty(count), np.empty(count), np.ones(count, bool)
    edges, coefficients = np.empty((count, blocks + 1), np.int64), np.zeros((count, blocks, 4))

    def part(s: slice) -> None:
        found = (value[s], edges[s], coefficients[s], width[s], dense[s])
        _solve_part(tokens, keep, begin[s], place[s], length[s], channel, LIMITS[x.dtype], *found)

    _in_parts(part, length)
    numbers = (torch.from_numpy(value).to(x.dtype), edges, coefficients, width, dense)
    return tuple(torch.from_numpy(n) if isinstance(n, np.ndarray) else n for n in numbers)


def gradient(
    grad: Tensor,
    x: Tensor,
    mask: Tensor | None,
    bounds: Tensor | None,
    edges: Tensor,
    coefficients: Tensor,
    width: Tensor,
    dense: Tensor,
) -> Tensor:
    """grad[row]·∂value/∂token in the shape of x, from what `solve` gave: one pass over the tokens."""
    tokens, begin, place, length = _rows(x, bounds)
    keep = None if mask is None or bool(dense.all()) else mask.contiguous().view(torch.uint8).view(-1).numpy()
    out = torch.empty(x.shape, dtype=x.dtype)
    flat = out.view(-1).numpy()
    arrays = [t.detach().numpy() for t in (width, edges, coefficients, grad.double())]

    def part(s: slice) -> None:
        widths, cuts, factors, grads = (a[s] for a in arrays)
        limits = LIMITS[x.dtype]
        rows.gradient_rows(tokens, keep, begin[s], place[s], length[s], widths, cuts, limits, factors, grads, flat)

    _in_parts(part, length)
    return out


def _solve_part(tokens, keep, begin, place, length, channel, limits, value, edges, coefficients, width, dense) -> None:
    blocks = channel.num_blocks
    sizes, state, unit = (
        np.empty((len(begin), blocks), np.int64),
        np.empty((len(begin), blocks, 5)),
        np.ones(len(begin)),
    )
    if keep is None:
        sizes[:], edges[:] = layout.cut_whole(length, blocks, channel.min_block)
    elif layout.cut_rows(keep, place, length, blocks, channel.min_block, sizes, edges, dense):
        keep = None
    if channel.units == "robust":
        hard.unit_rows(tokens, keep, begin, place, sizes, edges, channel.scale_floor, unit)
    width[:] = channel.score_width * unit
    if rows.solve_rows(tokens, keep, begin, place, length, width, sizes, edges, limits, state):
        hard.solve_hard(tokens, keep, begin, place, width, sizes, edges, limits[0], state)
    offsets, constants = _constants(channel)
    work = np.empty((7, blocks))
    outer.outer_rows(sizes, state, unit, channel.score_width, offsets, constants, work, value, coefficients)


@lru_cache(maxsize=64)
def _constants(channel: RatioChannel) -> tuple[np.ndarray, np.ndarray]:
    """Δ_1..K, and (D_K, γ, η, ν_min, ν_max, a_min, regularizer)."""
    c, grid = channel, quantile_grid(channel.num_levels)
    constants = (
        grid.density,
        c.temperature,
        c.median_width,
        c.scale_floor,
        c.scale_cap,
        c.curvature_floor,
        c.regularizer,
    )
    return grid.offsets.numpy(), np.array(constants)


def _rows(x: Tensor, bounds: Tensor | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The tokens as one flat array without a copy if it can be, and per row: begin, place in a packed array, length."""
    x = x.detach()
    if bounds is not None:
        edges = bounds.numpy()
        return x.contiguous().numpy(), edges[:-1], edges[:-1], np.diff(edges)
    count, width = x.shape
    if x.stride(1) != 1 or x.stride(0) < 0:
        x = x.contiguous()
    flat = x.as_strided(((count - 1) * x.stride(0) + width,), (1,)).numpy()
    row = np.arange(count)
    return flat, row * x.stride(0), row * width, np.full(count, width)


def _in_parts(part: Callable[[slice], None], length: np.ndarray) -> None:
    """Runs `part` over slices of the rows with about equally many tokens, one per torch thread."""
    total = int(length.sum())
    parts = min(torch.get_num_threads(), max(1, total // THREAD_TOKENS), len(length))
    if parts <= 1:
        part(slice(0, len(length)))
        return
    cuts = np.searchsorted(length.cumsum(), np.arange(1, parts) * (total / parts))
    edges = [0, *cuts.tolist(), len(length)]
    list(_pool(parts, os.getpid()).map(part, map(slice, edges[:-1], edges[1:])))


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Keyed by process: a forked child has none of its parent's threads. The kernels hold no interpreter lock."""
    return ThreadPoolExecutor(threads, thread_name_prefix="rovrl")
