"""The audit in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.judge.findings import percent, share
from rovrl.errors import RovrlError
from rovrl.output.terminal import visible

if TYPE_CHECKING:
    from rovrl.audit.judge.totals import Summary
    from rovrl.audit.result import AuditResult

WIDTH = 100
WORST = 5
USUALLY_CLIPPED = 0.1
NAMES = {
    "grpo": "GRPO",
    "dr_grpo": "Dr. GRPO",
    "rloo": "RLOO",
    "credit": "RoVR credit",
    "median_mad": "median-MAD",
    "other": "advantages of another kind (other weights, scaling or method)",
}


def text(result: AuditResult) -> str:
    """The summary: numbers, worst groups, ratio side, certificate, notes, verdict."""
    parts = [
        _head(result),
        _rewards(result),
        _responses(result),
        _functions(result),
        _worst(result),
        _ratios(result),
        _certificate(result),
        tolerance(result) if "tolerated" in result.__dict__ else "",
        _notes(result),
        _verdict(result),
    ]
    return visible("\n\n".join(part for part in parts if part))


def index(path: str, results: Mapping[str, AuditResult | RovrlError]) -> str:
    """One line per run: its size and its verdict, or why it could not be audited."""
    lines = [f"rovrl audit of {path}: {len(results)} runs, each by itself", ""]
    width = max(len(name) for name in results)
    for name, result in results.items():
        if isinstance(result, RovrlError):
            lines.append(f"  {name:<{width}}  {result}")
        else:
            size = f"{counted(result.summary.groups, 'group')}, mean reward {mean_reward(result.summary)}"
            lines.append(f"  {name:<{width}}  {size}  {result.verdict}")
    return "\n".join([*lines, "", f"One of them in full: rovrl audit {path}/NAME"])


def mean_reward(s: Summary) -> str:
    """The mean reward as text; a dash where no reward is a finite number."""
    return f"{s.mean_reward:.4g}" if s.nonfinite_rewards < s.responses else "–"


def counted(number: int, noun: str) -> str:
    """1 group, 2 groups."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _head(result: AuditResult) -> str:
    s = result.summary
    usual = max(s.group_sizes, key=lambda size: s.group_sizes[size])
    sizes = (
        f"of {usual}"
        if len(s.group_sizes) == 1
        else f"of {min(s.group_sizes)} to {max(s.group_sizes)}, most of {usual}"
    )
    steps = f"{counted(s.steps, 'step')} ({s.first_step} to {s.last_step})"
    return (
        f"rovrl audit of {result.path}: {result.reader.title}, {counted(len(result.files), 'file')}\n"
        f"{counted(s.groups, 'group')} {sizes}, {counted(s.responses, 'response')}, {steps}"
    )


def _rewards(result: AuditResult) -> str:
    s = result.summary
    untied = s.groups - s.tied_groups - s.single_groups
    tied = f"{s.tied_groups:,} tied groups ({percent(share(s.tied_groups, s.groups))})"
    halved = f"{s.halved_groups:,} of {untied:,} untied groups lost half of their contrast or more"
    credit = f"{percent(s.contrast_lost_credit)} under bounded credit (mean over untied groups)"
    own = "" if s.contrast_lost_own is None else f"; the run's own advantages lost {percent(s.contrast_lost_own)}"
    changes = f"{s.sign_changes:,} responses ({percent(s.sign_change_share)}) between GRPO and robust credit"
    lines = [
        ("mean reward", mean_reward(s) + _course(result.steps["mean_reward"])),
        ("no signal", f"{tied}, {s.single_groups:,} with fewer than two scored responses"),
        ("missing", f"{s.nonfinite_rewards:,} rewards are missing or not finite, in {s.nonfinite_groups:,} groups"),
        ("dominating", f"{s.dominant_rewards:,} rewards dominate {s.dominated_groups:,} groups; {halved}"),
        ("contrast lost", f"{percent(s.contrast_lost)} under GRPO, {credit}{own}"),
        ("sign changes", f"{changes}; mean reference shift {s.reference_shift:.3g}"),
    ]
    if s.planted is not None and s.planted:
        left = f" and left out {s.planted_left_out:,} of them" if s.planted_left_out else ""
        lines.append(("planted", f"the run itself contaminated {s.planted:,} rewards{left}"))
    if s.trained_with:
        lines.append(("trained with", NAMES.get(s.trained_with, s.trained_with)))
    return "Rewards\n" + _table(lines)


