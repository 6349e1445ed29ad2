"""How alike the responses of a group are, in their words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

WORDS = 200
"""Words of each response that are looked at: the measure falls with the number of words, so it must be the same for all."""
LETTERS = 12 * WORDS
_WORD = re.compile(r"\w+|[^\w\s]")


def distinct_pairs(texts: Sequence[str]) -> float:
    """Distinct over all pairs of neighbouring words, in the first WORDS words of each text ("distinct-2"); a sign is a word.

    1 if no pair comes twice, near 1/n if all n texts are equal; NaN where no text has two words.
    """
    pairs, total = set(), 0
    for text in texts:
        words = _WORD.findall(text[:LETTERS])[:WORDS]
        total += max(len(words) - 1, 0)
        pairs.update(pairwise(words))
    return len(pairs) / total if total else float(np.nan)
