"""Where the blocks of each row lie: balanced, contiguous over the valid elements in order, holes or not (compiled).

A block with holes is still a stretch of its row, in which the holes weigh nothing: no element is ever moved.
"""

from __future__ import annotations

import numpy as np

from rovrl.robust.kernels.jit import entry, helper, vectorised

STRIDE = 64  # mask bytes looked at together
PARTIAL = 32768  # mask bytes a 16-bit counter can hold


@vectorised
def _count(keep):
    count = 0
    for i in range(0, keep.size, PARTIAL):
        part = np.uint16(0)
        for flag in keep[i : i + PARTIAL]:
            part = np.uint16(part + flag)
        count += part
    return count


@helper
def _behind(keep, place, more):
    """The place just behind the next `more` kept elements from `place` on."""
    found = _count(keep[place : place + STRIDE])
    while found < more:
        place += STRIDE
        more -= found
        found = _count(keep[place : place + STRIDE])
    while more > 0:
        more -= keep[place]
        place += 1
    return place


@entry
def cut_rows(keep, place, length, num_blocks, min_block, sizes, edges, dense):
    """Fills per row n_b, the edges of its blocks, and whether it is free of holes; returns whether all rows are.

    Row i's mask is keep[place[i] : place[i] + length[i]]. B = min(num_blocks, T // min_block), at least 1, and the first
    T mod B blocks have one element more; blocks beyond B have size 0 and lie behind the last element.
    """
    all_dense = True
    for row in range(place.size):
        held = keep[place[row] : place[row] + length[row]]
        count = _count(held)
        edge = 0
        dense[row] = _count(held[:count]) == count  # right-padded, the usual case
        if not dense[row]:
            edge = _behind(held, 0, 1) - 1
            dense[row] = _count(held[edge : edge + count]) == count
            all_dense = all_dense and dense[row]
        used = count // min_block
        used = num_blocks if used > num_blocks else used
        used = 1 if used < 1 else used
        edges[row, 0] = edge
        for b in range(num_blocks):
            size = 0 if b >= used else count // used + (b < count % used)
            edge = edge + size if dense[row] else _behind(held, edge, size)
            sizes[row, b] = size
            edges[row, b + 1] = edge
    return all_dense


def cut_whole(length: np.ndarray, num_blocks: int, min_block: int) -> tuple[np.ndarray, np.ndarray]:
    """The same sizes and edges for rows without a mask, from their lengths alone."""
    used = np.clip(length // min_block, 1, num_blocks)[:, None]
    block = np.arange(num_blocks)
    sizes = np.where(block < used, length[:, None] // used + (block < length[:, None] % used), 0)
    edges = np.concatenate([np.zeros_like(length)[:, None], sizes.cumsum(1)], axis=1)
    return sizes, edges
