"""What the audit noticed and cannot judge: notes that ask the user, never findings."""

from __future__ import annotations

import numpy as np

from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.findings import CODES, changed_spread, equal_groups, percent, share
from rovrl.audit.read.notes import Note


def questions(e: Evidence) -> list[Note]:
    """The notes on what need not be a fault: rewards that dominate, equal ones at an edge of the run, groups that are alike."""
    asked = [
        reward_levels(e),
        heavy_tail(e),
        rare_outliers(e),
        clustered_rewards(e),
        rare_kind(e, "bonus"),
        rare_kind(e, "penalty"),
        alike_groups(e),
        scale_moves(e),
    ]
    return [note for note in asked if note is not None] + equal_at_edges(e)


def facts(e: Evidence) -> list[Note]:
    """What is known of the run beside its findings, and asks nothing: the faults that it left out itself."""
    spared = int(e.left_out[e.rejected.row].sum())
    if not spared:
        return []
    what = f"{spared:,} of {len(e.rejected.row):,} rewards that are shown to be faults had advantage 0"
    return [Note("left_out", f"{what}: the run left them out itself, and no finding counts them")]


def _dominated(e: Evidence, kind: str) -> tuple[int, str]:
    """How many groups a kind of reward dominates; and in words, if they are enough to speak of."""
    named = e.groups_with(kind)
    groups = int((e.table.dominating[named] > 0).sum())  # others lie beyond a gap and dominate nothing
    value = share(groups, (~e.table.single).sum())
    return groups, f"in {groups:,} groups ({percent(value)})" if value > CODES["dominating_rewards"].threshold else ""


def reward_levels(e: Evidence) -> Note | None:
    """One or a few rewards dominate groups, and other groups hold differences as large."""
    _, where = _dominated(e, "level")
    if not where or e.expect.has_range or e.expect.rare_bonus or e.expect.rare_penalty:
        return None
    what = f"{where} one or a few rewards dominate, but other groups hold differences as large"
    why = (
        "levels of the reward, such as right and wrong beside a small shaping term, or tasks with rewards of their own"
    )
    means = "there GRPO divides by the large difference, and the small ones count for little: is that what you want?"
    return Note("reward_levels", f"{what}: {why}; {means}")


def heavy_tail(e: Evidence) -> Note | None:
    """They are the end of a tail without a gap."""
    _, where = _dominated(e, "tail")
    if not where:
        return None
    what = f"{where} one or a few rewards dominate, at the end of a tail that thins out without a gap"
    return Note("heavy_tail", f"{what}: no sign of a fault, but is the reward meant to have such a tail?")


def rare_outliers(e: Evidence) -> Note | None:
    """Rewards that stand apart in so few groups that no threshold is crossed: one of them can still decide its group."""
    hit = e.suspects("") & (e.table.dominating > 0)
    groups, value = int(hit.sum()), share(hit.sum(), (~e.table.single).sum())
    if not groups or value > CODES["dominating_rewards"].threshold:
        return None
    lost = np.where(hit, np.nan_to_num(e.table.lost_own if e.logged else e.table.lost), -1.0)
    worst = int(lost.argmax())
    where = f"in {groups:,} group{'s' * (groups > 1)} ({percent(value)}) a reward stands apart from everything else"
    took = f"the worst, at step {e.rollouts.step[worst]}, lost {percent(float(max(lost[worst], 0.0)))} of its contrast"
    return Note("rare_outliers", f"{where}; {took}. Is it a fault? Look at them: they are listed first")


def clustered_rewards(e: Evidence) -> Note | None:
    """Those that stand apart cluster on some prompts."""
    groups = len(e.groups_with("clustered"))
    value = share(groups, (~e.table.single).sum())
    if value <= CODES["dominating_rewards"].threshold:
        return None
    where = f"in {groups:,} groups ({percent(value)})"
    what = f"{where} one or a few rewards stand apart, and far ones cluster on some prompts, as merit does and faults do not"
    return Note("clustered_rewards", f"{what}: a penalty or a bonus that depends on the prompt? Look at them")


def rare_kind(e: Evidence, kind: str) -> Note | None:
    """All that stand apart are at one distance on one side: a "bonus" or a "penalty"."""
    here = e.outliers.kind == kind
    if share(len(e.rejected.row), e.rejected.responses) > CODES["faulty_rewards"].threshold:
        here = here & ~np.isin(e.outliers.row, e.rejected.row)  # a finding speaks of those
    here = here & ~e.left_out[e.outliers.row]
    if not here.any():
        return None
    side = "above" if kind == "bonus" else "below"
    far = float(np.median(np.abs(e.outliers.distance[here])))
    where = f"in {len(np.unique(e.outliers.group[here])):,} groups"
    many = f"{here.sum():,} rewards {where} lie about {far:.3g} {side} the rest of their group"
    ask = (
        f"a rare {kind}, or a fault that always gives the same? Look at them; if it is meant, say --expect rare-{kind}"
    )
    return Note(f"rare_{kind}", f"{many}, with nothing in between: {ask}")


def alike_groups(e: Evidence) -> Note | None:
    """The groups of a step differ no more than random sets, or less."""
    if e.alike is None or not e.alike.alike or e.alike.torn > CODES["groups_alike"].threshold:
        return None
    if e.alike.relative:
        what = f"the groups of a step differ less than random sets of its responses would (F = {e.alike.ratio:.2f})"
        why = "as they do if rewards are relative to the group (ranks, win rates, standardised scores), which is fine"
        return Note("relative_rewards", f"{what}, {why}; if yours are not, check the group ids")
    what = f"the groups of a step differ no more than random sets of its responses would (F = {e.alike.ratio:.2f})"
    return Note(
        "groups_alike", f"{what}: either all prompts are equally hard, or the group ids are wrong; check the ids"
    )


def equal_at_edges(e: Evidence) -> list[Note]:
    """The run begins, or with full marks ends, with groups tied at one number."""
    why = {
        "start": "had the policy found nothing yet, or was the grader broken at the start?",
        "end": "is everything solved, or does the grader give full marks to anything?",
    }
    found = []
    for edge, what in why.items():
        stretch = min((s for s in e.stretches if s.at == edge), key=lambda s: s.chance, default=None)
        if stretch is not None:
            where = f"{equal_groups(stretch)}, at the {edge} of the run, have the reward {stretch.value:g}"
            found.append(Note(f"equal_at_{edge}", f"{where} for every response: {what} Look at some responses"))
    return found


def scale_moves(e: Evidence) -> Note | None:
    """The spread of the rewards changes while the rewards themselves move."""
    if e.jump is None or not e.jump.gradual or max(e.jump.factor, 1 / e.jump.factor) <= CODES["scale_jump"].threshold:
        return None
    why = "the rewards move from step to step about there, as while something is learned on which they depend"
    return Note("scale_moves", f"{changed_spread(e.jump)}, but {why}; or did the reward or its weights change?")
