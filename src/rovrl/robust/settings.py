"""What the estimators must be told, as types: the channels of `rovrl.config` are such settings."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable


@runtime_checkable
class Settings(Protocol):
    """What the hard and the smooth estimator share: centers, local scales, quantile levels."""

    @property
    def num_levels(self) -> int:
        """K, quantile levels of the outer correction."""
        ...

    @property
    def score_width(self) -> float:
        """c, the width of the score function."""
        ...

    @property
    def curvature_floor(self) -> float:
        """a_min, in the sandwich scale."""
        ...

    @property
    def scale_floor(self) -> float:
        """ν_min."""
        ...

    @property
    def scale_cap(self) -> float:
        """ν_max."""
        ...


@runtime_checkable
class ReferenceSettings(Settings, Protocol):
    """What a reference estimator needs (tab:reference_estimators)."""

    @property
    def scale_source(self) -> float | str:
        """Where ν comes from: "auto", "local", "lagged", or a number."""
        ...

    @property
    def tie_tolerance(self) -> float:
        """ε_tie, relative to the pooled scale."""
        ...

    @property
    def reference(self) -> str:
        """The name of an estimator of `REFERENCES`."""
        ...


@runtime_checkable
class SoftSettings(Settings, Protocol):
    """What the differentiable estimator needs (eq:softrovr_ratio)."""

    @property
    def num_blocks(self) -> int:
        """B, contiguous blocks over the kept elements of a row."""
        ...

    @property
    def min_block(self) -> int:
        """The fewest elements of a block."""
        ...

    @property
    def temperature(self) -> float:
        """γ, of the logistic step."""
        ...

    @property
    def median_width(self) -> float:
        """η, of the smooth median."""
        ...

    @property
    def regularizer(self) -> float:
        """Added to denominators."""
        ...

    @property
    def units(self) -> str:
        """ "absolute" or "robust"."""
        ...


@runtime_checkable
class UnrolledSettings(SoftSettings, Protocol):
    """What its unrolled form needs besides."""

    @property
    def iterations(self) -> int:
        """S, solver steps."""
        ...


class SoftNumbers(NamedTuple):
    """`SoftSettings` as plain numbers and a word, in the order in which the operator takes them."""

    num_blocks: int
    min_block: int
    num_levels: int
    score_width: float
    temperature: float
    median_width: float
    curvature_floor: float
    scale_floor: float
    scale_cap: float
    regularizer: float
    units: str
