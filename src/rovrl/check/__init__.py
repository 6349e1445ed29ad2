"""Before a run is paid for: `rovrl lint` (what its reward functions do), `rovrl doctor` (is it set up as the method needs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True)
class Remark:
    """One thing that was looked at: `problem` = the run fails or is not the method; `warning` = it likely is not."""

    level: Level
    text: str
