"""RoVR-GSPO on Trinity-RFT, whose registries take a class by its path:

algorithm:
  algorithm_type: grpo
  advantage_fn: rovrl.integrations.trinity.RoVRAdvantage
  policy_loss_fn: rovrl.integrations.trinity.RoVRGSPOLoss
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rovrl.integrations import functions
from rovrl.integrations.environment import channels, check_engine

TESTED_TRINITY = ("0.6", "0.7")
"""Tested from the first up to, not including, the second."""
check_engine("trinity-rft", TESTED_TRINITY)
channels()  # settings that are wrong are refused here, when Trinity-RFT looks the class up

from trinity.algorithm.advantage_fn.advantage_fn import GroupAdvantage  # noqa: E402  # pyright: ignore[reportMissingImports]
from trinity.algorithm.policy_loss_fn.gspo_policy_loss import GSPOLossFn  # noqa: E402  # pyright: ignore[reportMissingImports]
from trinity.algorithm.utils import aggregate_loss  # noqa: E402  # pyright: ignore[reportMissingImports]
from trinity.common.experience import group_by  # noqa: E402  # pyright: ignore[reportMissingImports]


class RoVRAdvantage(GroupAdvantage):
    """The bounded credit of eq:credit_advantage, for the experiences of a batch, grouped by task."""

    def group_experiences(self, exps: list[Any]) -> dict[str, list[Any]]:
        """task -> its experiences."""
        return group_by(exps, id_type="task")

    def calculate_group_advantage(self, group_id: str, exps: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """The experiences of one group alone, with their advantages; `process` takes all groups at once."""
        return self.process(exps)

    def process(self, exps: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """All experiences with their advantages, and the metrics of docs/metrics.md."""
        if not exps:
            return [], {}
        last: dict[
            tuple[str, int], Any
        ] = {}  # the last step of each run of a task: a run with several steps counts once
        for task, group in self.group_experiences(exps).items():
            for each in group:
                if (task, each.eid.run) not in last or last[task, each.eid.run].eid.step < each.eid.step:
                    last[task, each.eid.run] = each
        rewards = torch.tensor([_number(each.reward) for each in last.values()], dtype=torch.float64)
        found = functions.run().advantages(rewards, [task for task, _ in last])
        credit = dict(zip(last, found.tolist(), strict=True))
        for task, group in self.group_experiences(exps).items():
            for each in group:
                each.advantages = credit[task, each.eid.run] * each.action_mask
                each.returns = each.advantages.clone()
        return exps, functions.run().metrics()

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """None: settings come from ROVRL_REWARD_CHANNEL."""
        return {}


class RoVRGSPOLoss(GSPOLossFn):
    """Trinity-RFT's GSPO loss with SoftRoVR and its own gradient in place of the mean; its arguments are GSPO's."""

    def __call__(
        self, logprob: Tensor, old_logprob: Tensor, action_mask: Tensor, advantages: Tensor, **kwargs: Any
    ) -> tuple[Tensor, dict[str, float]]:
        """(loss, metrics) of one micro-batch."""
        clip = (self.clip_range_low, self.clip_range_high)
        losses, metrics = functions.policy_loss(logprob, old_logprob, advantages, action_mask, clip)
        loss = aggregate_loss(values=losses, mask=action_mask, loss_agg_mode=self.loss_agg_mode)
        clipped = metrics["rovr/clip_upper"] + metrics["rovr/clip_lower"]
        return loss, {"pg_clipfrac": clipped, "pg_loss": loss.detach().item(), **metrics}


def _number(reward: Any) -> float:
    return float("nan") if reward is None else float(reward)
