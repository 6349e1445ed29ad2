"""What the stress tests take: reward groups and the token log-ratios of a step, recorded, or drawn to match published facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rovrl.errors import RovrlError
from rovrl.records import read_steps

PIECE = 128
"""Responses in a piece."""


@dataclass(frozen=True)
class RecordedResponses:
    """Recorded responses: valid token log-ratios, padded on the right with 0."""

    log_ratios: Float[Tensor, "seq token"]
    length: Int[Tensor, " seq"]
    prompt: Int[Tensor, " seq"]
    """Number of the prompt group; the unit of averaging and of the bootstrap."""
    advantage: Float[Tensor, " seq"]
    clip_low: float
    clip_high: float

    @property
    def mask(self) -> Tensor:
        """Which tokens exist."""
        return torch.arange(self.log_ratios.shape[-1]) < self.length.unsqueeze(-1)

    def pieces(self) -> Iterator[RecordedResponses]:
        """The same in pieces of similar length, so that short responses do not pay for long ones."""
        for chosen in self.length.argsort(stable=True).split(PIECE):
            width = max(1, int(self.length[chosen].max()))
            yield RecordedResponses(
                self.log_ratios[chosen, :width],
                self.length[chosen],
                self.prompt[chosen],
                self.advantage[chosen],
                self.clip_low,
                self.clip_high,
            )


@dataclass(frozen=True)
class RewardGroups:
    """Complete groups of one size, and what was left out."""

    rewards: Tensor
    left_out: int
    """Groups of another size, or with a reward that is not a number."""


def reward_groups(path: Path) -> RewardGroups:
    """All complete groups of the commonest size in a record set; each response counts once, whatever its updates."""
    groups: dict[tuple[int, str], dict[int, float]] = {}
    for step, table in read_steps(path, ["group", "response", "reward"]):
        columns = (table["group"].to_pylist(), table["response"].to_pylist(), table["reward"].to_pylist())
        for group, response, reward in zip(*columns, strict=True):
            groups.setdefault((step, group), {})[response] = float("nan") if reward is None else reward
    whole = [list(g.values()) for g in groups.values() if np.isfinite(list(g.values())).all()]
    if not whole:
        raise RovrlError(f"no group in {path} has only finite rewards; is it a record set of rovrl train?")
    sizes, counts = np.unique([len(g) for g in whole], return_counts=True)
    size = int(sizes[counts.argmax()])
    kept = [g for g in whole if len(g) == size]
    if size < 3:
        raise RovrlError(f"the groups in {path} have {size} responses; contrast among the clean ones needs at least 3")
    return RewardGroups(torch.tensor(kept, dtype=torch.float64), len(groups) - len(kept))


def recorded_steps(path: Path, report=None) -> Iterator[tuple[int, RecordedResponses]]:
    """(step, responses) of every recorded step that has token log-ratios, one step in memory at a time."""
    columns = ["group", "advantage", "length", "clip_low", "clip_high", "log_ratios"]
    for step, table in read_steps(path, columns, report):
        chosen = table.filter(table["log_ratios"].is_valid())
        if chosen.num_rows:
            yield step, _responses(chosen)


def together(parts: Sequence[RecordedResponses]) -> RecordedResponses:
    """The responses of several steps or runs as one set; a prompt of one part is not that of another."""
    width = max(part.log_ratios.shape[-1] for part in parts)
    padded = [torch.nn.functional.pad(part.log_ratios, (0, width - part.log_ratios.shape[-1])) for part in parts]
    first = np.cumsum([0, *(int(part.prompt.max()) + 1 for part in parts)]).tolist()
    return RecordedResponses(
        torch.cat(padded),
        torch.cat([part.length for part in parts]),
        torch.cat([part.prompt + start for part, start in zip(parts, first, strict=False)]),
        torch.cat([part.advantage for part in parts]),
        parts[0].clip_low,
        parts[0].clip_high,
    )


def _responses(table) -> RecordedResponses:
    ratios = table["log_ratios"].combine_chunks()
    offsets = np.asarray(ratios.offsets)
    length = torch.from_numpy(np.diff(offsets).astype(np.int64))
    flat = torch.from_numpy(np.array(ratios.values, dtype=np.float64))
    padded = torch.zeros(len(length), max(1, int(length.max())), dtype=torch.float64)
    padded[torch.arange(padded.shape[-1]) < length.unsqueeze(-1)] = flat[int(offsets[0]) : int(offsets[-1])]
    names = {name: k for k, name in enumerate(dict.fromkeys(table["group"].to_pylist()))}
    prompt = torch.tensor([names[g] for g in table["group"].to_pylist()])
    advantage = torch.from_numpy(np.array(table["advantage"].to_numpy(), dtype=np.float64))
    low, high = (float(table[c][0].as_py()) for c in ("clip_low", "clip_high"))
    return RecordedResponses(padded, length, prompt, advantage, low, high)


def published_responses(
    prompts: int, group: int, sigma: float, zero_share: float, harmonic_length: float, generator: torch.Generator
) -> RecordedResponses:
    """A token stream with the published facts: mean σ_ℓ, share of zero-scale responses, and lengths by their harmonic mean.

    Gaussian tokens about a small common drift; log-normal lengths. What the paper does not publish (the shape of the
    distributions, the advantages) is our assumption.
    """
    n = prompts * group
    raw = torch.exp(0.5 * torch.randn(n, generator=generator, dtype=torch.float64))
    length = (raw * harmonic_length * float((1 / raw).mean())).round().long().clamp(16, 8192)
    moving = torch.rand(n, generator=generator, dtype=torch.float64) >= zero_share
    scale = torch.where(moving, sigma / (1 - zero_share), 0.0)
    width = int(length.max())
    noise = torch.randn(n, width, generator=generator, dtype=torch.float64) * scale.unsqueeze(-1)
    noise = torch.where(torch.arange(width) < length.unsqueeze(-1), noise, 0.0)
    drift = 3e-4 * torch.randn(n, generator=generator, dtype=torch.float64) * moving
    noise = noise + torch.where(torch.arange(width) < length.unsqueeze(-1), drift.unsqueeze(-1), 0.0)
    advantage = torch.randn(n, generator=generator, dtype=torch.float64)
    prompt = torch.arange(prompts).repeat_interleave(group)
    return RecordedResponses(noise, length, prompt, advantage, 3e-4, 4e-4)
