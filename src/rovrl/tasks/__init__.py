"""The tasks: data, reward and evaluation of each; arithmetic is embedded, the others are the paper's three."""

from __future__ import annotations

import importlib
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name in ("arithmetic", "govreport", "math", "toolcall"):
        return importlib.import_module(f"rovrl.tasks.{name}")
    raise AttributeError(f"module 'rovrl.tasks' has no attribute {name!r}")
