"""What a verl config says about the two channels and the reward functions, checked."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from packaging.version import Version

from rovrl.config import RatioChannel, RewardChannel, RolloutCorrection
from rovrl.rollout import named_correction

ESTIMATOR, LOSS = "rovr", "rovr_gspo"
TESTED_VERL = ("0.9", "0.10")
"""The real trainer passed from the first up to, not including, the second."""

logger = logging.getLogger("rovrl")


def untested(installed: str) -> str:
    """The sentence about a version of verl with which nothing was tested; "" for the others."""
    first, beyond = TESTED_VERL
    if Version(first) <= Version(installed) < Version(beyond):
        return ""
    return (
        f"verl {installed} is installed, and rovrl is tested with {first} up to (not including) {beyond}: "
        f"pip install 'verl>={first},<{beyond}'"
    )


def reward_channel(algorithm: Any) -> RewardChannel:
    """The RewardChannel that `algorithm.rovr` describes; without it the paper's."""
    return RewardChannel.from_dict(_plain((algorithm or {}).get("rovr")))


class Functions(NamedTuple):
    """Reward functions with credit of their own: their names among what the reward function returns."""

    names: list[str]
    weights: list[float]


def reward_functions(algorithm: Any) -> Functions | None:
    """The reward functions of verl's `gdpo_reward_keys` and `gdpo_reward_weights` (1 each); None: credit of the score."""
    keys, given = ((algorithm or {}).get(f"gdpo_reward_{each}") for each in ("keys", "weights"))
    if not keys and given is None:
        return None
    names: Any
    weights: Any
    try:
        names = [keys] if isinstance(keys, str) else list(keys or [])
        weights = [1.0] * len(names) if given is None else [float(weight) for weight in given]
        sound = len(set(names)) == len(names) == len(weights) and all(map(math.isfinite, weights))
    except (TypeError, ValueError):  # not lists, not numbers
        names, weights, sound = keys, given, False
    if not names or not sound:
        raise ValueError(
            "algorithm.gdpo_reward_weights must be one finite number per name in algorithm.gdpo_reward_keys, each name once, "
            f"as in [1.0,0.5] for [right,short]; they are {weights} and {names}"
        )
    if algorithm.get("use_kl_in_reward"):
        raise ValueError(
            "algorithm.use_kl_in_reward=True puts a penalty into the score, which credit per reward function does not use: "
            "leave it out (actor.use_kl_loss does it in the loss), or leave algorithm.gdpo_reward_keys out"
        )
    return Functions(names, weights)


def rollout_correction(algorithm: Any) -> RolloutCorrection | None:
    """The correction that `algorithm.rovr_rollout` names or describes by its fields; None leaves verl's own."""
    given = (algorithm or {}).get("rovr_rollout")
    if given is None:
        return None
    return named_correction(given if isinstance(given, str) else _plain(given))


def check_run(config: Any) -> None:
    """A ValueError if the settings of our estimator are wrong; verl's trainer calls it before anything is rolled out."""
    if config.algorithm.adv_estimator == ESTIMATOR:
        problem = untested(version("verl"))
        if problem:
            logger.warning(problem)
        reward_channel(config.algorithm)
        reward_functions(config.algorithm)
        if rollout_correction(config.algorithm) is not None:
            _check_rollouts(config)


def _check_rollouts(config: Any) -> None:
    theirs = config.algorithm.get("rollout_correction") or {}
    if theirs.get("rollout_is") is not None:
        raise ValueError(
            f"algorithm.rovr_rollout and algorithm.rollout_correction.rollout_is={theirs.get('rollout_is')} would both weigh "
            "the loss: leave one of the two out (verl's rollout_rs goes with either)"
        )
    if theirs.get("bypass_mode"):
        raise ValueError(
            "algorithm.rollout_correction.bypass_mode=True takes the sampler's log-probabilities for the old ones, so that "
            "algorithm.rovr_rollout has nothing to correct: leave one of the two out"
        )
    if not config.actor_rollout_ref.rollout.get("calculate_log_probs"):
        raise ValueError(
            "algorithm.rovr_rollout needs the sampler's log-probabilities: set "
            "actor_rollout_ref.rollout.calculate_log_probs=True"
        )


def ratio_channel(policy_loss: Any) -> RatioChannel:
    """The RatioChannel that `policy_loss.rovr` describes; without it the paper's."""
    return RatioChannel.from_dict(_plain((policy_loss or {}).get("rovr")))


def _plain(settings: Any) -> Mapping[str, Any]:
    """A plain dict from what a config holds under `rovr`: nothing, a mapping, or omegaconf's."""
    from omegaconf import OmegaConf

    if settings is None:
        return {}
    plain = OmegaConf.to_container(settings, resolve=True) if OmegaConf.is_config(settings) else settings
    if isinstance(plain, str):
        return {"preset": plain}
    if not isinstance(plain, Mapping):
        raise ValueError(
            "rovr must hold fields of its channel, as in +algorithm.rovr.num_blocks=3, or the name of a preset, as in "
            f"+algorithm.rovr.preset=guarded, not {plain!r}"
        )
    return plain  # pyright: ignore[reportReturnType]
