"""What is wrong with a run: each reason code with its threshold, what it compares, what to do, and the code that finds it.

Read from top to bottom, in the order of damage, which is the order of findings. A function returns the value that is compared
and the sentence that is said if it is above the threshold (and the step it names, if it names one), or None: it cannot be said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rovrl.errors import RovrlError

if TYPE_CHECKING:  # the codes are shown in a help and checked in every process of an engine, which audit nothing
    from rovrl.audit.judge.checks import Jump, Stretch
    from rovrl.audit.judge.evidence import Evidence

Measured = tuple[float, str] | tuple[float, str, int] | None


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


@dataclass(frozen=True)
class Code:
    """One reason code; a value above its threshold is a finding."""

    threshold: float
    compares: str
    advice: str
    measure: Callable[[Evidence], Measured]
    advice_after: Callable[[Evidence], str]
    """The advice for a run that was trained as this one was: never what it did already."""


CODES: dict[str, Code] = {}
"""In the order of damage."""


def code(threshold: float, compares: str, advice: str, after: Callable[[Evidence], str] | None = None) -> Any:
    """Enters the function below under its own name into CODES."""

    def enter(measure: Callable[[Evidence], Measured]) -> Callable[[Evidence], Measured]:
        CODES[measure.__name__] = Code(threshold, compares, advice, measure, after or (lambda _: advice))
        return measure

    return enter


def thresholds(given: Mapping[str, float] | None = None) -> dict[str, float]:
    """All thresholds, `given` over the defaults; an unknown code is refused with the known ones."""
    unknown = sorted(set(given or {}) - set(CODES))
    if unknown:
        raise RovrlError(f"there is no threshold {', '.join(unknown)}; the codes are {', '.join(CODES)}")
    for name, value in (given or {}).items():
        if not isinstance(value, int | float) or math.isnan(value):
            raise RovrlError(f"--threshold {name} needs a number, not {value}")
    return {name: known.threshold for name, known in CODES.items()} | dict(given or {})


def findings(evidence: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    """Everything above its threshold, the most damaging first."""
    found = []
    for name, known in CODES.items():
        measured = known.measure(evidence)
        if measured is not None and measured[0] > limit[name]:
            value, sentence, *step = measured
            found.append(Finding(name, value, limit[name], sentence, known.advice_after(evidence), *step))
    return found


def share(part: float, whole: float) -> float:
    """part/whole, 0 of nothing."""
    return float(part) / float(whole) if whole else 0.0


def percent(value: float) -> str:
    """A share for people: 12 %, 0.3 %."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


@code(
    0.0,
    "share of rewards outside the range declared with --expect range=LOW:HIGH",
    "find the grader that returns them, or clamp the reward to its range",
)
def out_of_range(e: Evidence) -> Measured:
    """Rewards outside the declared range."""
    outside = int(e.expect.outside(e.rollouts.reward).sum()) if e.expect.has_range else 0
    many = f"{outside:,} rewards lie outside the declared range [{e.expect.low:g}, {e.expect.high:g}]"
    return share(outside, len(e.rollouts.reward)), many


RARE_MERIT = (
    "if they are rare merit at the same rate on every prompt, say so with --expect rare-bonus (or rare-penalty)"
)
LOOK = "look at them, they are listed first; if they are faults, mend the grader"


def _if_it_rejects(e: Evidence) -> str:
    if e.trained.rejects:
        return f"the run rejects what it can show at the time, and these it used: {LOOK}; {RARE_MERIT}"
    return CODES["faulty_rewards"].advice


@code(
    0.0,
    "share of rewards shown to be faults (docs/faults.md)",
    f'{LOOK} or train with faults="reject"; {RARE_MERIT}',
    _if_it_rejects,
)
def faulty_rewards(e: Evidence) -> Measured:
    """Rewards shown to be faults that the run used."""
    found, used = e.rejected, ~e.left_out[e.rejected.row]
    groups = len(set(found.group[used].tolist()))
    many = f"{used.sum():,} rewards in {groups:,} of the {found.looked:,} groups looked at"
    did = f"{many} would be rejected as faults" if used.all() else f"{many} are faults by this test and were used"
    why = "they lie apart, and strike groups as evenly as chance would: faults hit anyone, merit depends on the prompt"
    spared = "" if used.all() else f"; {(~used).sum():,} more the run left out itself (advantage 0)"
    return share(used.sum(), found.responses), f"{did}: {why}{spared}"


KNOWN_RANGE = (
    "look at the worst groups: a broken grader, a unit error? If the range of the reward is known, clamp it, and "
    "declare it with --expect range=LOW:HIGH"
)
UNKNOWN_RANGE = "; if not, a robust advantage does not need to be told"


