"""Which reference estimators there are: empty here, filled by `rovrl.robust.location` and by whoever adds another one.

It lies below the settings, which refuse a name it does not hold, and below the estimators, which are called with settings.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Reference = Callable[..., Any]
"""(x [..., n], blocks, channel) -> [...]."""

REFERENCES: dict[str, Reference] = {}
"""Name -> estimator of [..., n] values given blocks and settings -> [...]."""


def known_references() -> tuple[str, ...]:
    """The names of all estimators. Loads ours (and torch with them) if nothing else has."""
    importlib.import_module("rovrl.robust.location")
    return tuple(REFERENCES)
