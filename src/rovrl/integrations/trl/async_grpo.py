"""RoVR-GSPO on TRL's asynchronous GRPO trainer: `RoVRAsyncConfig` and `RoVRAsyncTrainer`, and no line of it copied.

Not imported by `rovrl.integrations.trl`: TRL calls this trainer experimental, and warns of it.

TRL's loss has a weight per token, the exponential of log π - log π_rollout. The ratio channel gives it the same one for all
tokens of a response, SoftRoVR of their log-ratios, by handing TRL's own loss a model that says so; packing, clipping, the mean
over tokens and the metrics stay TRL's. The advantages are replaced where the trainer takes the responses in (`CreditedQueue`).
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import trl
from torch import Tensor

from rovrl import baselines
from rovrl.config import RatioChannel, RewardChannel
from rovrl.diagnostics import reward_metrics, weight_metrics
from rovrl.errors import RovrlError
from rovrl.integrations.hf import RobustTrainer, channel_input
from rovrl.integrations.trl.checks import (
    ADVANTAGE_NAMES,
    PER_FUNCTION,
    SUMMED,
    check_advantage,
    check_aggregation,
    check_clip,
    check_rewards,
    warn_of_fallback,
    warn_of_wide_clip,
)
from rovrl.integrations.trl.config import ROVR, TOKEN_CLIP, check_trl, mapping, run_without_accelerator
from rovrl.loss import CLIP_HIGH, CLIP_LOW, MAX_LOG_WEIGHT
from rovrl.robust.kernels import compiled
from rovrl.run import RewardRun
from rovrl.weight import soft_rovr_packed

TESTED_ASYNC = ("1.16", "1.17")
"""Tested from the first up to, not including, the second: narrower than for the others, since this trainer still changes."""


def check_async_trl(version: str) -> None:
    """A RovrlError if the asynchronous trainer of this version of TRL was not tested."""
    check_trl(version, TESTED_ASYNC, "rovrl's asynchronous trainer")


check_async_trl(trl.__version__)

try:
    from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig
    from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer
except ImportError as error:
    raise RovrlError(f"TRL's asynchronous trainer cannot be imported ({error}): pip install that package") from error


@dataclass
class RoVRAsyncConfig(AsyncGRPOConfig):
    """Configuration of `RoVRAsyncTrainer`: every field of TRL's AsyncGRPOConfig, plus the two channels; None switches one off.

    Without the ratio channel the loss is TRL's own, with a weight per token.
    """

    _VALID_DICT_FIELDS = [*AsyncGRPOConfig._VALID_DICT_FIELDS, "reward_channel", "ratio_channel"]  # noqa: RUF012

    epsilon: float | None = field(
        default=None, metadata={"help": "Lower clip. Default: 3e-4 with the ratio channel (GSPO), 0.2 without."}
    )
    epsilon_high: float | None = field(
        default=None, metadata={"help": "Upper clip. Default: 4e-4 with the ratio channel if epsilon is not given."}
    )
    reward_channel: dict[str, Any] | str | RewardChannel | None = field(
        default_factory=dict,
        metadata={"help": "Fields of RewardChannel as a dict; {} is the paper's setting, none is TRL's own advantage."},
    )
    ratio_channel: dict[str, Any] | str | RatioChannel | None = field(
        default_factory=dict,
        metadata={"help": "Fields of RatioChannel as a dict; {} is the paper's setting, none is a weight per token."},
    )
    advantage: str = field(
        default="credit", metadata={"help": f"What the reward channel computes: {', '.join(ADVANTAGE_NAMES)}."}
    )
    multi_objective_aggregation: str = field(
        default=SUMMED, metadata={"help": f"{SUMMED}: credit of the sum; {PER_FUNCTION}: credit per reward function."}
    )

    steps_per_generation = (
        None  # a generation here is what the queue gives out at once: it is never cut by a checkpoint
    )

    def __post_init__(self) -> None:
        self.reward_channel = RewardChannel.fields_of("reward_channel", self.reward_channel)
        self.ratio_channel = RatioChannel.fields_of("ratio_channel", self.ratio_channel)
        reward, ratio = self.reward_settings, self.ratio_settings
        if self.epsilon is None and self.epsilon_high is None and ratio is not None:
            self.epsilon_high = CLIP_HIGH
        if self.epsilon is None:
            self.epsilon = TOKEN_CLIP if ratio is None else CLIP_LOW
        check_clip(self.epsilon, self.epsilon_high)
        run_without_accelerator(self)
        super().__post_init__()
        check_advantage(self, reward)
        check_aggregation(self)
        if ratio is not None:
            warn_of_wide_clip(self.epsilon, self.epsilon_high)
        if reward is not None and self.advantage in ("credit", "center") and self.process_index == 0:
            warn_of_fallback(reward, self.num_generations)

    @property
    def reward_settings(self) -> RewardChannel | None:
        """The reward channel, checked; None if it is off."""
        return None if self.reward_channel is None else RewardChannel.from_dict(mapping("reward_channel", self))

    @property
    def ratio_settings(self) -> RatioChannel | None:
        """The ratio channel, checked; None if it is off."""
        return None if self.ratio_channel is None else RatioChannel.from_dict(mapping("ratio_channel", self))

    @property
    def credit_per_function(self) -> bool:
        """Whether each reward function gets credit of its own, and these are summed up; if not, the sum gets credit."""
        return self.multi_objective_aggregation == PER_FUNCTION

    @property
    def groups_at_once(self) -> int:
        """How many prompts one optimizer step is made of: so many get their credit together."""
        responses = self.per_device_train_batch_size * self.gradient_accumulation_steps * self.world_size
        return max(1, responses // self.num_generations)


Conversation = list[Any]
"""The rows (TRL's `RolloutSample`) of one response: several where TRL cut a conversation in pieces."""
PATIENCE = 60.0
"""Seconds without a new response after which the groups at hand get their credit, though fewer than were to come together."""


class CreditedQueue:
    """The rollout worker's queue behind TRL's `get` and `qsize`.

    `credit` takes groups, each a list of conversations, and sets the advantage of every row. A group is whole when it has
    `group_size` conversations, or when the next one begins: a worker puts the rows of a group one behind the other.
    """

    def __init__(
        self, arriving: Any, credit: Callable[[list[list[Conversation]]], None], group_size: int, groups_at_once: int
    ) -> None:
        self._arriving, self._credit, self._size, self._at_once = arriving, credit, group_size, groups_at_once
        self._open: list[Conversation] = []  # the group that is arriving
        self._whole: list[list[Conversation]] = []
        self._ready: deque[Any] = deque()
        self._given: set[Any] = set()  # ids of groups that were whole
        self._latest: Conversation = []
        self._heard = time.monotonic()

    def qsize(self) -> int:
        """How many responses wait, here and with the worker."""
        held = sum(len(rows) for group in (*self._whole, self._open) for rows in group)
        return len(self._ready) + held + self._arriving.qsize()

    def get(self, timeout: float | None = None) -> Any:
        """The next row with its advantage; `queue.Empty` if none came within the timeout."""
        while not self._ready:
            try:
                self._take(self._arriving.get(timeout=timeout))
            except queue.Empty:
                if len(self._open) >= self._size:
                    self._close()
                patient = time.monotonic() - self._heard < PATIENCE
                if not self._whole or (patient and len(self._whole) < self._at_once):
                    raise
                self._give()
        return self._ready.popleft()

    def _take(self, row: Any) -> None:
        self._heard = time.monotonic()
        if row.group_id in self._given:
            self._late(row)
            return
        if self._open and row.group_id != self._open[0][0].group_id:
            self._close()
        if self._open and _continues(self._open[-1], row):
            self._open[-1].append(row)
        else:
            self._open.append([row])
        if len(self._open) == self._size and _turns(row) < 2:
            self._close()
        if len(self._whole) >= self._at_once:
            self._give()

    def _late(self, row: Any) -> None:
        """A further piece of the conversation that came last gets its advantage; anything else has no group any more."""
        if not (self._latest and row.group_id == self._latest[0].group_id and _continues(self._latest, row)):
            raise RovrlError(
                f"a response to prompt group {row.group_id} came after that group was whole: the rollout worker must put the "
                f"responses to a prompt one behind the other, {self._size} of them (num_generations), and number groups anew"
            )
        if self._whole and self._whole[-1][-1] is self._latest:
            self._latest.append(row)
        else:
            row.advantage = self._latest[0].advantage
            self._ready.append(row)

    def _close(self) -> None:
        self._given.add(self._open[0][0].group_id)
        self._latest = self._open[-1]
        self._whole.append(self._open)
        self._open = []

    def _give(self) -> None:
        groups, self._whole = self._whole, []
        self._credit(groups)
        self._ready.extend(row for group in groups for rows in group for row in rows)


def _turns(row: Any) -> int:
    """How often the policy spoke in the conversation: one that spoke once cannot have been cut."""
    spoken = row.completion if isinstance(row.completion, list) else []
    return sum(isinstance(message, dict) and message.get("role") == "assistant" for message in spoken)


def _continues(conversation: Conversation, row: Any) -> bool:
    """Whether the row is a further piece: the same messages of several turns, and not the first piece once more, with which
    another response that happens to be equal would begin."""
    first = conversation[0]
    same = _turns(row) > 1 and row.completion == first.completion
    return same and not np.array_equal(row.input_ids, first.input_ids)


TOTAL, BY_FUNCTION = "reward", "rewards/"
"""Under which names TRL's rollout workers tell the rewards of a response."""
PLACE, OLD, CREDIT, RESPONSE = "token_index", "old_log_probs", "advantages", "segment_id"
"""TRL's names for what a packed row tells of each trained token."""


class RoVRAsyncTrainer(RobustTrainer, AsyncGRPOTrainer):
    """TRL's AsyncGRPOTrainer with the reward channel and the ratio channel."""

    args: RoVRAsyncConfig
    loss_type = "dapo"  # what TRL calls a mean over all tokens
    num_iterations = 1
    _step = 0
    _tag_names = ["trl", "rovr-async-gspo"]  # noqa: RUF012
    _name = "RoVR-GSPO (asynchronous)"
    _paper = ROVR

    def __init__(self, model: Any, reward_funcs: Any = None, args: Any = None, *more: Any, **kwargs: Any) -> None:
        if not isinstance(args, RoVRAsyncConfig):
            raise TypeError(
                f"RoVRAsyncTrainer needs a RoVRAsyncConfig (with any field of AsyncGRPOConfig), not {type(args).__name__}"
            )
        check_rewards(reward_funcs, None)
        super().__init__(model, reward_funcs, args, *more, **kwargs)
        self.set_channels(args.reward_settings, args.ratio_settings, ())
        if self.reward_run is not None and self.rollout_queue is not None:
            self.rollout_queue: Any = CreditedQueue(
                self.rollout_queue, self._credit, args.num_generations, args.groups_at_once
            )

    # The reward channel

    def _credit(self, groups: list[list[Conversation]]) -> None:
        """Puts our advantages onto the rows of these groups; a response in several pieces counts once."""
        run = self.reward_run
        assert isinstance(run, RewardRun)
        responses = [rows for group in groups for rows in group]
        told = [rows[0].metrics for rows in responses]
        ids = [i for i, group in enumerate(groups) for _ in group]
        rewards, weights = self._rewards(told, run)
        self.next_generation()
        method: Any = baselines.ADVANTAGES.get(self.args.advantage, self.args.advantage)
        info = run.explain(rewards, ids, weights=weights, method=method)
        for rows, advantage in zip(responses, info.advantages.tolist(), strict=True):
            for row in rows:
                row.advantage = advantage
        for name, value in reward_metrics(info, run.functions).items():
            self._metrics["train"][name].append(value)

    def _rewards(self, told: list[dict[str, float]], run: RewardRun) -> tuple[Tensor, Tensor | None]:
        """(rewards, weights) that the channel takes: what the worker says is the total, or each function's own."""
        names = list(dict.fromkeys(name for each in told for name in each if name.startswith(BY_FUNCTION)))
        per_function = self.args.credit_per_function and len(names) > 1
        if not per_function:
            names = [TOTAL]
        missing = next((name for name in names if not any(name in each for each in told)), None)
        if missing is not None:
            raise RovrlError(
                f"the rollout worker told no {missing!r} in the metrics of its responses, so nothing can get credit: "
                "set sample.metrics['reward'] (nan: not scored), or reward_channel=None for the worker's own advantages"
            )
        if not run.functions:
            run.functions = [name.removeprefix(BY_FUNCTION) for name in names]
        table = torch.tensor([[each.get(name, torch.nan) for name in names] for each in told], dtype=torch.float64)
        return channel_input(table, torch.ones(len(names)), per_function)

    # The ratio channel

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """TRL's loss; with the ratio channel every trained token has the log-ratio of its response."""
        if self.ratio_channel is None:
            return super().compute_loss(model, inputs, *args, **kwargs)
        trained = inputs[PLACE] >= 0
        places = inputs[PLACE][trained]
        packed = {name: inputs[name][trained] for name in (OLD, CREDIT, RESPONSE)}

        def scored(**given: Any) -> Any:
            outputs = model(**given)
            # A position that several responses share is told once for each, since their weights differ
            outputs.log_probs = self._log_weights(outputs.log_probs.flatten()[places], **packed)
            outputs.entropy = outputs.entropy.flatten()[places]
            return outputs

        each = torch.arange(len(places), device=places.device)
        told = {PLACE: inputs[PLACE].masked_scatter(trained, each), OLD: torch.zeros_like(inputs[OLD])}
        return super().compute_loss(scored, {**inputs, **told}, *args, **kwargs)

    def _log_weights(self, log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, segment_id: Tensor) -> Tensor:
        """SoftRoVR of each response's log-ratios, at each of its tokens; the tokens of a response lie one behind the other."""
        assert self.ratio_channel is not None
        log_ratios = log_probs - old_log_probs
        lengths = torch.bincount(segment_id)
        ends = lengths.cumsum(0)
        with compiled():
            log_weight = soft_rovr_packed(log_ratios, torch.cat([ends.new_zeros(1), ends]), self.ratio_channel)
        log_weight = log_weight.clamp(max=MAX_LOG_WEIGHT)
        with torch.no_grad():
            zeros = torch.zeros_like(log_weight)
            mean = zeros.index_add(0, segment_id, log_ratios.to(zeros.dtype)) / lengths.clamp(min=1)
            credit = zeros.scatter(0, segment_id, advantages.to(zeros.dtype))
            clip, sum_over_ranks = (self.epsilon_low, self.epsilon_high), self.accelerator.reduce
            self.add_metrics(weight_metrics(log_weight, mean, credit, lengths > 0, clip, sum_over_ranks))  # pyright: ignore[reportArgumentType]
        return log_weight[segment_id]