@code(
    0.02,
    "share of groups with rewards that stand apart from everything else",
    KNOWN_RANGE + UNKNOWN_RANGE,
    lambda e: KNOWN_RANGE if e.trained.bounded else KNOWN_RANGE + UNKNOWN_RANGE,
)
def dominating_rewards(e: Evidence) -> Measured:
    """Groups with suspects: rewards that stand apart or are shown to be faults, and that the run used."""
    count = int(e.suspects("dominating_rewards").sum())
    value = share(count, (~e.table.single).sum())
    decide = "would decide GRPO's statistics of the group" if e.trained.bounded else "decide the group's statistics"
    return value, f"{count:,} groups ({percent(value)}) hold rewards so far from everything else that they {decide}"


def _if_it_is_bounded(e: Evidence) -> str:
    if not e.trained.bounded:
        return CODES["contrast_lost"].advice
    ways = [] if e.trained.adaptive else ["credit_bound and credit_floor set to adaptive"]
    ways += [] if e.trained.rejects else ['faults="reject"']
    if not ways:
        return "the run's own settings fit their bound to these rewards already: remove the cause"
    return f"the bound is wide for these rewards: train with {', or with '.join(ways)}; or remove the cause"


@code(
    0.05,
    "mean share of contrast, over untied groups, that the run's advantages lost to such rewards",
    "remove the cause, or train with the robust reward channel (rovrl.integrations.trl or .verl); if credit loses much "
    "too, its bound is wide for these rewards: try --reward credit_bound=adaptive --reward credit_floor=adaptive",
    _if_it_is_bounded,
)
def contrast_lost(e: Evidence) -> Measured:
    """The contrast lost in the suspect groups under the run's own advantages, or under its method if it logged none."""
    hit = e.suspects("contrast_lost")
    own, grpo, credit = (e.lost_to(hit, method) for method in ("own", "grpo", "credit"))
    what = "of the contrast among the other responses"
    if e.trained.bounded:
        own = own if e.logged else credit
        return (
            own,
            f"bounded credit, which the run used, lost {percent(own)} {what}; GRPO would have lost {percent(grpo)}",
        )
    if e.trained.divides_by_nothing:
        return None  # no contrast is lost to a group's deviation
    if e.trained.divides_by_deviation:
        return own, f"GRPO's normalisation lost {percent(own)} {what}; bounded credit would have lost {percent(credit)}"
    if e.logged:
        would = f"GRPO's normalisation would have lost {percent(grpo)}, bounded credit {percent(credit)}"
        return own, f"the run's own advantages lost {percent(own)} {what}; {would}"
    would = f"GRPO's normalisation would have lost {percent(grpo)}"
    return grpo, f"{would} {what}; bounded credit would have lost {percent(credit)}"


@code(
    0.15,
    "share of responses, in untied groups, that GRPO and robust credit push in opposite directions",
    "the mean and the robust reference disagree: skewed rewards or outliers; look at the groups sorted by sign changes",
)
def sign_changes(e: Evidence) -> Measured:
    """Responses between the mean and the robust reference; a run with bounded credit took the robust side of each."""
    value = e.table.sign_change_share
    many = f"{e.table.flips.sum():,} responses ({percent(value)} of those in untied groups)"
    return None if e.trained.bounded else (value, f"{many} are pushed up by one estimator and down by the other")


@code(
    0.9,
    "share of groups whose rewards are all equal",
    "the task is too easy or too hard for the policy, or the grader returns a constant: mix difficulties",
)
def tied_groups(e: Evidence) -> Measured:
    """Groups without a signal."""
    tied, groups = int(e.table.tied.sum()), len(e.table.size)
    value = share(tied, groups)
    return value, f"{tied:,} of {groups:,} groups ({percent(value)}) have equal rewards and carry no signal"


@code(
    0.1,
    "share of groups with fewer than two scored responses",
    "check the group ids (is every response its own group?) and the grader's failures",
)
def single_groups(e: Evidence) -> Measured:
    """Groups with nothing to compare."""
    single, groups = int(e.table.single.sum()), len(e.table.size)
    value = share(single, groups)
    return value, f"{single:,} of {groups:,} groups ({percent(value)}) have fewer than two scored responses"


@code(
    0.002,
    "share of responses whose reward is missing, NaN or infinite",
    "find out why the grader fails; a NaN that enters a group's mean makes all its advantages NaN",
)
def nonfinite_rewards(e: Evidence) -> Measured:
    """Rewards that are no score."""
    missing = int((e.table.size - e.table.finite).sum())
    value = share(missing, e.table.size.sum())
    return value, f"{missing:,} rewards ({percent(value)}) are missing, NaN or infinite"


