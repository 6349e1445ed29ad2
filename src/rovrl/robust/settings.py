"""What the estimators must be told: the smooth one's settings, and what the hard ones read of theirs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class SoftSettings:
    """SoftRoVR's settings (eq:softrovr_ratio), the one place where they are listed; `rovrl.RatioChannel` is these, checked."""

    num_blocks: int = 8
    """B, contiguous blocks over the kept elements of a row."""
    min_block: int = 4
    """The fewest elements in a block; a shorter row gets fewer blocks."""
    num_levels: int = 9
    """K, quantile levels of the outer correction."""
    score_width: float = 1.0
    """c, the width of the score function."""
    temperature: float = 0.01
    """gamma, of the logistic step H_gamma."""
    median_width: float = 0.01
    """eta, of the smooth median."""
    iterations: int = 32
    """S, solver steps; with gradient="unrolled" each one is differentiated."""
    curvature_floor: float = 1e-6
    """a_min, in the sandwich scale."""
    scale_floor: float = 1e-6
    """nu_min."""
    scale_cap: float = 10.0
    """nu_max."""
    regularizer: float = 1e-8
    """Added to denominators only, never under a root."""
    gradient: Literal["implicit", "unrolled"] = "implicit"
    """How the solution is differentiated: at the converged root, or through the paper's S steps."""
    units: Literal["absolute", "robust"] = "absolute"
    """"robust": score_width, temperature and median_width are multiples of each row's detached robust scale."""

    @property
    def numbers(self) -> list[float]:
        """The counts and the numbers in their order, as an operator of torch takes them; `of_numbers` is the way back."""
        return [float(getattr(self, name)) for name in (*COUNTS, *NUMBERS)]

    @classmethod
    def of_numbers(cls, numbers: list[float], units: str) -> SoftSettings:
        """The settings that have these `numbers`."""
        counts = {name: int(value) for name, value in zip(COUNTS, numbers, strict=False)}
        return cls(**counts, **dict(zip(NUMBERS, numbers[len(COUNTS) :], strict=True)), units=units)  # pyright: ignore[reportArgumentType]


COUNTS = tuple(f.name for f in fields(SoftSettings) if f.type == "int")
"""The settings that are whole numbers."""
NUMBERS = tuple(f.name for f in fields(SoftSettings) if f.type == "float")
"""The settings that are real numbers."""


@runtime_checkable
class ReferenceSettings(Protocol):
    """What a reference estimator reads of a channel (tab:reference_estimators)."""

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
