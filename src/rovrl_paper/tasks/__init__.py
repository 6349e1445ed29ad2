"""Tasks that make their own problems, for the embedded job and the starting models of its worlds."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection


def different(count: int, seed: int, avoid: Collection[str], draw: Callable[[random.Random], str]) -> list[str]:
    """`count` different problems, each from `draw`, none of them in `avoid`."""
    rng, seen, chosen = random.Random(seed), set(avoid), []
    while len(chosen) < count:
        text = draw(rng)
        if text not in seen:
            seen.add(text)
            chosen.append(text)
    return chosen
