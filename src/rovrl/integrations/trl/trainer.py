"""RoVRTrainer: TRL's GRPOTrainer with two things changed, and no line of it copied.

The advantages are replaced after TRL computed its own; the sequence weight is recentred inside its loss (hf/trainer.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rovrl.advantage import Explanation
from rovrl.integrations.trl.card import card, settings_section
from rovrl.integrations.trl.checks import check_inputs, check_rewards, check_sampler
from rovrl.integrations.trl.config import RoVRConfig
from rovrl.integrations.trl.credit import CreditedTrainer
from rovrl.integrations.trl.installed import GRPOTrainer
from rovrl.integrations.trl.records import Recorder, gathered_generation, recorder_for
from rovrl.integrations.trl.rewards import RewardTransform
from rovrl.integrations.trl.rollout import TRLS_METRICS, multiplied, put_weights

ROW = "rovr_row"  # beside TRL's tensors: which response of the generation a row is, also after TRL's shuffle


class RoVRTrainer(CreditedTrainer, GRPOTrainer):
    """Trainer for RoVR-GSPO. The only changes to `GRPOTrainer`: the advantages and the sequence weight.

    `reward_transform(rewards, generation)` gets the gathered training rewards [response, reward function] (NaN: not
    scored; the responses to a prompt are adjacent) and returns those to train on and a label per response, "" if
    untouched. It runs on every rank and must return the same there. Evaluation is not transformed.
    """

    args: RoVRConfig
    brings_rollout_log_probs = False
    """Whether a subclass puts `sampling_per_token_logps` into its batches, as TRL does for vLLM and a `rollout_func`."""

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: RoVRConfig | None = None,
        *more: Any,
        reward_transform: RewardTransform | None = None,
        **kwargs: Any,
    ) -> None:
        if args is None:
            name = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
            args = RoVRConfig(f"{name.rstrip('/').split('/')[-1] or 'model'}-RoVR-GSPO")
        if not isinstance(args, RoVRConfig):
            raise TypeError(f"RoVRTrainer needs a RoVRConfig (with any field of GRPOConfig), not {type(args).__name__}")
        check_rewards(reward_funcs, args.reward_weights, kwargs.get("environment_factory") is not None)
        check_inputs(model, args, more[0] if more else kwargs.get("train_dataset"), kwargs)
        check_sampler(args, self.brings_rollout_log_probs or kwargs.get("rollout_func") is not None)
        self._name, self._paper, self._tag_names = card(args)
        super().__init__(model, reward_funcs, args, *more, **kwargs)
        self.reward_transform = reward_transform
        self.set_channels(args.reward_settings, args.ratio_settings, self.reward_func_names)
        self._weighing: dict[str, Any] | None = None
        self._correction = args.rollout_settings
        self._recorder: Recorder | None = recorder_for(self)
        self.warn_if_on_policy()

    def _scored(self, output: dict[str, Any], rewards: Tensor, labels: Sequence[str], info: Explanation | None) -> None:
        output[ROW] = torch.arange(len(rewards), device=output["advantages"].device)[self._own_rows(output)]
        if self._recorder is not None:
            self._recorder.begin(gathered_generation(self, rewards, labels, info))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        for name in TRLS_METRICS if self._correction is not None else ():
            self._metrics["train" if self.is_training else "eval"].pop(name, None)
        return output

    # The ratio channel

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if self.ratio_channel is None and self._recorder is None and self._correction is None:
            return super()._compute_loss(model, inputs)
        self._weighing = dict(inputs)  # a copy: with num_iterations > 1 TRL comes back with the same inputs
        try:
            with nullcontext() if self._correction is None else multiplied(self):
                return super()._compute_loss(model, self._weighing)
        finally:
            self._weighing = None

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        log_probs, *others = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._weighing is not None:  # inside the loss; the old and the reference log-probabilities are left alone
            log_probs = self._recentred(log_probs, self._weighing)
        return (log_probs, *others)

    def _recentred(self, log_probs: Tensor, batch: dict[str, Any]) -> Tensor:
        """The log-probabilities shifted so that TRL's mean log-ratio is the robust weight; `batch` follows the shift."""
        mask = batch["completion_mask"].bool()
        if batch.get("tool_mask") is not None:
            mask = mask & batch["tool_mask"].bool()
        if self._correction is not None:
            sum_over_ranks: Any = self.accelerator.reduce
            self.add_metrics(put_weights(batch, log_probs, mask, self._correction, sum_over_ranks))
        old = batch.get("old_per_token_logps")
        if self._recorder is not None and self.is_training:
            log_ratios = None if old is None else log_probs - old
            self._recorder.observe(self.state.global_step, batch[ROW], log_ratios, mask)
        if self.ratio_channel is None:
            return log_probs
        shift = self.shift(log_probs, old, mask, batch["advantages"], self.args.weight)
        if batch.get("ref_per_token_logps") is not None:  # the KL term compares the two, so it must not see the shift
            batch["ref_per_token_logps"] = batch["ref_per_token_logps"] + shift
        if self.off_policy_mask_threshold is not None:  # nor must the off-policy mask
            sampled = batch.get("sampling_per_token_logps", log_probs.detach() if old is None else old)
            batch["sampling_per_token_logps"] = sampled + shift.detach()
        return log_probs + shift

    # Records

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """TRL's training step; after the last one of a generation its records are written."""
        loss = super().training_step(*args, **kwargs)
        if self._recorder is not None and self.generation_is_finished:
            self._recorder.finish()
        return loss

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """TRL's training; a last generation that max_steps cut short is recorded as far as it went."""
        if self._recorder is None:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        self._recorder.start_run(resumed=bool(resume_from_checkpoint))
        result = super().train(resume_from_checkpoint, *args, **kwargs)
        self._recorder.write()
        return result

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """TRL's card, which names the method that ran, with its settings below."""
        super().create_model_card(*args, **kwargs)
        path = Path(str(self.args.output_dir)) / "README.md"
        if self.is_world_process_zero() and path.exists():
            path.write_text(path.read_text() + settings_section(self.args))
