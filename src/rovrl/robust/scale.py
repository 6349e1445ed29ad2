"""Where ν̂ comes from, the pooled scale, and the running scale of earlier steps."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.robust.blocks import Blocks
from rovrl.robust.settings import ReferenceSettings
from rovrl.robust.solve import masked_median

LARGEST_SCALE = 1e300
"""A scale beyond this is no scale: twice it, or its product with a distance, could overflow."""


SMALL_BLOCK = 4
"""Below this many members a block's own sandwich scale is unstable (the paper: blocks of two or three)."""


def scale_source(blocks: Blocks, channel: ReferenceSettings) -> str:
    """ "local", "lagged" or "pilot" for these blocks; "none" for a single block, which needs no scale."""
    if len(blocks.sizes) == 1:
        return "none"
    if not isinstance(channel.scale_source, str):
        return "pilot"
    if channel.scale_source == "auto":
        return "lagged" if min(blocks.sizes) < SMALL_BLOCK else "local"
    return channel.scale_source


def pooled_scale(local: Float[Tensor, "*batch block"], floor: float, cap: float) -> Float[Tensor, "*batch"]:
    """ν̂ = clip(median_b ν̂_b, ν_min, ν_max), eq:robust_sandwich_scale."""
    return masked_median(local, torch.ones_like(local, dtype=torch.bool)).clamp(floor, cap)


class LaggedScale:
    """The scales of earlier steps: exponential moving averages that the current step cannot influence.

    `value` is the sandwich scale: the paper asks for a lagged or a pilot one when blocks have two or three members (below
    eq:robust_sandwich_scale). `spread` is what "adaptive" credit is measured in; None where nothing asks for it.
    """

    def __init__(self, decay: float = 0.9) -> None:
        if not _is_number(decay) or not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), not {decay!r}")
        self.decay = decay
        self.value: float | None = None
        self.spread: float | None = None
        self.steps = 0

    def update(self, batch_scale: float, batch_spread: float = 0.0) -> None:
        """Takes in one step's scales; a step without information (0 or non-finite) leaves the averages as they are."""
        self.spread = self._average(self.spread, batch_spread)
        if _is_scale(batch_scale):
            self.value = self._average(self.value, batch_scale)
            self.steps += 1

    def _average(self, old: float | None, new: float) -> float | None:
        if not _is_scale(new):
            return old
        return new if old is None else self.decay * old + (1 - self.decay) * new

    def state_dict(self) -> dict[str, float | int | None]:
        """Everything needed to go on after a restart, as plain numbers."""
        return {"decay": self.decay, "value": self.value, "spread": self.spread, "steps": self.steps}

    def load_state_dict(self, state: dict[str, float | int | None]) -> None:
        """Restores what `state_dict` gave."""
        missing = {"decay", "value", "steps"} - set(state)
        if missing:
            raise ValueError(f"the state of a LaggedScale needs decay, value and steps; {sorted(missing)} is missing")
        for name in ("value", "spread"):
            number = state.get(name)
            if number is not None and not (_is_number(number) and _is_scale(number)):
                raise ValueError(f"the {name} of a LaggedScale must be None or a positive number, not {number!r}")
        steps = state["steps"]
        if not (_is_number(steps) and isinstance(steps, int) and steps >= 0):
            raise ValueError(f"the steps of a LaggedScale must be a whole number of at least 0, not {steps!r}")
        decay = LaggedScale(state["decay"]).decay  # refuses what the constructor refuses  # pyright: ignore[reportArgumentType]
        self.value, self.spread, self.decay, self.steps = state["value"], state.get("spread"), float(decay), steps


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scale(number: float) -> bool:
    return 0 < number <= LARGEST_SCALE


def median_of(values: Tensor) -> float:
    """The midpoint median of a list of numbers as a float; 0 for none."""
    return float(masked_median(values, torch.ones_like(values, dtype=torch.bool))) if values.numel() else 0.0
