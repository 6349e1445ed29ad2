"""Settings and inputs that would silently do something else, refused or reported in a sentence before the first rollout."""

from __future__ import annotations

import logging
import math
import sys
from numbers import Real
from typing import Any

from rovrl.baselines import ADVANTAGES as PEER_ADVANTAGES
from rovrl.baselines import WEIGHTS as PEER_WEIGHTS
from rovrl.config import RatioChannel, RewardChannel, RolloutCorrection
from rovrl.credit import FORMULAS
from rovrl.groups import fallback_sentence
from rovrl.loss import CLIP_HIGH, CLIP_LOW, WIDE_CLIP

ADVANTAGE_NAMES = (*FORMULAS, *(name for name in PEER_ADVANTAGES if name not in FORMULAS))
WEIGHT_NAMES = ("soft_rovr", *PEER_WEIGHTS)
SUMMED, PER_FUNCTION = AGGREGATIONS = ("sum_then_normalize", "normalize_then_sum")
"""TRL's names for the two orders in which rewards of several functions are summed up and made advantages."""

logger = logging.getLogger("rovrl")


def check_advantage(config: Any, channel: RewardChannel | None) -> None:
    """A ValueError if the advantage has no such name or would be ignored."""
    if config.advantage not in ADVANTAGE_NAMES:
        raise ValueError(f"advantage must be one of {', '.join(ADVANTAGE_NAMES)}, not {config.advantage!r}")
    if channel is None and config.advantage != "credit":
        raise ValueError(
            f"advantage={config.advantage!r} would be ignored with reward_channel=None (TRL's own advantage): "
            "set reward_channel={} or leave advantage out"
        )


def check_reward_channel(config: Any, channel: RewardChannel | None) -> None:
    """A ValueError if a setting of the reward channel is unknown or would be ignored."""
    check_advantage(config, channel)
    if channel is None:
        return
    if config.scale_rewards != "group":
        raise ValueError(
            f"scale_rewards={config.scale_rewards!r} would be ignored: the reward channel has its own scale. "
            "Leave it out, or set reward_channel=None for TRL's own advantage"
        )
    check_aggregation(config)


def check_aggregation(config: Any) -> None:
    """A ValueError if there is no such order of summing up and giving credit."""
    if config.multi_objective_aggregation not in AGGREGATIONS:
        raise ValueError(
            f"multi_objective_aggregation must be {SUMMED!r} (credit of the weighted sum) or {PER_FUNCTION!r} (credit per "
            f"reward function, then the weighted sum), not {config.multi_objective_aggregation!r}"
        )


def check_clip(low: float, high: float | None) -> None:
    """A ValueError if no ratio lies between 1 - low and 1 + high."""
    if not 0 <= low < 1 or (high is not None and not high >= 0):
        raise ValueError(
            f"epsilon must be in [0, 1) and epsilon_high at least 0 (GSPO: {CLIP_LOW:g} and {CLIP_HIGH:g}), "
            f"not {low!r} and {high!r}"
        )


def warn_of_wide_clip(low: float, high: float | None) -> None:
    """Warns if a sequence weight would never reach the clip."""
    if max(low, high or 0.0) > WIDE_CLIP:
        logger.warning(
            f"epsilon={low:g}, epsilon_high={high}: a clip range made for token weights never acts "
            f"on a sequence weight, which moves by 1e-4 to 1e-3; leave both out for GSPO's {CLIP_LOW:g} and {CLIP_HIGH:g}"
        )


def check_ratio_channel(config: Any, channel: RatioChannel | None) -> None:
    """A ValueError if the loss has no sequence weight that the ratio channel could estimate."""
    if config.weight not in WEIGHT_NAMES:
        raise ValueError(f"weight must be one of {', '.join(WEIGHT_NAMES)}, not {config.weight!r}")
    if channel is None:
        if config.weight != "soft_rovr":
            raise ValueError(
                f"weight={config.weight!r} would be ignored with ratio_channel=None (the plain mean): "
                "set ratio_channel={} or leave weight out"
            )
        return
    if config.importance_sampling_level != "sequence":
        raise ValueError(
            f"importance_sampling_level={config.importance_sampling_level!r} has no sequence weight for the ratio channel "
            "to estimate: set importance_sampling_level='sequence', or ratio_channel=None"
        )
    if config.loss_type in ("cispo", "vespo"):
        raise ValueError(
            f"loss_type={config.loss_type!r} uses the token log-probabilities beside the sequence weight, so the ratio "
            "channel would change something else: use grpo, bnpo, dr_grpo, dapo, luspo or sapo, or set ratio_channel=None"
        )
    if config.use_liger_kernel:
        raise ValueError(
            "use_liger_kernel=True can replace the loss that the ratio channel works in: leave it out (TRL: "
            "model_init_kwargs={'use_kernels': True}), or set ratio_channel=None"
        )