@code(
    0.0,
    "share of groups in a stretch that is tied at one number, beyond chance",
    "look at the grader's log at that step: a time-out, a crashed server or a changed format returns one number",
)
def stuck_grader(e: Evidence) -> Measured:
    """The least likely stretch that only a grader explains."""
    stretch = min((s for s in e.stretches if not s.at), key=lambda s: s.chance, default=None)
    if stretch is None:
        return None
    what = f"{equal_groups(stretch)} have the reward {stretch.value:g} for every response"
    chance = f"by chance such a stretch is expected {stretch.chance:.0e} times"
    return share(stretch.groups, len(e.table.size)), f"{what}; {chance}"


@code(
    0.001,
    "share of groups whose rewards, in their order, come again, beyond chance",
    "a batch was trained on or logged twice: check the sampler, the replay buffer and resumed runs",
)
def repeated_groups(e: Evidence) -> Measured:
    """Groups with the same rewards in the same order as another one."""
    if not e.repeated.any():
        return None
    first = int(e.rollouts.step[e.repeated].min())
    what = "groups have the same rewards in the same order as another group"
    return share(e.repeated.sum(), len(e.repeated)), f"{e.repeated.sum():,} {what} (first at step {first})"


@code(
    0.0,
    "share of the groups looked at that hold different prompts",
    "the group ids are wrong: advantages compare responses to different prompts",
)
def mixed_prompts(e: Evidence) -> Measured:
    """Groups that hold different prompts."""
    mixed, looked = e.mixed
    return share(mixed, looked), f"{mixed:,} of the {looked:,} groups looked at hold responses to different prompts"


@code(
    3.0,
    "standard errors by which rows dealt out in turn make groups that differ more than after a shuffle within the groups",
    "the group ids are wrong: look for a batch of interleaved rows that was reshaped into groups",
)
def groups_alike(e: Evidence) -> Measured:
    """Groups that differ less than those of rows dealt out in turn."""
    if e.alike is None:
        return None
    what = f"the groups of a step differ no more than random sets of its responses would (F = {e.alike.ratio:.2f})"
    other = f"; dealt out in turn, the rows of a step make groups that do (F = {e.alike.dealt:.2f})"
    return e.alike.torn, what + (other if e.alike.dealt > 1 else "")


@code(
    3.0,
    "factor by which the rewards' spread changes at one step and stays changed, beyond chance",
    "did the reward, its weights or its normalisation change? Fixed settings (a clip, kappa, a KL weight) no longer fit",
)
def scale_jump(e: Evidence) -> Measured:
    """A lasting change of the rewards' spread while the rewards themselves stay where they are."""
    if e.jump is None or e.jump.gradual:
        return None
    return max(e.jump.factor, 1 / e.jump.factor), changed_spread(e.jump), e.jump.step


@code(
    0.1,
    "share of responses that SoftRoVR puts on another clip branch",
    "a few tokens decide what is clipped: look at those responses' token log-ratios",
)
def branch_moved(e: Evidence) -> Measured:
    """Responses on another clip branch; a run whose weights are SoftRoVR's took these branches."""
    if e.ratios is None or e.trained.soft:
        return None
    moved, total = int(e.ratios.moved.sum()), len(e.ratios.mean)
    value = share(moved, total)
    return value, f"SoftRoVR would put {moved:,} of {total:,} responses ({percent(value)}) on another clip branch"


@code(
    0.005,
    "share of responses whose log weight is made by a burst of a few tokens",
    "do the sampler's and the trainer's log-probabilities differ? Look at the tokens; SoftRoVR removes most of it",
)
def ratio_bursts(e: Evidence) -> Measured:
    """Responses whose mean is a burst; the weights of SoftRoVR hold none."""
    if e.ratios is None or e.trained.soft:
        return None
    bursts = int(e.ratios.bursts.sum())
    value = share(bursts, len(e.ratios.mean))
    what = "have a log weight far beyond the run's usual, made by a few tokens"
    return value, f"{bursts:,} responses ({percent(value)}) {what}"


@code(
    0.5,
    "sum of |SoftRoVR - mean| over sum of |mean|",
    "with log-ratios this sparse the few tokens that move are the signal, and SoftRoVR would take the trust region away: "
    "keep the mean, or take smaller steps",
)
def weight_disagreement(e: Evidence) -> Measured:
    """How much of the movement of the log weights SoftRoVR hides."""
    if e.ratios is None:
        return None
    value, did = e.ratios.disagreement, "hid" if e.trained.soft else "would hide"
    return value, f"SoftRoVR {did} {percent(value)} of what the log weights of the run moved"


def equal_groups(stretch: Stretch) -> str:
    """A stretch in words: how many groups, at which steps."""
    one = stretch.first_step == stretch.last_step
    where = f"step {stretch.first_step}" if one else f"steps {stretch.first_step} to {stretch.last_step}"
    return f"{stretch.groups:,} groups in a row ({where})"


def changed_spread(jump: Jump) -> str:
    """A change of the scale in words."""
    many = f"{jump.factor:.3g} times what it was before"
    return f"from step {jump.step} on the spread of the rewards within groups is {many}"
