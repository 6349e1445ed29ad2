"""What a training loop carries from step to step, whatever the engine: one `RewardRun` per run.

run = rovrl.RewardRun(rovrl.RewardChannel(), seed=0)
advantages = run.advantages(rewards, group_ids)      # once per step
log(run.metrics())
checkpoint["rovr"] = run.state_dict()                # and run.load_state_dict(...) after a restart
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.advantage import Advantage, Explanation, by_function, explain_groups, weighted_sum
from rovrl.config import RewardChannel
from rovrl.diagnostics import reward_metrics
from rovrl.faults import FaultWindow, find_faults
from rovrl.groups import GroupIds, Groups, Partitions, Rewards
from rovrl.robust.kernels import compiled_if_large
from rovrl.robust.scale import LaggedScale
from rovrl.scales import scales_for_step


@dataclass
class Memory:
    """What is remembered of one reward function. Each field has a `state_dict` and a `load_state_dict`."""

    scales: LaggedScale = field(default_factory=LaggedScale)
    window: FaultWindow = field(default_factory=FaultWindow)

    def state_dict(self) -> dict[str, Any]:
        """Plain values: field -> its state."""
        return {name: part.state_dict() for name, part in vars(self).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        for name, part in vars(self).items():
            part.load_state_dict(state[name])

    def explain(
        self,
        rewards: Float[Tensor, " n"],
        groups: Groups,
        channel: RewardChannel,
        partitions: Partitions,
        method: str | Advantage,
    ) -> Explanation:
        """One step of one reward function: settings and faults by the steps before it, then this step is taken in."""
        coded = groups.code, groups.count
        faults = find_faults(rewards, *coded, self.window) if channel.faults == "reject" else None
        with compiled_if_large(len(rewards)):
            if faults is None:
                known = scales_for_step(channel, self.scales, rewards, *coded)
            else:
                kept = torch.where(faults.rejected, torch.nan, rewards)
                known = scales_for_step(channel, self.scales, kept, *coded, rewards, faults.measure)
        info = explain_groups(rewards, groups, channel, partitions, method, faults=faults, scales=known)
        if faults is not None:
            self.window.add(rewards, groups.code)
        return replace(info, lagged_scale=known.scale or None, lagged_spread=known.spread or None)


class RewardRun:
    """The reward channel over a whole run: lagged scale and spread, partition seeds, settings by step, metrics, state.

    Every rank that feeds it the same rewards gets the same advantages: the only random draw, the partition, is seeded by
    the run's seed and the number of the step.
    """

    def __init__(self, channel: RewardChannel | str = RewardChannel(), *, seed: int = 0) -> None:  # noqa: B008 - frozen
        self.channel = RewardChannel.of(channel)
        self.seed = _whole("the seed of a RewardRun", seed)
        self.step = 0
        """How many steps were taken."""
        self.last: Explanation | None = None
        """What the latest step did; None before the first."""
        self.functions: Sequence[str] = ()
        """The names of the reward functions, for the metrics of each where there are several."""
        self._memory: list[Memory] = []  # one per reward function

    def advantages(
        self, rewards: Rewards, group_ids: GroupIds, *, weights: Sequence[float] | Tensor | None = None
    ) -> Float[Tensor, " n"]:
        """The advantages of one training step, as `grouped_advantages` with what the earlier steps know."""
        return self.explain(rewards, group_ids, weights=weights).advantages

    @torch.no_grad()
    def explain(
        self,
        rewards: Rewards,
        group_ids: GroupIds,
        *,
        weights: Sequence[float] | Tensor | None = None,
        method: str | Advantage = "credit",
    ) -> Explanation:
        """One training step with everything that led to its advantages; `method` as in `rovrl.explain`.

        A batch that is refused, and a step that is interrupted, leave the run as it was.
        """
        after = self._copy()
        after.step += 1
        info = after._explain(rewards, group_ids, weights, method, training=True)
        self.__dict__.update(step=after.step, last=info, _memory=after._memory)  # at once: Ctrl-C comes before or after
        return info

    @torch.no_grad()
    def evaluate(
        self,
        rewards: Rewards,
        group_ids: GroupIds,
        *,
        weights: Sequence[float] | Tensor | None = None,
        method: str | Advantage = "credit",
    ) -> Explanation:
        """What a step on these rewards would do now: reads what the run knows, and leaves all of it as it is."""
        return self._copy()._explain(rewards, group_ids, weights, method, training=False)

    def metrics(self) -> dict[str, float]:
        """The numbers of docs/metrics.md about the latest step, `rovr/<name>` -> value; {} before the first."""
        return {} if self.last is None else reward_metrics(self.last, self.functions)

    def partition_seed(self, training: bool = True) -> int:
        """The seed of this step's random blocks: the same on every rank and after a resume."""
        return (self.seed * 1_000_003 + self.step * 2 + training) % 2**63

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on as if the run had never stopped, as plain JSON values."""
        return {"seed": self.seed, "step": self.step, "memory": [memory.state_dict() for memory in self._memory]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave; a state that is not one is a ValueError, and leaves the run as it was."""
        try:
            seed, step = _whole("seed", state["seed"]), _whole("step", state["step"], least=0)
            memory = [Memory() for _ in state["memory"]]
            for part, saved in zip(memory, state["memory"], strict=True):
                part.load_state_dict(saved)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is not the state of a RewardRun: {type(error).__name__}: {error}") from error
        self.__dict__.update(seed=seed, step=step, _memory=memory)

    def _copy(self) -> Self:
        """The same run with a memory of its own."""
        copied = copy.copy(self)
        copied._memory = copy.deepcopy(self._memory)
        return copied

    def _explain(
        self,
        rewards: Rewards,
        group_ids: GroupIds,
        weights: Sequence[float] | Tensor | None,
        method: str | Advantage,
        training: bool,
    ) -> Explanation:
        columns, shares = by_function(rewards, weights)
        memory = self._remembered(len(columns))
        generator = torch.Generator().manual_seed(self.partition_seed(training))
        groups, partitions = Groups.of(group_ids, columns[0]), Partitions(self.channel, generator)
        parts = [
            known.explain(column, groups, self.channel, partitions, method)
            for known, column in zip(memory, columns, strict=True)
        ]
        return parts[0] if shares is None else weighted_sum(parts, shares, self.channel)

    def _remembered(self, functions: int) -> list[Memory]:
        if not self._memory:
            self._memory = [Memory() for _ in range(functions)]
        if len(self._memory) != functions:
            raise ValueError(f"this run has {len(self._memory)} reward functions, and these rewards are of {functions}")
        return self._memory


def _whole(name: str, value: Any, least: int | None = None) -> int:
    """A whole number of Python's or NumPy's; anything else is a ValueError."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        raise ValueError(
            f"{name} must be a whole number{'' if least is None else f' of at least {least}'}, not {value!r}"
        )
    return number
