"""How many files and functions of ours run from rewards to metrics: what a reader of that way has to hold in the head.

python tests/project/test_way.py     prints every file with its functions
"""

import sys
from pathlib import Path

import pytest
import torch

import rovrl
from rovrl.robust.kernels import use_kernel

SOURCE = Path(rovrl.__file__).parent
MOST = {"paper": (17, 95), "guarded": (27, 171)}
"""Preset -> files and functions at most; fewer is better, so these go down and not up."""


def way(preset: str) -> dict[str, set[str]]:
    """File -> the functions called between handing 256 groups of 16 with 10 % spikes to a fresh run and its metrics.

    Eager kernels; a comprehension counts as a part of its function.
    """
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(256, 16, generator=generator, dtype=torch.float64)
    rewards = rewards + 8.0 * (torch.rand(256, 16, generator=generator) < 0.1)
    ids = torch.arange(256).repeat_interleave(16)
    found: dict[str, set[str]] = {}

    def note(frame, event, _):
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(str(SOURCE)) and "<" not in name:
            found.setdefault(str(Path(path).relative_to(SOURCE)), set()).add(name)

    with use_kernel("eager"):
        for observed in (False, True):  # the first pass imports, and fills caches
            run = rovrl.RewardRun(preset)
            sys.setprofile(note if observed else None)
            run.advantages(rewards.flatten(), ids)
            run.metrics()
            sys.setprofile(None)
    return found


@pytest.mark.parametrize("preset", MOST)
def test_the_way_from_rewards_to_metrics_stays_short(preset):
    found = way(preset)
    files, functions = len(found), sum(map(len, found.values()))
    assert files <= MOST[preset][0], sorted(found)
    assert functions <= MOST[preset][1], {file: len(names) for file, names in found.items()}


if __name__ == "__main__":
    for preset in MOST:
        found = way(preset)
        print(f"{preset}: {len(found)} files, {sum(map(len, found.values()))} functions")
        for file, names in sorted(found.items()):
            print(f"  {file}: {', '.join(sorted(names))}")
