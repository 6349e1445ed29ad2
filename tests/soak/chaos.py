"""Rewards from a server that fails in every way: each score right or None, none swapped, over in time."""

from __future__ import annotations

import time

from reward_servers import chaotic, running
from rovrl.tasks.remote import HttpReward


def run(responses: int, deadline: float, share: float = 0.4, seed: int = 0) -> dict[str, float]:
    """What became of `responses` different responses, `share` of whose requests go wrong; one in 199 is poison."""
    texts = ["poison" if n % 199 == 7 else f"{n:06d}" + "x" * (n % 251) for n in range(responses)]
    with running(chaotic(seed, share)) as server:
        reward = HttpReward(server.url, timeout=1.0, pause=0.05, deadline=deadline, requests=16)
        reward.breaker.pause = 0.2
        start = time.monotonic()
        scores = reward(prompts=["?"] * responses, completions=texts)
        seconds = time.monotonic() - start
    right = [float(len(text)) if text != "poison" else None for text in texts]
    return {
        "responses": responses,
        "wrong": sum(found is not None and found != wanted for found, wanted in zip(scores, right, strict=True)),
        "none": sum(found is None for found in scores),
        "poison": right.count(None),
        "requests": len(server.sizes),
        "seconds beyond the deadline": max(0.0, seconds - deadline),
        "seconds": seconds,
        **{f"none: {reason}": count for reason, count in sorted(reward.tally.missing.items())},
    }
