"""RoVR-GSPO inside training frameworks: thin layers that hold no mathematics."""

from __future__ import annotations

import importlib
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name in ("trl", "verl", "ms_swift"):
        return importlib.import_module(f"rovrl.integrations.{name}")
    raise AttributeError(f"module 'rovrl.integrations' has no attribute {name!r}")
