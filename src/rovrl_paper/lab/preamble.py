"""What the embedded job says about itself before it starts: its command, and what is planted."""

from __future__ import annotations

import sys

from rovrl_paper.lab.job import Job
from rovrl_paper.lab.rewards import KINDS


def preamble(job: Job) -> list[str]:
    """What is planted, in plain words."""
    lines = [
        *job.world.facts,
        f"Reward: {job.reward} ({KINDS[job.reward].formula}).",
        f"Planted corruption: {' and '.join(job.contamination)}, in units of {KINDS[job.reward].unit:g}; "
        "the same responses are hit for every method."
        if job.contamination
        else "Planted corruption: none.",
    ]
    if job.rollout:
        lines.append(f"Responses are sampled from a copy of the model with {job.rollout} weights.")
    return lines


def command() -> str:
    """The command that is running."""
    return " ".join(["rovrl", *sys.argv[1:]])
