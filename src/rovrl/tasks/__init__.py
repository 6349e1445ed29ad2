"""The paper's tasks: data, reward and evaluation of each."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = {
    "govreport": "rovrl.tasks.govreport",
    "math": "rovrl.tasks.math",
    "toolcall": "rovrl.tasks.toolcall",
}


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'rovrl.tasks' has no attribute {name!r}")
