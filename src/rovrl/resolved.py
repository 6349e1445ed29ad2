"""The settings of a batch with numbers in place of "lagged" and "adaptive", group by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.faults import Faults
from rovrl.groups import Bucket
from rovrl.partition import Partition
from rovrl.robust.units import plain
from rovrl.scales import StepScales, batch_scales, in_unit, is_adaptive, needs_scale, resolve


@dataclass(frozen=True)
class Resolved:
    """Settings with numbers in place of words: in common, and for each number of responses that count."""

    channel: RewardChannel
    common: RewardChannel
    by_size: dict[int, RewardChannel]
    factors: list[Tensor]
    """For each bucket, the unit of each group over the common one; empty if there is one unit."""
    level: float = 0.0
    """The level of merit that adaptive credit is measured in; 0 if it is measured in the spread."""

    @classmethod
    def of(
        cls,
        groups: list[Tensor],
        used: dict[int, Partition],
        channel: RewardChannel,
        method: object,
        known: StepScales | None,
        faults: Faults | None = None,
    ) -> Resolved:
        """By what is known of earlier steps, else by this batch; a level of merit is two spreads, if all is in one unit."""
        if not any(needs_scale(channel, blocks) for blocks, _ in used.values()):
            return cls(channel, channel, dict.fromkeys(used, channel), [])
        if known is None:
            scale, spread, factors = batch_scales(groups, channel, measure=faults.measure if faults else plain)
        else:
            (scale, spread, _), factors = known, []
        if method == "loo":  # finds its numbers without the response's own reward
            return cls(channel, resolve(channel, scale, spread=spread), dict.fromkeys(used, channel), [])
        level = faults.level if faults else 0.0
        level = level if is_adaptive(channel) and level > 2 * spread and _one_unit(known, factors) else 0.0
        spread = level / 2 if level else spread
        by_size = {m: resolve(channel, scale, blocks, spread=spread) for m, (blocks, _) in used.items()}
        return cls(channel, resolve(channel, scale, spread=spread), by_size, factors, level)

    def by_unit(self, found: list[Bucket], known: StepScales | None) -> Iterator[tuple[Bucket, float]]:
        """The buckets, those with groups of several units in parts, each with its unit over the common one."""
        for k, (m, groups, rows) in enumerate(found):
            factors = known.factors[groups] if known is not None else self.factors[k] if self.factors else None
            for factor in [1.0] if factors is None or not is_adaptive(self.channel) else factors.unique().tolist():
                chosen = slice(None) if factors is None or bool((factors == factor).all()) else factors == factor
                yield (m, groups[chosen], rows[chosen]), factor

    def for_groups(self, size: int, factor: float) -> RewardChannel:
        """The settings for groups of so many responses, in their unit."""
        return in_unit(self.by_size[size], self.channel, factor)


def _one_unit(known: StepScales | None, factors: list[Tensor]) -> bool:
    return all(bool((unit == 1).all()) for unit in (factors if known is None else [known.factors]))
