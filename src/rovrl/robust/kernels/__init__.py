"""Fused paths for the two hot loops, chosen per call: numba on the CPU, Triton on CUDA, plain torch everywhere else.

On the CPU a small input is computed in plain torch, in some twenty milliseconds: compiling takes seconds, which only a loop
earns back. A trainer says so with `compiled()`. The choice depends on shapes alone, never on what was computed before, so
that a resumed run computes as the first one did.
ROVRL_KERNEL=auto|eager|numba|triton overrides the choice for a process, `use_kernel("eager")` for a block of code. All give
the same results to rounding. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

KERNELS = ("auto", "eager", "numba", "triton")
VARIABLE = "ROVRL_KERNEL"
LONGEST_LANE = 512
"""Longer rows gain nothing from standing side by side."""

WORTH_COMPILING = 1 << 13
"""Numbers in one call from which on the CPU kernels are compiled for it: plain torch would take over 50 ms."""

_chosen: ContextVar[str | None] = ContextVar("rovrl_kernel", default=None)
_in_a_loop: ContextVar[bool] = ContextVar("rovrl_in_a_loop", default=False)


@contextmanager
def compiled() -> Iterator[None]:
    """Within the block, which a training loop comes back to, the CPU kernels are compiled for inputs of any size."""
    before = _in_a_loop.set(True)
    try:
        yield
    finally:
        _in_a_loop.reset(before)


@contextmanager
def compiled_if_large(numbers: int) -> Iterator[None]:
    """Within the block the parts of an input of so many numbers are treated as the whole of it would be."""
    with compiled() if numbers >= WORTH_COMPILING else nullcontext():
        yield


@contextmanager
def use_kernel(name: str) -> Iterator[None]:
    """Within the block, the kernel called `name` ("auto", "eager", "numba", "triton") computes SoftRoVR and M-centers."""
    before = _chosen.set(_known(name, "use_kernel"))
    try:
        yield
    finally:
        _chosen.reset(before)


def kernel_for(x: Tensor) -> str:
    """ "eager", "numba" or "triton": what computes on this tensor, by the override in force or by its device and size."""
    name = _chosen.get() or _known(os.environ.get(VARIABLE) or "auto", VARIABLE)
    device = x.device.type
    if name == "auto":
        if device == "cpu" and not _in_a_loop.get() and x.numel() < WORTH_COMPILING:
            return "eager"
        return {"cpu": _if_installed("numba"), "cuda": _if_installed("triton")}.get(device, "eager")
    if name == "numba" and device != "cpu":
        raise ValueError(f'kernel "numba" computes on the CPU, not on {device!r} tensors; use "auto"')
    if name == "triton" and device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(f'kernel "triton" computes on CUDA tensors (or with TRITON_INTERPRET=1), not on {device!r}')
    return name


def takes_lanes(x: Tensor) -> bool:
    """Whether the compiled lane kernel computes M-centers and references of these rows: short ones, on the CPU."""
    return kernel_for(x) == "numba" and 0 < x.shape[-1] <= LONGEST_LANE and x.dtype in (torch.float32, torch.float64)


def _known(name: str, where: str) -> str:
    if name not in KERNELS:
        raise ValueError(f"{where} must be one of {', '.join(KERNELS)}, not {name!r}")
    return name


@cache
def _if_installed(package: str) -> str:
    return package if find_spec(package) else "eager"
