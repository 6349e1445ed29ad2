"""What is wrong with a run, in plain words, each with its reason code, its number and the threshold it passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rovrl.audit.judge import checks, trained
from rovrl.audit.judge.codes import CODES
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.jump import Jump
from rovrl.audit.measure.ratios import RatioTable
from rovrl.audit.measure.statistics import GroupTable

REJECTED_SOME = (
    "the run rejects what it can show at the time, and these it used: look at them, they are listed first; if they are "
    "faults, mend the grader; if they are rare merit at the same rate on every prompt, say so with --expect rare-bonus (or "
    "rare-penalty)"
)
Measured = Iterator[tuple[str, float, str] | tuple[str, float, str, int]]
"""(reason code, value, the sentence to say if the value is above its threshold, the step it names if it names one)"""


@dataclass(frozen=True)
class Finding:
    """One finding: its code, the measured value, the threshold, what it means and what to do."""

    code: str
    value: float
    threshold: float
    sentence: str
    advice: str
    step: int | None = None
    """The step from which on it holds, where it begins at one."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def findings(evidence: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    """Everything above its threshold, the most damaging first."""
    found = [
        Finding(code, value, limit[code], sentence, advice(code, evidence), *step)
        for measure in MEASURES
        for code, value, sentence, *step in measure(evidence)
        if value > limit[code]
    ]
    order = list(CODES)
    return sorted(found, key=lambda finding: order.index(finding.code))


def advice(code: str, evidence: Evidence) -> str:
    """What to do about a finding, for a run that was trained as this one was: never what it did already."""
    trained, known = evidence.trained, CODES[code]
    if code == "faulty_rewards" and trained.rejects:
        return REJECTED_SOME
    if code == "contrast_lost" and trained.bounded:
        ways = [] if trained.adaptive else ["credit_bound and credit_floor set to adaptive"]
        ways += [] if trained.rejects else ['faults="reject"']
        if not ways:
            return "the run's own settings fit their bound to these rewards already: remove the cause"
        return f"the bound is wide for these rewards: train with {', or with '.join(ways)}; or remove the cause"
    return known.advice_robust if trained.bounded and known.advice_robust else known.advice


def share(part: float, whole: float) -> float:
    """part/whole, 0 of nothing."""
    return float(part) / float(whole) if whole else 0.0


def percent(value: float) -> str:
    """A share for people: 12 %, 0.3 %."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


def equal_groups(stretch: checks.Stretch) -> str:
    """A stretch in words: how many groups, at which steps."""
    one = stretch.first_step == stretch.last_step
    where = f"step {stretch.first_step}" if one else f"steps {stretch.first_step} to {stretch.last_step}"
    return f"{stretch.groups:,} groups in a row ({where})"


def changed_spread(jump: Jump) -> str:
    """A change of the scale in words."""
    many = f"{jump.factor:.3g} times what it was before"
    return f"from step {jump.step} on the spread of the rewards within groups is {many}"


def sign_change_share(table: GroupTable) -> float:
    """Share of the responses of untied groups whose advantage changes its sign."""
    return share(table.flips.sum(), table.finite[table.untied].sum())


def weight_disagreement(ratios: RatioTable) -> float:
    """Σ|SoftRoVR - mean| / Σ|mean|, as rovrl.diagnostics.weight_disagreement."""
    return share(np.abs(ratios.soft - ratios.mean).sum(), np.abs(ratios.mean).sum())


def _faults(e: Evidence) -> Measured:
    outside = int(e.expect.outside(e.rollouts.reward).sum()) if e.expect.has_range else 0
    many = f"{outside:,} rewards lie outside the declared range [{e.expect.low:g}, {e.expect.high:g}]"
    yield "out_of_range", share(outside, len(e.rollouts.reward)), many
    found, used = e.rejected, ~e.left_out[e.rejected.row]
    many = (
        f"{used.sum():,} rewards in {len(set(found.group[used].tolist())):,} of the {found.looked:,} groups looked at"
    )
    did = f"{many} would be rejected as faults" if used.all() else f"{many} are faults by this test and were used"
    why = "they lie apart, and strike groups as evenly as chance would: faults hit anyone, merit depends on the prompt"
    spared = "" if used.all() else f"; {(~used).sum():,} more the run left out itself (advantage 0)"
    yield "faulty_rewards", share(used.sum(), found.responses), f"{did}: {why}{spared}"


def _outliers(e: Evidence) -> Measured:
    hit = e.suspects("dominating_rewards")
    count = int(hit.sum())
    value = share(count, (~e.table.single).sum())
    decide = "would decide GRPO's statistics of the group" if e.trained.bounded else "decide the group's statistics"
    what = f"hold rewards so far from everything else that they {decide}"
    yield "dominating_rewards", value, f"{count:,} groups ({percent(value)}) {what}"
    yield "contrast_lost", *_lost(e)
    if not e.trained.bounded:  # else the run took the robust side of each
        flips, value = int(e.table.flips.sum()), sign_change_share(e.table)
        many = f"{flips:,} responses ({percent(value)} of those in untied groups)"
        yield "sign_changes", value, f"{many} are pushed up by one estimator and down by the other"


