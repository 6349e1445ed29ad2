"""fig:softrovr_cross_step: the paired differences at every recorded step of a real dual-channel run.

Ours is a run of the embedded model, so what must agree is the direction: D_q differences above zero for spikes and bursts in
both directions at every step, and fewer flips under strong spikes. The run has both channels, 64 prompt groups of 16 responses
a step (as many as the paper samples of its 192: ours are all of them), eight updates a step (so that one response in eight
has zero scale, as there), and rewards without planted corruption: the corruption is the stress itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rovrl.errors import RovrlError
from rovrl.output.intervals import shared_draws
from rovrl_paper.paper.item import Bootstrapped, Check, Progress, Row, Table, expected
from rovrl_paper.paper.plot import axes
from rovrl_paper.stress.ratios import Condition, draw_positions, rows_for
from rovrl_paper.stress.recorded import RecordedResponses, recorded_steps

CONDITIONS = [
    Condition(kind, severity, sign) for kind, severity in (("spike", 16.0), ("burst", 0.2)) for sign in (1, -1)
]


@dataclass(frozen=True)
class Setting(Bootstrapped):
    """36 recorded steps of 64 prompt groups and eight updates, 5,000 replicates. `records`: None = make the run."""

    generations: int = 36
    groups: int = 64
    updates: int = 8
    warm_up_steps: int = 400
    replicates: int = 5_000
    records: str | None = None


FULL = Setting()
SMOKE = Setting(generations=2, groups=4, updates=4, warm_up_steps=20, replicates=50)
METHOD = "rovr-gspo"


def run(setting: Setting, progress: Progress) -> list[Row]:
    """A row for each step, condition and measure, over its prompt groups: a seeded sample where `records` has more of them."""
    generator = torch.Generator().manual_seed(setting.seed)
    rows = []
    for step, everything in recorded_steps(records(setting)):
        responses = _sample(everything, setting.groups, generator)
        prompts = len(responses.prompt.unique())
        draws = shared_draws(prompts, setting.replicates, generator)
        places = draw_positions(len(responses.length), generator)
        for condition in CONDITIONS:
            rows += [{"step": step} | r for r in rows_for(responses, condition, places, draws)]
        progress(step, setting.generations)
    if not rows:
        raise RovrlError("the recorded run has no token log-ratios; was it trained with the ratio channel?")
    return rows


def records(setting: Setting) -> Path:
    """The records of the run; it is made on first use by `command`, resumed if it was stopped, and kept for the next."""
    if setting.records is not None:
        return Path(setting.records)
    from rovrl_paper.lab import embedded_command
    from rovrl_paper.lab.job import finished

    out = Path(f"runs/paper-record-{setting.generations}")
    run = out / f"{METHOD}-seed1"
    if not finished(run):
        words = command(setting, out)
        print(f"recording a run first: rovrl {' '.join(words)}", flush=True)
        if embedded_command.run(embedded_command.parsed([*words[1:], *["--resume"] * out.exists()])) or not finished(
            run
        ):
            raise RovrlError(f"the run to record failed (rovrl {' '.join(words)}); its message is above")
    return run / "records"


def command(setting: Setting, out: Path) -> list[str]:
    """The words of the `rovrl train` command that makes the records."""
    size = {"generations": setting.generations, "prompts": setting.groups, "updates": setting.updates}
    once = {"evaluate-every": setting.generations, "workers": 1}
    words = ["train", "--method", METHOD, "--clean"]
    for name, value in (size | once).items():
        words += [f"--{name}", str(value)]
    if setting.warm_up_steps != FULL.warm_up_steps:
        words += ["--warm-up-steps", str(setting.warm_up_steps)]
    return [*words, "--out", str(out)]


def _sample(responses: RecordedResponses, groups: int, generator: torch.Generator) -> RecordedResponses:
    prompts = responses.prompt.unique()
    chosen = prompts[torch.randperm(len(prompts), generator=generator)[:groups]]
    keep = torch.isin(responses.prompt, chosen)
    return RecordedResponses(
        responses.log_ratios[keep],
        responses.length[keep],
        responses.prompt[keep],
        responses.advantage[keep],
        responses.clip_low,
        responses.clip_high,
    )


def tables(rows: list[Row]) -> dict[str, Table]:
    """How many steps favour SoftRoVR, and the range of the reduction."""
    steps = len({r["step"] for r in rows})
    body = []
    for c in CONDITIONS:
        for metric in ("D_q", "flips"):
            mine = of(rows, c, metric)
            favour, surely = _favouring(rows, c, metric)
            reduction = [_reduction(r) for r in mine if r["gspo"] > 0]
            span = f"{min(reduction):.1%} ... {max(reduction):.1%}" if reduction else "-"
            body.append([c.kind, "+" if c.sign > 0 else "-", metric, f"{favour}/{steps}", f"{surely}/{steps}", span])
    header = ["Perturbation", "Sign", "Metric", "Steps favouring SoftRoVR", "with interval above 0", "Reduction"]
    return {"fig:softrovr_cross_step": Table(header, body, "Paired differences across the steps of a recorded run.")}


def of(rows: list[Row], c: Condition, metric: str) -> list[Row]:
    """The rows of a condition and measure."""
    return [r for r in rows if (r["perturbation"], r["sign"], r["metric"]) == (c.kind, c.sign, metric)]


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Another model, the same estimands: directions, their intervals, and the size of the burst reduction."""
    steps = len({r["step"] for r in rows})
    wanted = expected("token_stress")["cross_step"]["steps"]
    found = [Check("complete steps", steps, wanted, "at least as many", steps >= wanted)]
    for c in CONDITIONS:
        for metric in ("D_q", "flips") if c.kind == "spike" else ("D_q",):
            share = sum(r["difference"] > 0 for r in of(rows, c, metric)) / steps
            cell = f"{c.kind} {'+' if c.sign > 0 else '-'}, {metric}: share of steps favouring SoftRoVR"
            found.append(Check(cell, share, 1.0, "direction: every step", share == 1.0, _against(rows, c, metric)))
    return {"fig:softrovr_cross_step": found + _sure(rows) + _burst_reduction(rows)}