def check_rollout_correction(config: Any, correction: RolloutCorrection | None) -> None:
    """A ValueError if another setting contradicts the rollout correction."""
    if correction is None:
        return
    if config.loss_type == "vespo":
        raise ValueError(
            "loss_type='vespo' uses token ratios of its own instead of a weight: leave rollout_correction out, and choose "
            "vllm_importance_sampling_mode"
        )
    if config.use_vllm and not config.vllm_importance_sampling_correction:
        raise ValueError(
            "vllm_importance_sampling_correction=False contradicts rollout_correction: leave one of the two out (without both, "
            "TRL's own correction acts)"
        )
    if config.use_liger_kernel:
        raise ValueError(
            "use_liger_kernel=True can replace the loss that rollout_correction works in: leave one of the two out (TRL: "
            "model_init_kwargs={'use_kernels': True})"
        )


def check_sampler(args: Any, brings_log_probs: bool) -> None:
    """A ValueError if a rollout correction is asked for and nobody will tell the sampler's log-probabilities."""
    if args.rollout_correction is not None and not (args.use_vllm or brings_log_probs):
        raise ValueError(
            "rollout_correction needs the log-probabilities of the engine that sampled: set use_vllm=True, or return them as "
            "'logprobs' from rollout_func. TRL's own generation is the policy itself, with nothing to correct"
        )


def warn_of_fallback(channel: RewardChannel, group: int) -> None:
    """Warns if groups of this size do not carry the declared budget."""
    text = fallback_sentence(channel, group)
    if text:
        logger.warning(f"num_generations={group} {text}")


def check_rewards(functions: Any, weights: Any, environments: bool = False) -> None:
    """A ValueError if a reward function is none, or the weights are not one finite number for each of them.

    With `environments` that score by themselves there are more rewards than functions, and TRL counts them.
    """
    listed = functions if isinstance(functions, list) else [functions]
    for each in listed if functions is not None else ():
        if not (callable(each) or isinstance(each, str)):
            raise ValueError(
                f"reward_funcs must be functions (prompts, completions, ...) -> a number or None per completion, or paths of "
                f"reward models, and {each!r} is neither"
            )
    if weights is None:
        return
    finite = all(isinstance(each, Real) and math.isfinite(each) for each in weights)
    counted = environments or functions is None or len(weights) == len(listed)
    if not (finite and counted and any(weights)):
        raise ValueError(
            f"reward_weights must be one finite number per reward function ({len(listed)}), not all 0, and they are "
            f"{list(weights)}: leave them out for a weight of 1 each"
        )


def check_inputs(model: Any, args: Any, train_dataset: Any, others: dict[str, Any]) -> None:
    """A ValueError if another package would bypass a channel, the dataset has no prompts, or no reference can be loaded."""
    if "unsloth" in sys.modules and args.ratio_channel is not None:
        raise ValueError(
            "Unsloth is imported: its fast path scores responses in a loss of its own, which would bypass the ratio channel. "
            "Set ratio_channel=None (the reward channel alone), or do not import unsloth"
        )
    columns = getattr(train_dataset, "column_names", None)
    if columns and "prompt" not in columns and others.get("environment_factory") is None:
        raise ValueError(
            f"train_dataset must have a column 'prompt', and has {', '.join(columns)}: rename one with "
            "dataset.rename_column(old, 'prompt')"
        )
    adapter = others.get("peft_config") is not None or hasattr(model, "peft_config")
    if args.beta != 0 and not isinstance(model, str) and not adapter and not model.config._name_or_path:
        raise ValueError(
            f"beta={args.beta} needs a reference model, which TRL loads again by the model's path, and this model has none: "
            "save it with model.save_pretrained(path) and load it from there, or set beta=0"
        )
