"""The numbers that the kernels are called with, by name: numba takes the tuple itself, Triton an array in the same order."""

from __future__ import annotations

from typing import NamedTuple


class ReferenceConstants(NamedTuple):
    """Of the hard estimator (eq:rovr)."""

    score_width: float
    curvature_floor: float
    scale_floor: float
    scale_cap: float
    tie_tolerance: float
    density: float
    """D_K."""
    given_scale: float
    """ν for all rows; NaN: each row's own."""


class OuterConstants(NamedTuple):
    """Of the smooth estimator's outer map (eq:softrovr_ratio)."""

    density: float
    """D_K."""
    temperature: float
    median_width: float
    scale_floor: float
    scale_cap: float
    curvature_floor: float
    regularizer: float
    score_width: float
