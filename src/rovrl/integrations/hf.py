"""A Trainer of transformers with two channels: what TRL's and ms-swift's GRPO trainers are given, and no line of them copied.

The sequence weight is changed by *recentring*: inside the engine's loss the log-probabilities of response i come back
shifted by c_i = SoftRoVR(l_i) - mean(l_i), so that the engine's own mean of the log-ratios l_i is SoftRoVR(l_i), value and
gradient. Clipping, aggregation and the engine's metrics stay its own.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rovrl import baselines
from rovrl.config import RatioChannel, RewardChannel
from rovrl.diagnostics import metric, weight_metrics
from rovrl.errors import RovrlError, require
from rovrl.loss import MAX_LOG_WEIGHT
from rovrl.output.files import write_json
from rovrl.robust.kernels import compiled
from rovrl.run import RewardRun
from rovrl.weight import gspo_mean, soft_rovr


def total(per_function: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum over reward functions [response, function] -> [response], float64 on the CPU.

    A function that returned None (NaN) adds nothing; a response without any score stays NaN, as in TRL.
    """
    values = per_function.detach().double().cpu()
    summed = (values * weights.double().cpu()).nansum(-1)
    return torch.where(values.isnan().all(-1), torch.nan, summed)


def channel_input(per_function: Tensor, weights: Tensor, credit_per_function: bool) -> tuple[Tensor, Tensor | None]:
    """(rewards, weights) as `RewardRun` takes them: the weighted sum alone, or each function's own with the weights."""
    if not credit_per_function:
        return total(per_function, weights), None
    return per_function.detach().double().cpu(), weights.double().cpu()


Trainer = require("transformers", extra="train").Trainer
STATE_FILE = "rovr_state.json"

logger = logging.getLogger("rovrl")


