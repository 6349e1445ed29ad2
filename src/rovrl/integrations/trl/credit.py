"""The reward channel in TRL's trainers that score whole groups, GRPO's and RLOO's: their advantages replaced by ours."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rovrl import baselines
from rovrl.advantage import Explanation
from rovrl.diagnostics import reward_metrics
from rovrl.errors import RovrlError, place_of
from rovrl.integrations.hf.rewards import channel_input, total
from rovrl.integrations.hf.trainer import RobustTrainer
from rovrl.integrations.trl.rewards import RewardTransform, transformed
from rovrl.partition import could_adapt
from rovrl.run import RewardRun

logger = logging.getLogger("rovrl")


class CreditedTrainer(RobustTrainer):
    """What goes before TRL's trainer in the order of classes; its config has `advantage` and `credit_per_function`."""

    reward_transform: RewardTransform | None = None
    reward_weights: Tensor
    num_generations: int
    num_generations_eval: int | None
    _logs: dict[str, Any]
    _gathered: tuple[Tensor, Sequence[str]] | None = None

    @property
    def last_explanation(self) -> Explanation | None:
        """What the reward channel did to the latest training generation, for callbacks."""
        return None if self.reward_run is None else self.reward_run.last

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        engine: Any = super()
        try:
            rewards = engine._calculate_rewards(*args, **kwargs)
        except RovrlError:
            raise
        except Exception as error:
            raise RovrlError(
                f"a reward function failed in generation {self._generation}{place_of(error)}: {type(error).__name__}: {error}. "
                "It must return one number, or None, per completion. Checkpoints and records of finished steps are kept"
            ) from error
        labels: Sequence[str] = [""] * len(rewards)
        if self.reward_transform is not None and self.is_training:
            rewards, labels = transformed(self.reward_transform, rewards, self._generation)
        self._gathered = (rewards, labels)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        training = self.is_training
        if training:
            self.next_generation()
        engine: Any = super()
        output = engine._generate_and_score_completions(inputs)
        assert self._gathered is not None
        (per_function, labels), self._gathered = self._gathered, None
        info = None if self.reward_run is None else self._explain(self.reward_run, per_function, output, training)
        if info is not None:
            self._replace_advantages(info.advantages, output)
        if training:
            self._scored(output, total(per_function, self.reward_weights), labels, info)
        return output

    def _scored(self, output: dict[str, Any], rewards: Tensor, labels: Sequence[str], info: Explanation | None) -> None:
        """Called once per training generation, with everything that is known of it."""

    def _rewards(self, per_function: Tensor, output: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        """(rewards, weights) that the channel takes, of all ranks."""
        args: Any = self.args
        return channel_input(per_function, self.reward_weights, args.credit_per_function)

    def _explain(self, run: RewardRun, per_function: Tensor, output: dict[str, Any], training: bool) -> Explanation:
        args: Any = self.args
        group = self.num_generations if training else self.num_generations_eval
        ids = torch.arange(len(per_function)) // int(group or 1)
        method: Any = baselines.ADVANTAGES.get(args.advantage, args.advantage)
        rewards, weights = self._rewards(per_function, output)
        info = (run.explain if training else run.evaluate)(rewards, ids, weights=weights, method=method)
        self.add_metrics(reward_metrics(info, run.functions))
        if training:
            blocks = {size: blocks.members for size, blocks in info.blocks.items()}
            adapt = "could" if could_adapt(info.channel) else "could not"
            logger.info(
                f"generation {self._generation}: partition seed {run.partition_seed()}, blocks {blocks}; corruption {adapt} "
                "adapt to them"
            )
        return info

    def _replace_advantages(self, advantages: Tensor, output: dict[str, Any]) -> None:
        """Puts ours in place of TRL's: in what is trained on, and in the table of completions that TRL logs."""
        table = self._logs["advantages"]
        for _ in range(min(len(advantages), len(table))):
            table.pop()
        table.extend(advantages.tolist())
        output["advantages"] = advantages[self._own_rows(output)].to(output["advantages"])

    def _own_rows(self, output: dict[str, Any]) -> slice:
        local = len(output["advantages"])
        return slice(self.accelerator.process_index * local, (self.accelerator.process_index + 1) * local)