def _lost(e: Evidence) -> tuple[float, str]:
    """The contrast lost in the suspect groups under the run's own advantages, or its own method, and the sentence about it."""
    hit = e.suspects("contrast_lost")
    own, grpo, credit = (e.lost_to(hit, method) for method in ("own", "grpo", "credit"))
    what = "of the contrast among the other responses"
    if e.trained.bounded:
        own = own if e.logged else credit
        return (
            own,
            f"bounded credit, which the run used, lost {percent(own)} {what}; GRPO would have lost {percent(grpo)}",
        )
    if e.trained.method in trained.NOTHING:
        return 0.0, ""  # nothing is divided by a group's deviation, so no contrast is lost to it
    if e.trained.method in trained.DEVIATION:
        return own, f"GRPO's normalisation lost {percent(own)} {what}; bounded credit would have lost {percent(credit)}"
    if e.logged:
        would = f"GRPO's normalisation would have lost {percent(grpo)}, bounded credit {percent(credit)}"
        return own, f"the run's own advantages lost {percent(own)} {what}; {would}"
    would = f"GRPO's normalisation would have lost {percent(grpo)}"
    return grpo, f"{would} {what}; bounded credit would have lost {percent(credit)}"


def _empty(e: Evidence) -> Measured:
    table, groups = e.table, len(e.table.size)
    tied, single = int(table.tied.sum()), int(table.single.sum())
    missing = int((table.size - table.finite).sum())
    value = share(tied, groups)
    yield (
        "tied_groups",
        value,
        f"{tied:,} of {groups:,} groups ({percent(value)}) have equal rewards and carry no signal",
    )
    value = share(single, groups)
    yield (
        "single_groups",
        value,
        f"{single:,} of {groups:,} groups ({percent(value)}) have fewer than two scored responses",
    )
    value = share(missing, table.size.sum())
    yield "nonfinite_rewards", value, f"{missing:,} rewards ({percent(value)}) are missing, NaN or infinite"


def _stuck(e: Evidence) -> Measured:
    stretch = checks.stuck_grader(e.stretches)
    if stretch is not None:
        what = f"{equal_groups(stretch)} have the reward {stretch.value:g} for every response"
        chance = f"by chance such a stretch is expected {stretch.chance:.0e} times"
        yield "stuck_grader", share(stretch.groups, len(e.table.size)), f"{what}; {chance}"


def _repeated(e: Evidence) -> Measured:
    again = checks.repeated_groups(e.rollouts, e.table)
    if again.any():
        first = int(e.rollouts.step[again].min())
        what = (
            f"{again.sum():,} groups have the same rewards in the same order as another group (first at step {first})"
        )
        yield "repeated_groups", share(again.sum(), len(again)), what


def _group_ids(e: Evidence) -> Measured:
    mixed, looked = e.mixed
    what = f"{mixed:,} of the {looked:,} groups looked at hold responses to different prompts"
    yield "mixed_prompts", share(mixed, looked), what
    if e.alike is not None:
        what = f"the groups of a step differ no more than random sets of its responses would (F = {e.alike.ratio:.2f})"
        other = f"; dealt out in turn, the rows of a step make groups that do (F = {e.alike.dealt:.2f})"
        yield "groups_alike", e.alike.torn, what + (other if e.alike.dealt > 1 else "")


def _jump(e: Evidence) -> Measured:
    if e.jump is not None and not e.jump.gradual:
        yield "scale_jump", max(e.jump.factor, 1 / e.jump.factor), changed_spread(e.jump), e.jump.step


def _ratio_side(e: Evidence) -> Measured:
    if e.ratios is None:
        return
    moved, bursts, total = int(e.ratios.moved.sum()), int(e.ratios.bursts.sum()), len(e.ratios.mean)
    if not e.trained.soft:  # a run whose weights are SoftRoVR's took these branches, and its weights hold no bursts
        value = share(moved, total)
        many = f"{moved:,} of {total:,} responses ({percent(value)})"
        yield "branch_moved", value, f"SoftRoVR would put {many} on another clip branch"
        value = share(bursts, total)
        many = f"{bursts:,} responses ({percent(value)})"
        yield "ratio_bursts", value, f"{many} have a log weight far beyond the run's usual, made by a few tokens"
    would = "hid" if e.trained.soft else "would hide"
    value = weight_disagreement(e.ratios)
    yield "weight_disagreement", value, f"SoftRoVR {would} {percent(value)} of what the log weights of the run moved"


MEASURES: tuple[Callable[[Evidence], Measured], ...] = (
    _faults,
    _outliers,
    _empty,
    _stuck,
    _repeated,
    _group_ids,
    _jump,
    _ratio_side,
)
