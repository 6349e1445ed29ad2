"""One batch of rewards, two groups of 16 with a spike and a missing score, for every engine: same advantages, same metrics.

The blocks are contiguous, since each engine seeds random ones in its own way.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import rovrl

SETTINGS = {"partition": "contiguous", "credit_bound": 0.7}
CHANNEL_JSON = json.dumps(SETTINGS)


def rewards() -> torch.Tensor:
    """[32], float32 as the engines have them; one spike, one score that never came."""
    made = torch.rand(32, generator=torch.Generator().manual_seed(4))
    made[3], made[20] = 18.0, torch.nan
    return made


def ids() -> np.ndarray:
    """Which of the two prompts each response answers."""
    return np.repeat(np.array(["first", "second"], dtype=object), 16)


def token_level() -> tuple[torch.Tensor, torch.Tensor]:
    """(rewards, mask), both [32, 5]: the reward stands at the last of five tokens."""
    made = torch.zeros(32, 5)
    made[:, -1] = rewards()
    return made, torch.ones(32, 5)


def check(advantages: torch.Tensor, metrics: dict[str, float]) -> None:
    """Raises if these are not the advantages and the metrics of the reward channel that a `RewardRun` gives."""
    run = rovrl.RewardRun(rovrl.RewardChannel(**SETTINGS))
    expected = run.advantages(rewards(), ids())
    torch.testing.assert_close(advantages.double(), expected.double(), rtol=1e-5, atol=1e-6)
    found = {name: metrics[name] for name in run.metrics()}
    assert found == pytest.approx(run.metrics(), rel=1e-5)
