"""What a spike or a burst of token log-ratios does to a sequence weight and its clip branch (sec:softrovr_token_stress).

Only the blocks that a perturbation touches are solved again; a test proves that equal to solving all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rovrl.config import RatioChannel
from rovrl.diagnostics import branch_flips, displacement
from rovrl.output.intervals import bootstrap
from rovrl.robust.centers import sandwich_scale, smooth_median
from rovrl.robust.soft.eager import contiguous_layout
from rovrl.robust.soft.unrolled import outer_map
from rovrl.robust.solve import m_root
from rovrl.weight import gspo_mean, soft_rovr
from rovrl_paper.stress.recorded import RecordedResponses

SPIKES = (0.0, 2.0, 4.0, 8.0, 16.0)
BURSTS = (0.0, 0.01, 0.05, 0.10, 0.20)
BURST_SIGMA = 8.0
POSITIONS = 5
WEIGHTS = {"gspo": "GSPO (mean)", "softrovr": "SoftRoVR", "robust": "SoftRoVR, robust units"}
"""Sequence weight -> its title."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Condition:
    """One severity in one direction: a single token moved by severity·σ, or a burst of severity·T tokens by 8σ."""

    kind: str
    severity: float
    sign: int


def conditions(spikes: Sequence[float] = SPIKES, bursts: Sequence[float] = BURSTS) -> list[Condition]:
    """Spikes and bursts of every severity in both directions."""
    both = [("spike", s) for s in spikes] + [("burst", s) for s in bursts]
    return [Condition(kind, severity, sign) for kind, severity in both for sign in (1, -1)]