def _course(by_step: NDArray[np.float64]) -> str:
    """Where the mean reward came from and went to; empty for a single step and where an end has no finite reward."""
    count = -(-len(by_step) // 10)
    ends = [part[np.isfinite(part)] for part in (by_step[:count], by_step[-count:])]
    if len(by_step) < 2 or not all(map(len, ends)):
        return ""
    first, last = (float(np.sum(part / len(part))) for part in ends)  # divided first: huge rewards have no sum
    part = "step" if count == 1 else "tenth of the steps"
    return f", from {first:.4g} in the first to {last:.4g} in the last {part}"


def _responses(result: AuditResult) -> str:
    """Lengths and texts, where the files were read for them (for a page or by `result.description`)."""
    if "description" not in result.__dict__:
        return ""
    t, lines = result.description.totals, []
    if t.length is not None:
        follows = (
            ""
            if t.length_reward is None
            else f"; rank correlation with the reward inside groups {t.length_reward:+.2f}"
        )
        lines.append(("length", f"median {t.length:,.0f} {t.unit}, 90 % below {t.length_high:,.0f}{follows}"))
    if t.truncated is not None:
        lines.append(("truncated", f"{percent(t.truncated)} of the responses, {t.truncated_by}"))
    if t.copies is not None:
        pairs = "" if t.distinct is None else f"; {percent(t.distinct)} of their word pairs are distinct"
        lines.append(("diversity", f"{percent(t.copies)} share their text with another one of the group{pairs}"))
    if t.accuracy is not None:
        lines.append(("accuracy", f"{percent(t.accuracy)} by the column {t.verdict}"))
    return "Responses\n" + _table(lines) if lines else ""


def _functions(result: AuditResult) -> str:
    if "description" not in result.__dict__ or not result.description.functions:
        return ""
    known = lambda value, form: "-" if value is None else format(value, form)  # noqa: E731
    lines = [f"  {'':<24} {'weight':>7} {'mean':>9} {'variance':>9} {'tied':>6} {'agrees':>7} {'dominated':>9}"]
    for f in result.description.functions:
        share = "-" if f.variance is None else percent(f.variance)
        lines.append(
            f"  {' '.join(f.name.split())[:24]:<24} {known(f.weight, '.3g'):>7} {known(f.mean, '.4g'):>9} {share:>9} "
            f"{percent(f.tied):>6} {known(f.agreement, '+.2f'):>7} {f.dominated:>9,}"
        )
    return "Reward functions\n" + "\n".join(lines)


def _worst(result: AuditResult) -> str:
    table = result.groups
    worst = [g for g in result.worst(WORST).tolist() if table.dominating[g] or table.flips[g]]
    if not worst:
        return ""
    own = result.evidence.logged  # then the worst are those whose own advantages lost the most
    by = f"{'by credit':>9} {'by run':>7}" if own else f"{'by credit':>9}"
    lines = [f"  {'step':>6}  {'group':<24} {'lost':>6} {by} {'flips':>5}  rewards that dominate"]
    for g in worst:
        label = (result.rollouts.label[g].as_py() if not result.rollouts.by_runs else "") or f"group {g}"
        label = " ".join(label.split())  # a line end in a name must not break the table
        rewards = result.rewards(g)
        out = ", ".join(f"{rewards[i]:.4g}" for i in result.dominating(g)[:4]) or "-"
        lost, credit, mine = (
            percent(float(np.nan_to_num(x[g]))) for x in (table.lost, table.lost_credit, table.lost_own)
        )
        by = f"{credit:>9} {mine:>7}" if own else f"{credit:>9}"
        lines.append(f"  {result.rollouts.step[g]:>6}  {label[:24]:<24} {lost:>6} {by} {table.flips[g]:>5}  {out}")
    return "Worst groups\n" + "\n".join(lines)


def _ratios(result: AuditResult) -> str:
    r = result.summary.ratios
    if r is None:
        return "Token log-ratios\n  none saved: clip branches cannot be audited (train with records to have them)"
    clipped, soft = r.clipped_upper + r.clipped_lower, r.soft_clipped_upper + r.soft_clipped_lower
    sides = f"{percent(r.clipped_upper)} above, {percent(r.clipped_lower)} below"
    typical = f"typical |log weight| {r.median_abs_log_weight:.2g}"
    lines = [
        ("clipped", f"{percent(clipped)} of {r.responses:,} response-updates ({sides}); with SoftRoVR {percent(soft)}"),
        ("branches moved", f"{percent(r.moved)} would change their clip branch under SoftRoVR"),
        ("bursts", f"{percent(r.bursts)} have a log weight made by a few tokens; {typical}"),
        ("disagreement", f"SoftRoVR hides {percent(r.disagreement)} of the movement of the log weights"),
    ]
    if clipped > USUALLY_CLIPPED:
        lines.append(
            ("is that normal?", "with GSPO's band of 3e-4 / 4e-4 others report a tenth to four tenths clipped")
        )
    return "Token log-ratios\n" + _table(lines)


def _certificate(result: AuditResult) -> str:
    if result.certificate is None:
        return ""
    unknown = [p.statement for p in result.certificate.premises if p.status == "unknown"]
    broken = [f"{p.statement} ({p.why})" for p in result.certificate.premises if p.status == "violated"]
    lines = [result.certificate.sentence, "Not known to hold: " + "; ".join(unknown) + "."]
    lines += ["Does not hold: " + "; ".join(broken) + "."] if broken else []
    return "Certificate\n" + "\n".join(_wrap(line) for line in lines)


def tolerance(result: AuditResult) -> str:
    """What the groups tolerate with certainty, computed here if it was not yet; empty where nothing can be said."""
    return "Tolerance\n" + _wrap(result.tolerated) if result.tolerated else ""


def _notes(result: AuditResult) -> str:
    return "Notes\n" + "\n".join(_wrap(f"[{n.code}] {n.sentence}") for n in result.notes) if result.notes else ""


def _verdict(result: AuditResult) -> str:
    said = [_wrap(f"[{f.code}] {f.sentence}. {f.advice[0].upper()}{f.advice[1:]}.") for f in result.findings]
    if not result.findings and result.questions:
        said = [
            _wrap("They are the notes of these names; --expect says what is meant, and a threshold what is too much.")
        ]
    return "\n".join(["Verdict: " + result.verdict, *said])


def _table(lines: list[tuple[str, str]]) -> str:
    return "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=f"  {name:<15} ", subsequent_indent=" " * 18) for name, line in lines
    )


def _wrap(line: str) -> str:
    return textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ")
