"""SoftRoVR on the CPU through the compiled row kernels: torch tensors in, torch tensors out, rows over torch's threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from rovrl.robust.kernels import lanes, rows
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.eager import LARGEST
from rovrl.robust.soft.solution import Saved, SoftConstants, soft_constants

LIMITS = {torch.float32: (1e12, 2e-4, 1e-7), torch.float64: (1e90, 1e-8, 1e-16)}
"""Per precision: r at which it is cut off (w³ must not underflow), the longest last step, the rounding of a mean square."""
THREAD_ELEMENTS = 1 << 16
"""Fewer elements per thread than this are not worth a thread."""


def solve(x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings) -> tuple[Tensor, Saved]:
    """The value of every row, and what its gradient needs.

    x is [row, element] with a bool mask or None, or flat elements with `bounds`, their cumulative lengths.
    """
    elements, begin, place, length = _rows(x, bounds)
    keep = None if mask is None else mask.contiguous().view(torch.uint8).view(-1).numpy()
    count, blocks = len(begin), settings.num_blocks
    value, width, dense = np.empty(count), np.empty(count), np.ones(count, bool)
    edges, coefficients = np.empty((count, blocks + 1), np.int64), np.zeros((count, blocks, 4))

    def part(s: slice) -> None:
        found = (value[s], edges[s], coefficients[s], width[s], dense[s])
        _solve_part(elements, keep, begin[s], place[s], length[s], settings, LIMITS[x.dtype], *found)

    _in_parts(part, length)
    saved = Saved(*map(torch.from_numpy, (edges, coefficients, width, dense)))
    return torch.from_numpy(value).to(x.dtype), saved


def gradient(grad: Tensor, x: Tensor, mask: Tensor | None, bounds: Tensor | None, saved: Saved) -> Tensor:
    """grad[row]·∂value/∂element in the shape of x, from what `solve` gave: one pass over the elements."""
    elements, begin, place, length = _rows(x, bounds)
    keep = None if mask is None or bool(saved.dense.all()) else mask.contiguous().view(torch.uint8).view(-1).numpy()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    flat = out.view(-1).numpy()
    arrays = [t.detach().numpy() for t in (saved.width, saved.edges, saved.coefficients, grad.double())]

    def part(s: slice) -> None:
        widths, cuts, factors, grads = (a[s] for a in arrays)
        limits = LIMITS[x.dtype]
        rows.gradient_rows(elements, keep, begin[s], place[s], length[s], widths, cuts, limits, factors, grads, flat)

    _in_parts(part, length)
    return out


def _solve_part(
    elements, keep, begin, place, length, settings, limits, value, edges, coefficients, width, dense
) -> None:
    blocks = settings.num_blocks
    sizes, state, unit = (
        np.empty((len(begin), blocks), np.int64),
        np.zeros((len(begin), blocks, 5)),
        np.ones(len(begin)),
    )
    if keep is None:
        sizes[:], edges[:] = rows.cut_whole(length, blocks, settings.min_block)
    elif rows.cut_rows(keep, place, length, blocks, settings.min_block, sizes, edges, dense):
        keep = None
    if settings.units == "robust":
        rows.unit_rows(elements, keep, begin, place, sizes, edges, settings.scale_floor, unit)
    width[:] = settings.score_width * unit
    if rows.solve_rows(elements, keep, begin, place, length, width, sizes, edges, limits, state):
        lanes.solve_leftover(elements, keep, begin, place, width, sizes, edges, limits[0], state)
    offsets, constants = soft_constants(settings)
    centers, scales, medians = *_in_units(sizes, state, unit, constants), np.empty((2, len(begin)))
    for numbers, median in zip((centers, scales), medians, strict=True):
        lanes.center_rows(numbers, (sizes > 0).view(np.uint8), constants.median_width, median)
    work = np.empty((5, blocks))
    rows.outer_rows(
        sizes, state, unit, centers, scales, *medians, offsets.numpy(), constants, work, value, coefficients
    )


def _in_units(
    sizes: np.ndarray, state: np.ndarray, unit: np.ndarray, constants: SoftConstants
) -> tuple[np.ndarray, np.ndarray]:
    """The centers and the capped sandwich scales ν_b = √b/(a ∨ a_min) of the blocks, in the row's unit; 0 of no block."""
    area = np.maximum(sizes, 1) * constants.score_width**2
    floored = np.maximum(state[:, :, 1] / area, constants.curvature_floor) + constants.regularizer
    with np.errstate(over="ignore"):
        centers = np.clip(state[:, :, 0] / unit[:, None], -LARGEST, LARGEST)
    return centers, np.minimum(np.sqrt(state[:, :, 2] / area) / floored, constants.scale_cap)


def _rows(x: Tensor, bounds: Tensor | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The elements as one flat array without a copy if it can be, and per row: begin, place in a packed array, length."""
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
    """Runs `part` over slices of the rows with about equally many elements, one per torch thread."""
    total = int(length.sum())
    parts = min(torch.get_num_threads(), max(1, total // THREAD_ELEMENTS), len(length))
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
