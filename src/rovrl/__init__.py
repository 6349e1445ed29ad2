"""RoVR-GSPO: robust group-relative policy optimization.

rewards ──> blocks ──> M-centers ──> quantile correction ──> reference ──> credit ──> advantage ─┐
                                                                                                ├─> clipped loss
token log-ratios ──> blocks ──> M-centers ──> smooth correction ──> log sequence weight ─────────┘

advantage = rovrl.grouped_advantages(rewards, group_ids, rovrl.RewardChannel())
log_weight = rovrl.soft_rovr(log_ratios, mask, rovrl.RatioChannel())
loss = -rovrl.clipped_objective(log_weight, advantage).mean()
"""

import importlib
from types import ModuleType

from rovrl import baselines, diagnostics, guarantees
from rovrl.advantage import ADVANTAGES, explain, grouped_advantages
from rovrl.config import RatioChannel, RewardChannel
from rovrl.diagnostics import contrast
from rovrl.errors import RovrlError
from rovrl.loss import clip_branch, clipped_objective
from rovrl.robust.blocks import Blocks
from rovrl.robust.centers import m_center
from rovrl.robust.location import REFERENCES
from rovrl.robust.scale import LaggedScale
from rovrl.weight import soft_rovr

rovr = REFERENCES["rovr"]

__version__ = "0.1.0"

__all__ = [
    "ADVANTAGES",
    "REFERENCES",
    "Blocks",
    "LaggedScale",
    "RatioChannel",
    "RewardChannel",
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
    "rovr",
    "soft_rovr",
]


def __getattr__(name: str) -> ModuleType:
    """`rovrl.integrations`, `rovrl.tasks`, ... without importing what they need before they are asked for."""
    if name in ("audit", "integrations", "records", "tasks"):
        return importlib.import_module(f"rovrl.{name}")
    raise AttributeError(f"module 'rovrl' has no attribute {name!r}")
