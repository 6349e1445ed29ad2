"""The ratio side: GSPO's mean and SoftRoVR of every response's token log-ratios, and what they do to clip branches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.config import CLIP_HIGH, CLIP_LOW, RatioChannel
from rovrl.output.progress import Progress

BURST_TIMES = 20.0
"""A response's log weight counts as burst-like from this many times the run's usual size on, ..."""
BURST_SHARE = 0.5
"""... if SoftRoVR removes at least this share of it."""
PADDED = 2**21
"""Numbers in one padded batch of token log-ratios."""


@dataclass
class RatioTable:
    """One entry per response and update that has token log-ratios."""

    group: NDArray[np.int64]
    """-1 where the response belongs to no audited group."""
    step: NDArray[np.int64]
    length: NDArray[np.int64]
    mean: Array
    """GSPO's log weight."""
    soft: Array
    """SoftRoVR's."""
    advantage: Array
    low: Array
    high: Array
    """The clip band of the weight: [1 - low, 1 + high]."""
    nonfinite: int = 0
    """Tokens whose log-ratio is not a finite number; they are left out."""

    def branch(self, log_weight: Array) -> NDArray[np.int64]:
        """+1 upper-clipped, -1 lower-clipped, 0 active: eq:clipping_branch_derivative."""
        weight = np.exp(np.minimum(log_weight, 20.0))
        upper = (self.advantage > 0) & (weight > 1 + self.high)
        lower = (self.advantage < 0) & (weight < 1 - self.low)
        return upper.astype(np.int64) - lower

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Responses that SoftRoVR puts on another clip branch."""
        return self.branch(self.mean) != self.branch(self.soft)

    @property
    def disagreement(self) -> float:
        """Σ|SoftRoVR - mean| / Σ|mean|, as rovrl.diagnostics.weight_disagreement."""
        moved = float(np.abs(self.mean).sum())
        return float(np.abs(self.soft - self.mean).sum()) / moved if moved else 0.0

    @property
    def bursts(self) -> NDArray[np.bool_]:
        """Responses whose mean is far beyond the run's usual and mostly made by a few tokens."""
        size = np.abs(self.mean)
        usual = np.median(size[size > 0]) if (size > 0).any() else 0.0
        band = np.maximum(self.low, self.high)
        return (size > BURST_TIMES * np.maximum(usual, band)) & (np.abs(self.mean - self.soft) > BURST_SHARE * size)


def ratio_table(
    reader: Reader,
    rollouts: Rollouts,
    grpo: Array,
    channel: RatioChannel,
    band: tuple[float, float] | None,
    notes: Notes,
    progress: Progress,
) -> RatioTable | None:
    """The ratio side of a run, read in a second pass; None where no token log-ratios were saved.

    Branches need an advantage: the run's own where it is logged, else `grpo` (per response, in the order of `rollouts`).
    """
    find = _Finder(rollouts, by_label=reader.row_per_update)
    parts: list[dict[str, NDArray]] = []
    nonfinite = 0
    want = frozenset({"reward", "advantage", "tokens"})
    for number, file in enumerate(rollouts.files):
        progress(number, len(rollouts.files), "token log-ratios")
        for chunk in reader.chunks(file, want, Notes()):
            if chunk.log_ratios is None:
                continue
            part, bad = _one_chunk(chunk, find, number, grpo, channel, band)
            nonfinite += bad
            parts.append(part)
    progress(len(rollouts.files), len(rollouts.files), "token log-ratios")
    parts = [part for part in parts if len(part["mean"])]
    if not parts:
        return None
    notes.count("nonfinite_ratios", "{n} token log-ratios are not finite numbers and were left out", nonfinite)
    return RatioTable(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, nonfinite=nonfinite
    )


def weights(rows: list[Array], channel: RatioChannel) -> tuple[Array, Array]:
    """GSPO's mean and SoftRoVR of each row of tokens; padded together with rows of like length."""
    mean, soft = np.zeros(len(rows)), np.zeros(len(rows))
    if not rows:
        return mean, soft
    import torch  # only where there are tokens: it takes seconds to import

    from rovrl.weight import gspo_mean, soft_rovr

    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * max(len(rows[order[stop]]), 1) <= PADDED:
            stop += 1
        members = order[start:stop]
        width = max(len(rows[members[-1]]), 1)
        padded, mask = np.zeros((len(members), width)), np.zeros((len(members), width), dtype=bool)
        for place, member in enumerate(members):
            padded[place, : len(rows[member])] = rows[member]
            mask[place, : len(rows[member])] = True
        x, keep = torch.from_numpy(padded), torch.from_numpy(mask)
        with torch.no_grad():
            mean[members] = gspo_mean(x, keep).numpy()
            soft[members] = soft_rovr(x, keep, channel).numpy()
        start = stop
    return mean, soft


def _one_chunk(
    chunk: Chunk, find: _Finder, number: int, grpo: Array, channel: RatioChannel, band: tuple[float, float] | None
) -> tuple[dict[str, NDArray], int]:
    have = np.array([row is not None and len(row) > 0 for row in chunk.log_ratios or []], dtype=bool)
    finite = [row[np.isfinite(row)] for row in chunk.log_ratios or [] if row is not None and len(row)]
    bad = sum(len(row) for row in chunk.log_ratios or [] if row is not None) - sum(map(len, finite))
    mean, soft = weights(finite, channel)
    group, response = find(chunk, number)
    computed = np.where(response >= 0, grpo[response], np.nan)
    advantage = (
        np.where(np.isnan(chunk.advantage), computed, chunk.advantage) if chunk.advantage is not None else computed
    )
    clip = (
        np.tile(np.array(band or (CLIP_LOW, CLIP_HIGH)), (len(chunk), 1)) if band or chunk.clip is None else chunk.clip
    )
    return {
        "group": group[have],
        "step": chunk.step[have],
        "length": np.array([len(row) for row in finite], dtype=np.int64),
        "mean": mean,
        "soft": soft,
        "advantage": advantage[have],
        "low": clip[have, 0],
        "high": clip[have, 1],
    }, bad


class _Finder:
    """Group and response of a row of the second pass: by its place in the file, or by step and label."""

    def __init__(self, rollouts: Rollouts, by_label: bool) -> None:
        self.rollouts = rollouts
        if by_label:
            labels = zip(rollouts.step.tolist(), rollouts.label.to_pylist(), strict=True)
            self.label: dict[tuple[int, str], int] | None = {name: group for group, name in enumerate(labels)}
            return
        self.label = None
        place = _place(rollouts.file, rollouts.row)
        self.order = np.argsort(place)
        self.sorted = place[self.order]

    def __call__(self, chunk: Chunk, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        nowhere = np.full(len(chunk), -1)
        if self.label is not None:
            labels = zip(chunk.step.tolist(), chunk.group.to_pylist(), strict=True)
            return np.array([self.label.get(name, -1) for name in labels], dtype=np.int64), nowhere
        if not len(self.sorted):
            return nowhere, nowhere
        wanted = _place(np.full(len(chunk), number), chunk.row)
        at = np.searchsorted(self.sorted, wanted).clip(max=len(self.sorted) - 1)
        response = np.where(self.sorted[at] == wanted, self.order[at], -1)
        group = np.searchsorted(self.rollouts.start, response, side="right") - 1
        return np.where(response >= 0, group, -1), response


def _place(file: NDArray, row: NDArray) -> NDArray[np.int64]:
    return file.astype(np.int64) * 2**40 + row
