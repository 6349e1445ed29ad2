"""Balanced partitions of n elements, the budgets they carry, and the fallback of alg:rovr_gspo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # partitions alone need no torch
    import torch
    from torch import Tensor

FIXED_SEED = 0
"""Seeds a random partition when no generator is given, so that a call is a function of its arguments."""


@dataclass(frozen=True)
class Blocks:
    """A partition of 0 .. n-1 into blocks; sizes and members are part of what a run logs (app:implementation)."""

    _members: tuple[tuple[int, ...], ...]

    @classmethod
    def contiguous(cls, n: int, num_blocks: int) -> Blocks:
        """Balanced blocks of consecutive elements; the first n mod B blocks have one element more."""
        return cls._cut(range(n), n, num_blocks)

    @classmethod
    def random(cls, n: int, num_blocks: int, generator: torch.Generator | None = None) -> Blocks:
        """Balanced blocks of one uniform permutation, drawn from `generator` (None: a fixed seed), never from the data."""
        _check_count(n, num_blocks)
        if generator is None:
            return cls._cut(_fixed_permutation(n), n, num_blocks)
        import torch

        order = torch.randperm(n, generator=generator, device=generator.device).tolist()
        return cls._cut(order, n, num_blocks)

    @classmethod
    def of(cls, members: Iterable[Sequence[int]]) -> Blocks:
        """The given blocks; they must hold 0 .. n-1, each once."""
        try:
            blocks = tuple(tuple(index(i) for i in block) for block in members)
        except TypeError:
            raise ValueError(f"blocks must be lists of whole numbers, not {members!r}") from None
        flat = sorted(i for block in blocks for i in block)
        if not blocks or any(not block for block in blocks) or flat != list(range(len(flat))):
            raise ValueError(f"blocks must be non-empty lists that hold 0 .. n-1, each number once, not {list(blocks)}")
        return cls(blocks)

    @classmethod
    def _cut(cls, order: Sequence[int], n: int, num_blocks: int) -> Blocks:
        _check_count(n, num_blocks)
        base, extra = divmod(n, num_blocks)
        starts = [b * base + min(b, extra) for b in range(num_blocks + 1)]
        return cls(tuple(tuple(order[a:z]) for a, z in pairwise(starts)))

    @property
    def members(self) -> list[list[int]]:
        """The elements of each block."""
        return [list(block) for block in self._members]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """n_b, the number of elements of each block."""
        return tuple(len(block) for block in self._members)

    @property
    def n(self) -> int:
        """N, the number of elements."""
        return sum(self.sizes)

    @property
    def is_balanced(self) -> bool:
        """Whether no two sizes differ by more than one."""
        return max(self.sizes) - min(self.sizes) <= 1

    def gather(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[..., n] -> the values [..., block, slot] and the bool mask [block, slot] of the slots that exist."""
        if x.shape[-1:] != (self.n,):
            raise ValueError(
                f"x must have {self.n} elements on its last axis to fit the blocks, not shape {tuple(x.shape)}"
            )
        index, mask = self._table
        return x[..., index.to(x.device)], mask.to(x.device)

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        import torch

        width = max(self.sizes)
        filled = [[*block, *[block[0]] * (width - len(block))] for block in self._members]
        index = torch.tensor(filled, device="cpu")
        mask = torch.arange(width, device="cpu") < torch.tensor(self.sizes, device="cpu")[:, None]
        return index, mask


def supports_budget(sizes: Sequence[int], n: int, arbitrary: int | None, replaced: int | None, declared: bool) -> bool:
    """z_block of alg:rovr_gspo: whether a partition carries its declared budgets (q, s).

    The five conditions: failure unit and budgets declared; B > 1 and B ≥ 2q+1; min n_b ≥ 2s+1; Σ n_b = n; balanced.
    """
    if not declared or arbitrary is None or replaced is None:
        return False
    enough_blocks = len(sizes) > 1 and len(sizes) >= 2 * arbitrary + 1
    return enough_blocks and min(sizes) >= 2 * replaced + 1 and sum(sizes) == n and max(sizes) - min(sizes) <= 1


@lru_cache(maxsize=256)
def _fixed_permutation(n: int) -> tuple[int, ...]:
    """What torch.randperm gives on the CPU under the fixed seed, without torch: Fisher and Yates with the same generator."""
    drawn = np.random.RandomState(FIXED_SEED).randint(0, 2**32, n, dtype=np.uint32).tolist()
    order = list(range(n))
    for i in range(n - 1):
        other = i + drawn[i] % (n - i)
        order[i], order[other] = order[other], order[i]
    return tuple(order)


def _check_count(n: int, num_blocks: int) -> None:
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    if not 1 <= num_blocks <= n:
        raise ValueError(f"num_blocks must be between 1 and n = {n}, not {num_blocks}")
