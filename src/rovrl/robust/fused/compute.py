"""The value and the gradient of SoftRoVR's rows, by the kernel of a given name: tensors in, tensors out."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from torch import Tensor

from rovrl.robust.fused.saved import Saved
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.packed import check_bounds

BACKENDS = {
    "eager": "rovrl.robust.soft.implicit",
    "numba": "rovrl.robust.fused.cpu",
    "triton": "rovrl.robust.fused.cuda",
}
"""Kernel -> the module with its `solve` and `gradient`; imported when it is needed."""


def solve(
    x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings, kernel: str
) -> tuple[Tensor, Saved]:
    """The value of every row at convergence, eq:softrovr_ratio, and what its gradient needs.

    x is [row, element] with a bool mask or None, or flat elements with `bounds`, their cumulative lengths.
    """
    if bounds is not None:
        check_bounds(bounds, len(x))
    if x.numel() == 0:
        rows = num_rows(x, bounds)
        return x.new_zeros(rows), Saved.blank(x, rows, settings.num_blocks)
    return _backend(kernel).solve(x, mask, bounds, settings)


def gradient(grad: Tensor, x: Tensor, mask: Tensor | None, bounds: Tensor | None, saved: Saved, kernel: str) -> Tensor:
    """grad[row]·∂value/∂element in the shape of x, from what `solve` gave: one pass over the elements."""
    return x.new_zeros(x.shape) if x.numel() == 0 else _backend(kernel).gradient(grad, x, mask, bounds, saved)


def num_rows(x: Tensor, bounds: Tensor | None) -> int:
    """How many rows there are."""
    return x.shape[0] if bounds is None else bounds.shape[0] - 1


def _backend(kernel: str) -> ModuleType:
    return import_module(BACKENDS[kernel])
