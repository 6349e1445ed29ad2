"""RoVRTrainer: TRL's GRPOTrainer with two things changed, and no line of it copied.

The advantages are replaced after TRL computed its own; the sequence weight is recentred inside its loss (integrations/hf.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rovrl import baselines
from rovrl.advantage import Explanation
from rovrl.config import RolloutCorrection
from rovrl.diagnostics import reward_metrics, rollout_metrics
from rovrl.errors import RovrlError, place_of
from rovrl.groups import could_adapt
from rovrl.integrations.hf import RobustTrainer, channel_input, total
from rovrl.integrations.trl.checks import check_inputs, check_rewards, check_sampler
from rovrl.integrations.trl.config import GRPOTrainer, RoVRConfig, card, settings_section
from rovrl.integrations.trl.records import Recorder, gathered_generation, recorder_for
from rovrl.rollout import rollout_weights
from rovrl.run import RewardRun

logger = logging.getLogger("rovrl")

RewardTransform = Callable[[Tensor, int], tuple[Tensor, Sequence[str]]]
"""(rewards [response, function], generation from 1) -> (rewards, one label per response; "" = untouched)."""


def transformed(transform: RewardTransform, rewards: Tensor, generation: int) -> tuple[Tensor, list[str]]:
    """The transform's rewards and labels, checked."""
    result: Any = transform(rewards.clone(), generation)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RovrlError("reward_transform must return (rewards, labels)")
    changed, labels = result
    if not isinstance(changed, Tensor) or changed.shape != rewards.shape or len(labels) != len(rewards):
        raise RovrlError(
            f"reward_transform must return rewards of shape {tuple(rewards.shape)} and {len(rewards)} labels, not "
            f"{tuple(getattr(changed, 'shape', ()))} and {len(labels)}"
        )
    return changed.to(rewards), [str(label) for label in labels]


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


RATIO, SAMPLED, OLD = "importance_sampling_ratio", "sampling_per_token_logps", "old_per_token_logps"
TRLS_METRICS = tuple(f"sampling/{RATIO}/{name}" for name in ("min", "mean", "max"))
"""What TRL logs about ratios of its own, which are not used where ours are."""


@contextmanager
def multiplied(trainer: Any) -> Iterator[None]:
    """Inside, TRL's loss is multiplied by the ratios of its batch, whoever sampled."""
    names = ("use_vllm", "vllm_importance_sampling_correction")
    before = {name: getattr(trainer, name) for name in names}
    for name in names:
        setattr(trainer, name, True)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(trainer, name, value)


def put_weights(
    batch: dict[str, Any],
    log_probs: Tensor,
    mask: Tensor,
    correction: RolloutCorrection,
    sum_over_ranks: Callable[[Tensor], Tensor],
) -> dict[str, float]:
    """Puts the weights into `batch` as TRL's ratios; returns their metrics. `log_probs` are the policy's, not yet shifted."""
    if batch.get(SAMPLED) is None:
        raise RovrlError(
            "rollout_correction needs the log-probabilities of the engine that sampled, and this generation came without: set "
            "use_vllm=True, or return them as 'logprobs' from rollout_func"
        )
    old = batch.get(OLD)
    log_ratios = (log_probs.detach() if old is None else old) - batch[SAMPLED]
    weights = rollout_weights(log_ratios, mask, correction)
    batch[RATIO] = weights.to(log_probs.dtype)
    return rollout_metrics(weights, log_ratios, mask, sum_over_ranks)


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
