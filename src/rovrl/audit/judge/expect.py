"""What the user declares about the reward, so that the audit need not guess: a range, a rare bonus, a rare penalty."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.errors import RovrlError

WORDS = ("rare-bonus", "rare-penalty", "range=LOW:HIGH")


@dataclass(frozen=True)
class Expectations:
    """Declarations about the reward: what is declared is never called a fault, and what breaks it always is."""

    rare_bonus: bool = False
    """A few responses may earn far more than the rest of their group."""
    rare_penalty: bool = False
    """A few responses may lose far more than the rest of their group."""
    low: float = -math.inf
    high: float = math.inf
    """Every reward lies in [low, high]; inside it none is a fault."""

    @classmethod
    def of(cls, words: Iterable[str]) -> Expectations:
        """The declarations in words, as --expect takes them; an unknown one is refused."""
        fields: dict[str, bool | float] = {}
        for word in words:
            name, _, value = word.partition("=")
            if word in ("rare-bonus", "rare-penalty"):
                fields[word.replace("-", "_")] = True
            elif name == "range":
                fields["low"], fields["high"] = _range(value)
            else:
                raise RovrlError(f"--expect takes {', '.join(WORDS)}, not {word!r}")
        return cls(**fields)  # pyright: ignore[reportArgumentType]

    @property
    def has_range(self) -> bool:
        """Whether a range is declared."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def outside(self, reward: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which rewards lie outside the declared range; NaN does not."""
        with np.errstate(invalid="ignore"):
            return (reward < self.low) | (reward > self.high)

    def unexpected(self, reward: NDArray[np.float64], above: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rewards, far above or below their group, no declaration allows."""
        odd = np.where(above, not self.rare_bonus, not self.rare_penalty)
        return self.outside(reward) if self.has_range else odd


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        ends = float(low or "-inf"), float(high or "inf")
    except ValueError:
        ends = math.nan, math.nan
    if not colon or not ends[0] < ends[1]:
        raise RovrlError(f"--expect range takes LOW:HIGH such as range=0:1 (either end may be left out), not {text!r}")
    return ends
