"""`rovrl stress rollouts`: what a sum, a mean and SoftRoVR of log π_old - log π_rollout see in responses of known trouble.

Most tokens of a healthy response agree to a few thousandths, and a few do not (the sampler rounded where two words were
close): 97 % N(0, 0.005²), 3 % N(0, 0.5²), each shifted by -σ²/2 so that the ratio of a token is 1 on average, as it must be
where the sampler's own tokens are weighed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from rovrl.weight import gspo_mean, soft_rovr

USUAL, FEW, SHARE = 0.005, 0.5, 0.03
LENGTHS = (64, 512, 4096)
MIDDLE = 512
FALSE_ALARMS = 0.05
RESPONSES = 400
SHIFT, OPPOSITE, PASSAGE, JUMP = -0.01, 0.1, -0.5, -6.0

STATISTICS: Mapping[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "sum": ("sum", lambda x: x.sum(-1)),
    "mean": ("mean", gspo_mean),
    "soft_rovr": ("SoftRoVR", soft_rovr),
    "k3": ("mean k3", lambda x: gspo_mean(x.exp() - 1 - x)),
}
"""Name -> title, and what becomes of a response's log-ratios [response, token]; k3 is verl's divergence, not a location."""


def healthy(responses: int, tokens: int, generator: torch.Generator) -> Tensor:
    """Log-ratios [response, token] of engines that differ by rounding alone."""
    few = torch.rand(responses, tokens, generator=generator, dtype=torch.float64) < SHARE
    sd = torch.where(few, FEW, USUAL)
    return sd * torch.randn(responses, tokens, generator=generator, dtype=torch.float64) - sd**2 / 2


def _passage(x: Tensor) -> Tensor:
    place, start, length = torch.arange(x.shape[1]), x.shape[1] // 3, x.shape[1] // 20
    return x + torch.where((place >= start) & (place < start + length), PASSAGE, 0.0)


def _jump(x: Tensor) -> Tensor:
    return x + torch.where(torch.arange(x.shape[1]) == x.shape[1] // 2, JUMP, 0.0)


def _opposite(x: Tensor) -> Tensor:
    return x + OPPOSITE * (1 - 2 * (torch.arange(x.shape[1]) % 2))


TROUBLES: Mapping[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "everywhere": (f"every token {SHIFT:g} (weights too old, another temperature)", lambda x: x + SHIFT),
    "opposite": (f"every token {OPPOSITE:g} up or down in turn", _opposite),
    "passage": (f"a passage, 5 % of the tokens, {PASSAGE:g} each", _passage),
    "jump": (f"one token {JUMP:g} (the policy would hardly ever say it)", _jump),
}


class Row(NamedTuple):
    """What one statistic makes of healthy and of troubled responses."""

    statistic: str
    spread: dict[int, float]
    """Standard deviation over healthy responses, by length."""
    alarms: dict[int, float]
    """Share of healthy responses beyond the bound, by length."""
    found: dict[str, float]
    """Share of troubled responses of the middle length beyond the bound."""


def measure(responses: int = RESPONSES, seed: int = 20250904) -> list[Row]:
    """A row per statistic; its bound leaves out 5 % of the healthy responses of the middle length."""
    generator = torch.Generator().manual_seed(seed)
    samples = {tokens: healthy(responses, tokens, generator) for tokens in LENGTHS}
    rows = []
    for name, (_, statistic) in STATISTICS.items():
        values = {tokens: statistic(x) for tokens, x in samples.items()}
        low, high = (float(values[MIDDLE].quantile(q)) for q in (FALSE_ALARMS / 2, 1 - FALSE_ALARMS / 2))

        def beyond(value: Tensor, low: float = low, high: float = high) -> float:
            return float(((value < low) | (value > high)).double().mean())

        rows.append(
            Row(
                name,
                {tokens: float(value.std()) for tokens, value in values.items()},
                {tokens: beyond(value) for tokens, value in values.items()},
                {trouble: beyond(statistic(change(samples[MIDDLE]))) for trouble, (_, change) in TROUBLES.items()},
            )
        )
    return rows


def table(rows: list[Row], responses: int) -> str:
    """The rows as Markdown."""
    lengths = [f"{tokens} tokens" for tokens in LENGTHS]
    lines = [
        f"{responses} responses each; the bounds of a statistic leave out {FALSE_ALARMS:.0%} of the healthy responses of "
        f"{MIDDLE} tokens.\n",
        f"| | {' | '.join(STATISTICS[row.statistic][0] for row in rows)} |",
        "|---" * (len(rows) + 1) + "|",
    ]
    for tokens, title in zip(LENGTHS, lengths, strict=True):
        lines.append(f"| spread, healthy, {title} | {' | '.join(f'{row.spread[tokens]:.2g}' for row in rows)} |")
    for tokens, title in zip(LENGTHS, lengths, strict=True):
        lines.append(f"| left out, healthy, {title} | {' | '.join(f'{row.alarms[tokens]:.0%}' for row in rows)} |")
    for trouble, (title, _) in TROUBLES.items():
        lines.append(f"| left out, {title} | {' | '.join(f'{row.found[trouble]:.0%}' for row in rows)} |")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl stress rollouts`."""
    parser.add_argument("--seed", type=int, default=20250904, help="of the simulated responses (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the table; 0."""
    rows = measure(RESPONSES, args.seed)
    print(json.dumps([row._asdict() for row in rows], indent=1) if args.json else table(rows, RESPONSES))
    return 0