def draw_positions(
    responses: int, generator: torch.Generator, positions: int = POSITIONS
) -> Float[Tensor, "seq position"]:
    """Where to perturb, as shares in [0, 1) of what is possible: shared by methods, severities and signs."""
    return torch.rand(responses, positions, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Perturbation:
    """Token intervals [start, stop) and the shift added there, one per (response, position)."""

    start: Int[Tensor, "seq position"]
    stop: Int[Tensor, "seq position"]
    shift: Float[Tensor, " seq"]


def perturbation(
    responses: RecordedResponses, condition: Condition, places: Float[Tensor, "seq position"]
) -> Perturbation:
    """The protocol's intervals: σ is the population standard deviation of a response's own log-ratios."""
    length = responses.length.unsqueeze(-1)
    sigma = log_ratio_sd(responses)
    if condition.kind == "spike":
        count = torch.ones_like(length)
        shift = condition.sign * condition.severity * sigma
    else:
        count = (condition.severity * length).ceil().long()
        shift = condition.sign * BURST_SIGMA * sigma
    start = (places * (length - count + 1)).floor().long().clamp(min=0)
    return Perturbation(start, torch.minimum(start + count, length), shift)


def log_ratio_sd(responses: RecordedResponses) -> Float[Tensor, " seq"]:
    """σ_ℓ, the population standard deviation of each response's token log-ratios; 0 for none."""
    mask = responses.mask
    mean = gspo_mean(responses.log_ratios, mask)
    square = torch.where(mask, (responses.log_ratios - mean.unsqueeze(-1)) ** 2, 0.0).sum(-1)
    return (square / responses.length.clamp(min=1)).sqrt()


class SoftWeights:
    """SoftRoVR of many perturbations of the same responses; clean blocks are solved once."""

    def __init__(self, responses: RecordedResponses, channel: RatioChannel) -> None:
        self.responses, self.channel = responses, channel
        self.layout = contiguous_layout(responses.mask, channel.num_blocks, channel.min_block)
        self.sizes = self.layout.sizes
        self.starts = self.sizes.cumsum(-1) - self.sizes
        values = self.layout.gather(responses.log_ratios)
        self.centers, self.scales = self._solve(values, self.layout.mask)
        self.clean = self._outer(self.centers, self.scales, self.sizes)

    def perturbed(self, change: Perturbation) -> Float[Tensor, "seq position"]:
        """The log weights after each perturbation."""
        seq, positions = change.start.shape
        blocks = self.sizes.shape[-1]
        first, last = self.starts.unsqueeze(1), (self.starts + self.sizes).unsqueeze(1)
        touched = (
            (first < change.stop.unsqueeze(-1)) & (last > change.start.unsqueeze(-1)) & (self.sizes > 0).unsqueeze(1)
        )
        row, place, block = touched.nonzero(as_tuple=True)
        token = self.starts[row, block].unsqueeze(-1) + torch.arange(self.layout.mask.shape[-1])
        keep = self.layout.mask[row, block]
        values = self.responses.log_ratios[row.unsqueeze(-1), token.clamp(max=self.responses.log_ratios.shape[-1] - 1)]
        hit = (token >= change.start[row, place].unsqueeze(-1)) & (token < change.stop[row, place].unsqueeze(-1))
        values = values + hit * change.shift[row].unsqueeze(-1)
        centers = self.centers.unsqueeze(1).repeat(1, positions, 1)
        scales = self.scales.unsqueeze(1).repeat(1, positions, 1)
        centers[row, place, block], scales[row, place, block] = self._solve(values, keep)
        sizes = self.sizes.unsqueeze(1).expand(seq, positions, blocks)
        return self._outer(centers.flatten(0, 1), scales.flatten(0, 1), sizes.flatten(0, 1)).view(seq, positions)

    def _solve(self, values: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        channel = self.channel
        centers = m_root(values, channel.score_width, keep)
        scales = sandwich_scale(
            values, centers, channel.score_width, keep, channel.curvature_floor, channel.regularizer
        )
        return centers, scales

    def _outer(self, centers: Tensor, scales: Tensor, sizes: Tensor) -> Tensor:
        return outer_map(centers, scales, sizes.to(centers.dtype), self.channel, smooth_median)


def recomputed(
    responses: RecordedResponses, change: Perturbation, channel: RatioChannel
) -> Float[Tensor, "seq position"]:
    """The same log weights from scratch: every block of every perturbed response solved again."""
    token = torch.arange(responses.log_ratios.shape[-1])
    hit = (token >= change.start.unsqueeze(-1)) & (token < change.stop.unsqueeze(-1))
    moved = responses.log_ratios.unsqueeze(1) + hit * change.shift[:, None, None]
    mask = responses.mask.unsqueeze(1).expand(moved.shape)
    return soft_rovr(moved, mask, channel)


@torch.no_grad()
def stress(
    responses: RecordedResponses,
    todo: Sequence[Condition],
    channel: RatioChannel,
    places: Float[Tensor, "seq position"],
) -> dict[str, Float[Tensor, "condition prompt"]]:
    """Per condition and prompt, for "gspo", "softrovr" and "robust" (units="robust"): D_q and the share of branch flips.

    Keys `D_q/<method>` and `flips/<method>`. Positions are averaged within a response, responses within a prompt. `places`
    belongs to the responses in the order of `responses.pieces()`.
    """
    prompts, number = responses.prompt.unique(return_inverse=True)
    count = torch.bincount(number, minlength=len(prompts)).double()
    total = {
        f"{m}/{w}": torch.zeros(len(todo), len(prompts), dtype=torch.float64) for m in ("D_q", "flips") for w in WEIGHTS
    }
    done = 0
    for piece in responses.pieces():
        here = torch.searchsorted(prompts, piece.prompt)
        where = places[done : done + len(here)]
        done += len(here)
        for k, values in enumerate(_piece(piece, todo, channel, where)):
            for name, value in values.items():
                total[name][k].index_add_(0, here, value)
    return {name: value / count for name, value in total.items()}


def _piece(
    piece: RecordedResponses, todo: Sequence[Condition], channel: RatioChannel, places: Tensor
) -> Iterator[dict[str, Tensor]]:
    soft = SoftWeights(piece, channel)
    own_units = RatioChannel.from_dict(channel.to_dict() | {"units": "robust"})
    mean = gspo_mean(piece.log_ratios, piece.mask)
    clean = {"gspo": mean, "softrovr": soft.clean, "robust": soft_rovr(piece.log_ratios, piece.mask, own_units)}
    for condition in todo:
        change = perturbation(piece, condition, places)
        width = (change.stop - change.start).double()
        after = {
            "gspo": mean.unsqueeze(-1) + change.shift.unsqueeze(-1) * width / piece.length.clamp(min=1).unsqueeze(-1),
            "softrovr": soft.perturbed(change),
            "robust": recomputed(piece, change, own_units),
        }
        found = {}
        advantage = piece.advantage.unsqueeze(-1).expand(places.shape)
        for method, weight in after.items():
            before = clean[method].unsqueeze(-1).expand(places.shape)
            found[f"D_q/{method}"] = displacement(weight, before).mean(-1)
            flips = branch_flips(weight, before, advantage, piece.clip_low, piece.clip_high)
            found[f"flips/{method}"] = flips.double().mean(-1)
        yield found


def rows_for(
    responses: RecordedResponses, condition: Condition, places: torch.Tensor, draws: torch.Tensor
) -> list[Row]:
    """The rows of one condition: D_q and flips, means over prompts with prompt-cluster intervals."""
    found = stress(responses, [condition], RatioChannel(), places)
    rows = []
    for metric in ("D_q", "flips"):
        value = {method: found[f"{metric}/{method}"][0] for method in WEIGHTS}
        row: Row = {
            "perturbation": condition.kind,
            "severity": condition.severity,
            "sign": condition.sign,
            "metric": metric,
        }
        for name, values in (*value.items(), ("difference", value["gspo"] - value["softrovr"])):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = bootstrap(values, draws)
        rows.append(row)
    return rows
