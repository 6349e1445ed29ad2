"""What a Hugging Face trainer keeps in `trainer_state.json` beside its dumps: the metrics of every log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import check_regular

STATE = "trainer_state.json"
FUNCTION = re.compile(r"(?:eval_)?rewards/(.+?)(?:/(?:mean|std))?")
"""The metric of one reward function: `rewards/NAME/mean`, in older versions `rewards/NAME`."""


def log_history(folder: Path) -> list[dict[str, Any]]:
    """The logs of the run that wrote into `folder`, of its last checkpoint there or one folder above; [] if there is none."""
    states = [s for root in (folder, folder.parent) for s in sorted(root.glob(f"checkpoint-*/{STATE}"), key=natural)]
    for state in states[-1:]:
        try:
            check_regular(state)
            history = json.loads(state.read_bytes())["log_history"]
            return [entry for entry in history if isinstance(entry, dict)]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
    return []


def evaluations(folder: Path) -> list[int]:
    """Steps at which the run evaluated."""
    steps = {entry.get("step") for entry in log_history(folder) if any(key.startswith("eval_") for key in entry)}
    return sorted(step for step in steps if isinstance(step, int))


def reward_functions(folder: Path) -> set[str]:
    """The names of the run's reward functions, which are those of their columns; empty where no log has them."""
    found = (FUNCTION.fullmatch(key) for entry in log_history(folder) for key in entry)
    return {name[1] for name in found if name}