def _sure(rows: list[Row]) -> list[Check]:
    """The published intervals: those of D_q and of strong-spike flips are above zero at every step."""
    steps = len({r["step"] for r in rows})
    found = []
    for c in CONDITIONS:
        for metric in ("D_q", "flips") if c.kind == "spike" else ("D_q",):
            share = _favouring(rows, c, metric)[1] / steps
            cell = f"{c.kind} {'+' if c.sign > 0 else '-'}, {metric}: share of steps with the interval above 0"
            found.append(Check(cell, share, 1.0, "every step", share == 1.0))
    return found


def _burst_reduction(rows: list[Row]) -> list[Check]:
    """The range over steps of the reduction of mean D_q under long bursts, both signs together, as published."""
    published = expected("token_stress")["cross_step"]
    mine = [r for c in CONDITIONS if c.kind == "burst" for r in of(rows, c, "D_q") if r["gspo"] > 0]
    if not mine:
        return []
    ends = {"lowest": min(mine, key=_reduction), "highest": max(mine, key=_reduction)}
    found = []
    for name, r in ends.items():
        value = published[f"burst_reduction_{'low' if name == 'lowest' else 'high'}"]
        low, high = 1 - r["softrovr_high"] / r["gspo"], 1 - r["softrovr_low"] / r["gspo"]
        note = (
            f"95 % interval of SoftRoVR's D_q at that step: a reduction of {low:.1%} to {high:.1%}; of another model, a few of "
            "whose tokens carry nearly all of a log-ratio"
        )
        cell = f"burst, D_q: {name} reduction over steps"
        found.append(Check(cell, _reduction(r), value, "± 5 points", abs(_reduction(r) - value) <= 0.05, note))
    return found


def _reduction(r: Row) -> float:
    return 1 - r["softrovr"] / r["gspo"]


def _against(rows: list[Row], c: Condition, metric: str) -> str:
    """The steps that speak against the direction, with their intervals."""
    unit, name = (1e3, "1e-3") if metric == "D_q" else (100, "points")
    steps = [
        f"step {r['step']}: {unit * r['difference']:+.2f} [{unit * r['difference_low']:+.2f}, "
        f"{unit * r['difference_high']:+.2f}] {name}"
        for r in of(rows, c, metric)
        if r["difference"] <= 0
    ]
    return "; ".join(steps)


def findings(rows: list[Row]) -> dict[str, list[str]]:
    """How sure the directions are, and that the flips of long bursts have none, here as in the paper."""
    steps = len({r["step"] for r in rows})
    count = {(c.kind, c.sign, m): _favouring(rows, c, m) for c in CONDITIONS for m in ("D_q", "flips")}
    spike, burst = ([count[kind, sign, "flips"] for sign in (1, -1)] for kind in ("spike", "burst"))
    published = expected("token_stress")["cross_step"]
    sentence = (
        f"flips under spikes favour SoftRoVR at {spike[0][0]} (+) and {spike[1][0]} (-) of {steps} steps, with the whole "
        f"interval above zero at {spike[0][1]} and {spike[1][1]}; flips under long bursts at {burst[0][0]} and {burst[1][0]}, "
        f"published {published['positive_favours']} and {published['negative_favours']} of {published['steps']}: mixed in "
        "both. The log-ratios of the embedded model are sparse (a few decision tokens carry nearly all of them), a language "
        "model's need not be: only the direction can be compared."
    )
    return {"fig:softrovr_cross_step": [sentence]}


def _favouring(rows: list[Row], c: Condition, metric: str) -> tuple[int, int]:
    """Steps whose paired difference is above zero, and those where its whole interval is."""
    mine = of(rows, c, metric)
    return sum(r["difference"] > 0 for r in mine), sum(r["difference_low"] > 0 for r in mine)


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """Differences over steps."""
    return {"fig:softrovr_cross_step": lambda rows: draw(rows, "recorded step (embedded model)")}


def draw(rows: list[Row], steps: str) -> Any:
    """Paired differences over what `steps` names, spikes beside bursts."""
    figure, panels = axes(9.6, 6.0, 2, 2, sharex=True)
    units = {"D_q": (1e3, "$D_q$ difference (1e-3)"), "flips": (100, "flip difference (points)")}
    for column, kind in enumerate(("spike", "burst")):
        for line, (metric, (unit, name)) in enumerate(units.items()):
            axis = panels[line, column]
            for sign, colour in ((1, "#D55E00"), (-1, "#0072B2")):
                mine = [r for r in rows if (r["perturbation"], r["sign"], r["metric"]) == (kind, sign, metric)]
                x = [r["step"] for r in mine]
                axis.plot(
                    x, [unit * r["difference"] for r in mine], color=colour, lw=1.8, label="+" if sign > 0 else "-"
                )
                low, high = ([unit * r[f"difference_{end}"] for r in mine] for end in ("low", "high"))
                axis.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
            axis.axhline(0, color="0.6", lw=1)
            if column == 0:
                axis.set_ylabel(name)
        panels[0, column].set_title(r"spike of 16 $\sigma_\ell$" if kind == "spike" else "burst of 20 %")
        panels[1, column].set_xlabel(steps)
    panels[0, 0].legend(title="direction", fontsize=9)
    return figure
