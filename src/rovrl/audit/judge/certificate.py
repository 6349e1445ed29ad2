"""What a group of this size can certify, which assumptions a dump cannot show to hold, and what a run's groups tolerate."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rovrl import guarantees
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RewardChannel
from rovrl.groups import partition

SHOWN = 4
"""Budgets named in the sentence."""
BAD = (1, 2, 3)
SAMPLE, LARGEST = 200, 2**14
"""Groups, and responses in all of them, that are searched: about a second whatever the run."""


@dataclass(frozen=True)
class Premise:
    """One assumption of the guarantees, and what is known of it: "holds", "unknown" or "violated"."""

    statement: str
    status: str
    why: str


@dataclass(frozen=True)
class Certificate:
    """Budgets and bounds for the most common group size of the run."""

    group_size: int
    budgets: list[tuple[int, int]]
    """The largest (q, s) with (2q+1)(2s+1) ≤ G, eq:resolution_frontier."""
    declared: tuple[int | None, int | None]
    supported: bool
    """Whether the declared budget is supported at this size; if not, the reference is the global M-center."""
    block_sizes: list[int]
    credit_bound: float | None
    """Largest |credit| whatever a reward is, eq:credit_global_bound; None while kappa or s_min is adaptive."""
    grpo_bound: float
    """Largest |advantage| under GRPO: bounded too; what one reward destroys is the contrast of the others."""
    failure: float
    """β_H at the best radius the premises allow, thm:finite_group with a = 1/c²; 1 means: the theorem says nothing here."""
    sentence: str
    premises: list[Premise]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def certificate(table: GroupTable, channel: RewardChannel) -> Certificate | None:
    """The certificate for the most common size of a group with two or more finite rewards; None if there is none."""
    usable = table.finite[~table.single]
    if not len(usable):
        return None
    sizes, counts = np.unique(usable, return_counts=True)
    group = int(sizes[counts.argmax()])
    blocks, fell_back = partition(group, channel)
    largest = _frontier(group)
    declared = (channel.arbitrary_blocks, channel.replaced_per_block)
    numbers = isinstance(channel.credit_bound, float | int) and isinstance(channel.credit_floor, float | int)
    failure = _best_failure(blocks.sizes, channel, fell_back)
    return Certificate(
        group_size=group,
        budgets=largest,
        declared=declared,
        supported=not fell_back,
        block_sizes=list(blocks.sizes),
        credit_bound=guarantees.credit_bound(channel.credit_bound, channel.credit_floor, group) if numbers else None,  # pyright: ignore[reportArgumentType]
        grpo_bound=(group - 1) / group**0.5,
        failure=failure,
        sentence=_sentence(group, largest, declared, fell_back, failure),
        premises=_premises(table, channel, fell_back),
    )


def _best_failure(sizes: tuple[int, ...], channel: RewardChannel, fell_back: bool) -> float:
    """β_H at the largest radius and the steepest separation that any distribution can have: a = 1/c², a·t = 1/c."""
    if fell_back:
        return 1.0
    c = channel.score_width
    return guarantees.reference_failure(
        c, sizes, channel.replaced_per_block or 0, channel.arbitrary_blocks or 0, 1 / c**2, c, radius=c
    )


def _frontier(group: int) -> list[tuple[int, int]]:
    """The budgets (q, s) with (2q + 1)(2s + 1) ≤ G that no other one exceeds in both counts, eq:resolution_frontier."""
    largest = [(q, (group // (2 * q + 1) - 1) // 2) for q in range((group - 1) // 2 + 1)]
    return [(q, s) for (q, s), after in zip(largest, [*largest[1:], (0, -1)], strict=True) if s > after[1]]


def _sentence(
    group: int, largest: list[tuple[int, int]], declared: tuple[int | None, int | None], fell_back: bool, failure: float
) -> str:
    both = [(q, s) for q, s in largest if q and s]
    more = f" (or one of {len(both) - SHOWN:,} other budgets)" if len(both) > SHOWN else ""
    can = (
        "can hold "
        + " or ".join(
            f"{q} arbitrary block{'s' * (q > 1)} with {s} replaced elsewhere per block" for q, s in both[:SHOWN]
        )
        + more
        if both
        else "cannot hold both an arbitrary block and a replaced response elsewhere: that takes at least 9 responses"
    )
    q, s = declared
    budget = "no budget is declared" if q is None or s is None else f"the declared budget (q={q}, s={s})"
    if q is not None and s is not None:
        budget += " is not supported: the global M-center is used instead" if fell_back else " is supported"
    tail = (
        " At this size the theorem on finite groups gives no probability even under the best assumptions; what remains is the "
        "deterministic bound of the credit."
        if failure >= 1
        else f" Under the best assumptions the chance of a larger error is at most {failure:.2g}."
    )
    return f"A group of {group} {can}; {budget}.{tail}"


def _premises(table: GroupTable, channel: RewardChannel, fell_back: bool) -> list[Premise]:
    worst = int(table.dominating.max(initial=0))
    most = (channel.arbitrary_blocks or 0) + (channel.replaced_per_block or 0) if not fell_back else 0
    beyond = int((table.dominating > most).sum()) if most else 0
    return [
        Premise(
            "the responses of a group are independent given the prompt",
            "unknown",
            "a dump does not show how they were sampled",
        ),
        Premise(
            "which responses are corrupted does not depend on the partition into blocks",
            "holds",
            "the partition is drawn from a fixed seed, never from the rewards",
        ),
        Premise(
            "no group has more corrupted responses than the declared budget",
            "violated" if beyond else "unknown",
            f"{beyond:,} groups have more dominating rewards than q + s = {most}; at most {worst} in one group"
            if beyond
            else "rewards that dominate are within the budget, but a corrupted reward need not stand out",
        ),
        Premise(
            "the clean rewards' score separates with a known slope (a, r0)",
            "unknown",
            "it belongs to the reward's distribution and may not be estimated from the same batch",
        ),
        Premise(
            "the clean rewards are symmetric, so that the robust reference estimates their mean",
            "unknown",
            "under skewness the reference is another, robust center",
        ),
    ]


def tolerated(rollouts: Rollouts, table: GroupTable, channel: RewardChannel) -> str | None:
    """The sentence of `tolerance_of_groups` on at most `SAMPLE` groups, evenly spaced over the run; None if it has none.

    Only groups with more than three finite rewards that are not all equal are asked: equal ones have advantages of 0. None
    also where the settings leave responses out, which depends on all rewards.
    """
    usable = np.flatnonzero((table.finite > max(BAD)) & ~table.tied)
    if not len(usable) or channel.faults != "bound":
        return None
    most = max(min(len(usable), SAMPLE, LARGEST // int(table.finite[usable].max())), 1)
    chosen = usable[np.linspace(0, len(usable) - 1, most).round().astype(np.int64)]
    rows = [rollouts.reward[rollouts.rows_of(group)] for group in chosen.tolist()]
    sentence = guarantees.tolerance_of_groups([row[np.isfinite(row)] for row in rows], channel, replaced=BAD)
    return sentence + (f" ({most:,} of {len(usable):,} groups, evenly spaced)." if most < len(usable) else ".")