class ResumableTrainer(Trainer):
    """A Trainer that counts its generations, keeps a `RewardRun`, and writes both into its checkpoints.

    The engine brings `num_iterations`, `args.steps_per_generation` and `_step`, the number of backward passes.
    """

    reward_run: RewardRun | None = None
    num_iterations: int
    _step: int
    _tr_loss: Any = 0.0
    _total_loss_scalar: float = 0.0
    _earlier_loss: float = 0.0  # the sum over the steps before a resume, without which train_loss would be too small

    def begin_run(self, channel: RewardChannel | None, functions: Sequence[str]) -> None:
        """A fresh run of the reward channel (None: off) over reward functions of these names."""
        self.reward_run = None if channel is None else RewardRun(channel, seed=self.args.seed)
        if self.reward_run is not None:
            self.reward_run.functions = functions
        self._generation = 0
        self._before_generation = self._state()

    @property
    def is_training(self) -> bool:
        """Training, as opposed to evaluation, by the model's own mode, as the engines decide it."""
        return self.model is not None and self.model.training

    @property
    def backward_passes_per_generation(self) -> int:
        """How many training steps of the engine use one generation of responses."""
        args: Any = self.args
        return (args.steps_per_generation or 1) * self.num_iterations

    @property
    def generation_is_finished(self) -> bool:
        """Whether the responses at hand have been used for the last time."""
        return self._step % self.backward_passes_per_generation == 0

    def next_generation(self) -> None:
        """Called before the reward channel takes in a generation."""
        self._before_generation = self._state()
        self._generation += 1

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """The engine's training step; the first one after a resume takes up the sum of losses, which starts at 0."""
        if self._earlier_loss:
            self._total_loss_scalar, self._earlier_loss = self._total_loss_scalar + self._earlier_loss, 0.0
            self._initial_global_step = 0  # transformers 5.23 divides that sum by the steps since this one
        return super().training_step(*args, **kwargs)

    def _state(self) -> dict[str, Any]:
        run = self.reward_run
        return {"generation": self._generation, "reward_run": None if run is None else run.state_dict()}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Inside a generation its responses are drawn again after a resume: then the state before them is the right one.
        state = self._state() if self.generation_is_finished else self._before_generation
        if self.args.should_save:  # before the engine's files, so that a checkpoint with those has this one too
            folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            loss = self._total_loss_scalar + float(self._tr_loss)
            _write(folder / STATE_FILE, {**state, "backward_passes": self._step, "loss_sum": loss})
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / STATE_FILE
        if not path.exists():
            logger.warning(
                f"{checkpoint} has no {STATE_FILE} (not a checkpoint of a RoVR trainer): its scale starts anew."
            )
            return
        try:
            state = json.loads(path.read_text())
            generation, passes = (_count(name, state[name]) for name in ("generation", "backward_passes"))
            if self.reward_run is not None and state["reward_run"] is not None:
                self.reward_run.load_state_dict(state["reward_run"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RovrlError(f"{path} is damaged ({error}): resume from an earlier checkpoint") from error
        self._generation, self._step = generation, passes
        self._earlier_loss = float(state.get("loss_sum") or 0.0)
        if not self.generation_is_finished:
            updates = max(1, self.backward_passes_per_generation // self.args.gradient_accumulation_steps)
            logger.warning(
                f"{checkpoint} was saved inside a generation, whose responses are now drawn again: the run goes on, but not "
                f"exactly as it would have. For an exact resume let save_steps be a multiple of {updates}."
            )


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, not {value!r}")
    return value


def _write(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, state)


WEIGHTS = {"soft_rovr": lambda log_ratios, mask, channel, _: soft_rovr(log_ratios, mask, channel), **baselines.WEIGHTS}
UNCLIPPED_LOSSES = ("sapo",)
DISAGREEMENT_LIMIT = 0.5
"""rovr/weight_disagreement above this is reported to the user: the clip no longer sees most of what the policy did."""
RECENT = 8
"""Over how many batches it is averaged for that: a single one may lie above in a healthy run."""


class RobustTrainer(ResumableTrainer):
    """What goes before an engine's GRPO trainer in the order of classes: channels, recentring, metrics, state.

    The engine brings `loss_type`, `epsilon_low`, `epsilon_high`, `_metrics` and `reward_func_names`.
    """

    ratio_channel: RatioChannel | None = None
    loss_type: str
    epsilon_low: float
    epsilon_high: float
    _metrics: dict[str, Any]

    def set_channels(self, reward: RewardChannel | None, ratio: RatioChannel | None, functions: Sequence[str]) -> None:
        """Called once the engine's trainer is built; a channel that is None leaves the engine's own statistic."""
        self.begin_run(reward, functions)
        self.ratio_channel = ratio
        self._disagreements: deque[float] = deque(maxlen=RECENT)
        self._warned = False

    def add_metrics(self, found: dict[str, float]) -> None:
        """Among the engine's own, for training or evaluation."""
        for name, value in found.items():
            self._metrics["train" if self.is_training else "eval"][name].append(value)

    def shift(self, log_probs: Tensor, old: Tensor | None, mask: Tensor, advantages: Tensor, weight: str) -> Tensor:
        """c = robust log weight - mean log-ratio, [response, 1]; `old` is None where the policy has not moved yet.

        Gradient: that of both, into `log_probs`.
        """
        assert self.ratio_channel is not None
        log_ratios = log_probs - (log_probs.detach() if old is None else old)
        mean = gspo_mean(log_ratios, mask)
        with compiled():
            log_weight = WEIGHTS[weight](log_ratios, mask, self.ratio_channel, advantages).clamp(max=MAX_LOG_WEIGHT)
        if old is not None:
            clip = None if self.loss_type in UNCLIPPED_LOSSES else (self.epsilon_low, self.epsilon_high)
            sum_over_ranks: Any = self.accelerator.reduce
            self.add_metrics(weight_metrics(log_weight, mean, advantages, mask.any(-1), clip, sum_over_ranks))
        return (log_weight - mean).unsqueeze(-1)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """The engine's log, with one warning per run when the robust weight hides most of what the policy does."""
        self._disagreements.extend(self._metrics["train"].get(metric("weight_disagreement"), []))
        recent = sum(self._disagreements) / max(len(self._disagreements), 1)
        if recent > DISAGREEMENT_LIMIT and not self._warned:
            self._warned = True
            self.warn(
                f"{metric('weight_disagreement')} is {recent:.2f}: the robust weight differs from the mean log-ratio by more "
                "than half of it, so the clip no longer sees most of what the policy does. Lower the learning rate or switch "
                "the channel off (ratio_channel=None); see docs/metrics.md."
            )
        super().log(logs, *args, **kwargs)

    def warn(self, sentence: str) -> None:
        """One warning, from the main process alone."""
        if self.accelerator.is_main_process:
            logger.warning(sentence)

    def warn_if_on_policy(self) -> None:
        """Warns if each response is used before the weights move, so that the ratio channel has nothing to do."""
        if self.ratio_channel is not None and not updates_see_moved_policy(self.args):
            self.warn(
                "This set-up is fully on-policy: each response is used in one optimizer step, before the weights move, so its "
                "log-ratios are all 0 and the ratio channel has nothing to do. Set steps_per_generation above "
                "gradient_accumulation_steps, or num_iterations above 1; or ratio_channel=None."
            )


def updates_see_moved_policy(args: Any) -> bool:
    """Whether a response is used after the weights moved, so that log-ratios are not all 0."""
    cycle = (args.steps_per_generation or 1) * args.num_iterations
    corrected = args.use_vllm and getattr(args, "vllm_importance_sampling_correction", False)
    return args.gradient_accumulation_steps % cycle != 0 or corrected
