"""RoVR-GSPO: robust group-relative policy optimization.

rewards ──> blocks ──> M-centers ──> quantile correction ──> reference ──> credit ──> advantage ─┐
                                                                                                ├─> clipped loss
token log-ratios ──> blocks ──> M-centers ──> smooth correction ──> log sequence weight ─────────┘

advantage = rovrl.grouped_advantages(rewards, group_ids, rovrl.RewardChannel())
log_weight = rovrl.soft_rovr(log_ratios, mask, rovrl.RatioChannel())
loss = -rovrl.clipped_objective(log_weight, advantage).mean()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time each name is imported when it is first asked for
    from rovrl import baselines, diagnostics, guarantees
    from rovrl.advantage import ADVANTAGES, explain, grouped_advantages
    from rovrl.config import RatioChannel, RewardChannel, RolloutCorrection
    from rovrl.diagnostics import contrast
    from rovrl.errors import RovrlError
    from rovrl.loss import clip_branch, clipped_objective
    from rovrl.robust.blocks import Blocks
    from rovrl.robust.centers import m_center
    from rovrl.robust.location import REFERENCES
    from rovrl.robust.scale import LaggedScale
    from rovrl.rollout import ROLLOUT_CORRECTIONS, rollout_weights
    from rovrl.run import RewardRun
    from rovrl.weight import soft_rovr, soft_rovr_context_parallel

    rovr = REFERENCES["rovr"]

__version__ = "0.1.0"

__all__ = [
    "ADVANTAGES",
    "REFERENCES",
    "ROLLOUT_CORRECTIONS",
    "Blocks",
    "LaggedScale",
    "RatioChannel",
    "RewardChannel",
    "RewardRun",
    "RolloutCorrection",
    "RovrlError",
    "baselines",
    "clip_branch",
    "clipped_objective",
    "contrast",
    "diagnostics",
    "explain",
    "grouped_advantages",
    "guarantees",
    "m_center",
    "rollout_weights",
    "rovr",
    "soft_rovr",
    "soft_rovr_context_parallel",
]

_MODULES = ("audit", "baselines", "diagnostics", "guarantees", "integrations", "records", "tasks")
_HOMES = {
    "advantage": ("ADVANTAGES", "explain", "grouped_advantages"),
    "config": ("RatioChannel", "RewardChannel", "RolloutCorrection"),
    "diagnostics": ("contrast",),
    "errors": ("RovrlError",),
    "loss": ("clip_branch", "clipped_objective"),
    "robust.blocks": ("Blocks",),
    "robust.centers": ("m_center",),
    "robust.location": ("REFERENCES",),
    "robust.scale": ("LaggedScale",),
    "rollout": ("ROLLOUT_CORRECTIONS", "rollout_weights"),
    "run": ("RewardRun",),
    "weight": ("soft_rovr", "soft_rovr_context_parallel"),
}
"""Where each public name lives. `rovrl --help` and `rovrl audit` need no torch, so importing the package brings none."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"rovrl.{name}")
    if name == "rovr":
        return __getattr__("REFERENCES")["rovr"]
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"rovrl.{module}"), name)
            return value
    raise AttributeError(f"module 'rovrl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
