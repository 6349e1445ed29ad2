"""The pooled scale ν̂, and the running scale of earlier steps."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.robust.solve import masked_median


def pooled_scale(local: Float[Tensor, "*batch block"], floor: float, cap: float) -> Float[Tensor, "*batch"]:
    """ν̂ = clip(median_b ν̂_b, ν_min, ν_max), eq:robust_sandwich_scale."""
    return masked_median(local, torch.ones_like(local, dtype=torch.bool)).clamp(floor, cap)


class LaggedScale:
    """A running scale of earlier steps: an exponential moving average that the current step cannot influence.

    The paper asks for a lagged or a pilot scale when blocks have two or three members (below eq:robust_sandwich_scale).
    """

    def __init__(self, decay: float = 0.9) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), not {decay!r}")
        self.decay = decay
        self.value: float | None = None
        self.steps = 0

    def update(self, batch_scale: float) -> None:
        """Takes in one step's scale; a step without information (0 or non-finite) leaves the average as it is."""
        if not (math.isfinite(batch_scale) and batch_scale > 0):
            return
        old = self.value
        self.value = batch_scale if old is None else self.decay * old + (1 - self.decay) * batch_scale
        self.steps += 1

    def state_dict(self) -> dict[str, float | int | None]:
        """Everything needed to go on after a restart, as plain numbers."""
        return {"decay": self.decay, "value": self.value, "steps": self.steps}

    def load_state_dict(self, state: dict[str, float | int | None]) -> None:
        """Restores what `state_dict` gave."""
        missing = {"decay", "value", "steps"} - set(state)
        if missing:
            raise ValueError(f"the state of a LaggedScale needs decay, value and steps; {sorted(missing)} is missing")
        value = state["value"]
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"the value of a LaggedScale must be None or a positive number, not {value!r}")
        self.decay, self.value, self.steps = float(state["decay"] or 0.0), value, int(state["steps"] or 0)


def median_of(values: Tensor) -> float:
    """The midpoint median of a list of numbers as a float; 0 for none."""
    return float(masked_median(values, torch.ones_like(values, dtype=torch.bool))) if values.numel() else 0.0
