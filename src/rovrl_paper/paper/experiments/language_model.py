"""beyond:language_model: the token stress on the log-ratios of a real language model, SmolLM2-135M-Instruct.

The protocol of tab:softrovr_local_stress and fig:softrovr_cross_step on the records of the dual-channel runs with clean rewards
that `rovrl train --sweep smollm2` makes: generation by generation, the seeds together, and all generations together. The
responses are short (12 tokens, so three blocks of four; a burst of 20 % is two tokens), the paper's have hundreds of tokens:
what can be compared is the direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rovrl.errors import RovrlError
from rovrl.output.intervals import shared_draws
from rovrl_paper.paper.experiments import cross_step
from rovrl_paper.paper.experiments.token_stress import HARMONIC_LENGTH, SIGMA, ZERO_SHARE, direction
from rovrl_paper.paper.item import Bootstrapped, Check, Progress, Row, Table, expected
from rovrl_paper.stress.ratios import draw_positions, rows_for
from rovrl_paper.stress.recorded import RecordedResponses, published_responses, recorded_steps, together

LABEL = "beyond:language_model"
RUNS = Path("results/smollm2-words/runs/words-clean")
COMMAND = "rovrl train --sweep smollm2 --out results/smollm2-words"
ALL = 0
"""The step of the rows that hold all generations together."""


@dataclass(frozen=True)
class Setting(Bootstrapped):
    """The seeds of the sweep, of which the finished ones count, and 5,000 replicates.

    `embedded`: records of a tiny run in their place, for the smoke setting.
    """

    seeds: tuple[int, ...] = (1, 2, 3)
    replicates: int = 5_000
    embedded: bool = False


FULL = Setting()
SMOKE = Setting(seeds=(1,), replicates=50, embedded=True)


def run(setting: Setting, progress: Progress) -> list[Row]:
    """A row for each generation, condition and measure; then all generations together, and how sparse the log-ratios are."""
    generator = torch.Generator().manual_seed(setting.seed)
    by_step: dict[int, list[RecordedResponses]] = {}
    runs = records(setting)
    for place in runs:
        for step, responses in recorded_steps(place):
            by_step.setdefault(step, []).append(responses)
    steps = {step: together(parts) for step, parts in sorted(by_step.items())}
    everything = together(list(steps.values()))
    rows = []
    for done, (step, responses) in enumerate([*steps.items(), (ALL, everything)]):
        draws = shared_draws(len(responses.prompt.unique()), setting.replicates, generator)
        places = draw_positions(len(responses.length), generator)
        for condition in cross_step.CONDITIONS:
            rows += [{"step": step} | row for row in rows_for(responses, condition, places, draws)]
        progress(done + 1, len(steps) + 1)
    drawn = published_responses(64, 16, SIGMA, ZERO_SHARE, HARMONIC_LENGTH, generator)
    return [
        *rows,
        {"step": ALL, "metric": "runs", "value": len(runs)},
        {"step": ALL, "metric": "sparsity", "stream": "recorded", "value": sparsity(everything)},
        {"step": ALL, "metric": "sparsity", "stream": "calibrated", "value": sparsity(drawn)},
    ]


def records(setting: Setting) -> list[Path]:
    """The records of each seed whose run is finished, or a RovrlError with the command that makes them."""
    if setting.embedded:
        return [cross_step.records(cross_step.SMOKE)]
    places = [RUNS / f"{cross_step.METHOD}-seed{seed}" for seed in setting.seeds]
    found = [place / "records" for place in places if (place / "result.json").exists()]
    if not found:
        raise RovrlError(f"{places[0]} holds no finished run; make the runs first (hours): {COMMAND}")
    return found


def sparsity(responses: RecordedResponses) -> float:
    """The mean over moved responses of the share of Σ|ℓ| that a tenth of the tokens carries, the largest ones (rounded up)."""
    size = responses.log_ratios.abs().sort(-1, descending=True).values
    total = size.sum(-1)
    count = (responses.length / 10).ceil().long()
    largest = torch.arange(size.shape[-1]) < count.unsqueeze(-1)
    return float(((size * largest).sum(-1) / total)[total > 0].mean())


def tables(rows: list[Row]) -> dict[str, Table]:
    """The strongest spike and burst in both directions, and at how many generations SoftRoVR moves less."""
    steps = len({r["step"] for r in rows} - {ALL})
    body = []
    for c in cross_step.CONDITIONS:
        for metric, unit, name in (("D_q", 1e3, "D_q (1e-3)"), ("flips", 100, "Flips (%)")):
            mine = cross_step.of(rows, c, metric)
            (row,) = [r for r in mine if r["step"] == ALL]
            favour = sum(r["difference"] > 0 for r in mine if r["step"] != ALL)
            low, high = (f"{unit * row[f'difference_{end}']:.2f}" for end in ("low", "high"))
            difference = f"{unit * row['difference']:.2f} [{low}, {high}]"
            numbers = [f"{unit * row[m]:.2f}" for m in ("gspo", "softrovr")]
            what = f"Spike {c.severity:g}σ" if c.kind == "spike" else f"Burst {c.severity:.0%}"
            body.append([what, "+" if c.sign > 0 else "-", name, *numbers, difference, f"{favour}/{steps}"])
    header = [
        "Perturbation",
        "Sign",
        "Metric",
        "GSPO",
        "SoftRoVR",
        "Difference [95 % CI]",
        "Generations favouring SoftRoVR",
    ]
    return {LABEL: Table(header, body, "Paired token-ratio stress on the records of SmolLM2-135M-Instruct.")}


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Another model, the same estimands: the directions of D_q, and of the flips under spikes."""
    found = []
    for p in expected("token_stress")["tab:softrovr_local_stress"]:
        if p["metric"] == "D_q" or p["perturbation"] == "spike":
            name = ("perturbation", "severity", "sign", "metric")
            (row,) = [r for r in rows if r["step"] == ALL and all(r.get(k) == p[k] for k in name)]
            cell = (
                f"{p['perturbation']} {p['severity']:g} {'+' if p['sign'] > 0 else '-'}, {p['metric']}, GSPO - SoftRoVR"
            )
            found.append(direction(cell, row, p["difference"]))
    return {LABEL: found}


def findings(rows: list[Row]) -> dict[str, list[str]]:
    """How many runs were recorded, and how sparse their log-ratios are beside normal ones."""
    share = {r["stream"]: r["value"] for r in rows if r["metric"] == "sparsity"}
    (runs,) = [int(r["value"]) for r in rows if r["metric"] == "runs"]
    sentence = (
        f"{runs} recorded run{'s' * (runs != 1)}; the largest tenth of the tokens carries {share['recorded']:.0%} of a "
        f"response's summed |log-ratio|, against {share['calibrated']:.0%} in the calibrated stream, whose log-ratios are "
        "normal and whose responses are longer."
    )
    return {LABEL: [sentence]}


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """Differences over generations."""
    return {LABEL: lambda rows: cross_step.draw([r for r in rows if r["step"] != ALL], "generation (SmolLM2-135M)")}
