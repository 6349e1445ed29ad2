"""Where the rows of a run stand: their numbers in their files and the numbers of those, in no memory if they follow a rule."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import joined, pieces


@dataclass(frozen=True)
class Consecutive:
    """The numbers start ... stop - 1 in place of an array of them: a million need no memory until they are asked for."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.arange(self.start, self.stop, dtype=dtype)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = range(self.start, self.stop)[index]
            return np.arange(part.start, part.stop, part.step)
        if isinstance(index, int | np.integer):
            return range(self.start, self.stop)[index]
        return np.asarray(self)[index]

    def tolist(self) -> list[int]:
        """All of them."""
        return list(range(self.start, self.stop))


Rows = Consecutive | NDArray[np.int64]
"""Row numbers."""


def shortest(row: Rows) -> Rows:
    """Row numbers without a gap as what needs no memory."""
    if isinstance(row, Consecutive) or row[-1] - row[0] + 1 != len(row):
        return row
    before, after = row[:-1], row[1:]
    together = all((after[part] - before[part] == 1).all() for part in pieces(len(before), 1))
    return Consecutive(int(row[0]), int(row[-1]) + 1) if together else row


def numbered(parts: list[Rows]) -> Rows:
    """The row numbers of all chunks."""
    ends = [(part.start, part.stop) for part in parts if isinstance(part, Consecutive)]
    if parts and len(ends) == len(parts) and all(a[1] == b[0] for a, b in pairwise(ends)):
        return Consecutive(ends[0][0], ends[-1][1])
    return joined([np.asarray(part) for part in parts], np.int64)


def files_of_rows(parts: list[tuple[int, int]]) -> NDArray[np.int32]:
    """The number of the file of each row; of a single file without memory of its own, and not to be written into."""
    numbers, counts = np.array(parts, dtype=np.int64).reshape(-1, 2).T
    numbers = numbers.astype(np.int32)
    if len(numbers) and (numbers == numbers[0]).all():
        return np.broadcast_to(numbers[0], int(counts.sum()))
    return np.repeat(numbers, counts)
