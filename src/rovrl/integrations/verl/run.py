"""What a verl config says about both channels, and the reward channel's state in a run of verl.

The state is a `RewardRun`, kept beside verl's checkpoints and found again on resume.

verl hands an estimator the `algorithm` section alone, once per step, and no step number. The section knows its parent,
the whole config: from it comes where checkpoints go and from which one the run resumes, so steps can be counted. After
each step one line is appended to `<trainer.default_local_dir>/rovr_scale.jsonl`; a run that resumes from checkpoint N
goes on with line N, and drops the lines of the steps that are trained again.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from packaging.version import Version

from rovrl.advantage import Explanation
from rovrl.config import RatioChannel, RewardChannel, RolloutCorrection
from rovrl.groups import Rewards, could_adapt
from rovrl.integrations.verl import records as verl_records
from rovrl.integrations.verl.step import current_step
from rovrl.output.files import append_lines, write_lines
from rovrl.robust.blocks import FIXED_SEED
from rovrl.rollout import named_correction
from rovrl.run import RewardRun

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
        _check_record_dir(config)
        if rollout_correction(config.algorithm) is not None:
            _check_rollouts(config)


def _check_record_dir(config: Any) -> None:
    from omegaconf import OmegaConf

    directory = OmegaConf.select(config, "actor_rollout_ref.actor.policy_loss.record_dir")
    if not directory or not any(Path(directory).glob("step_*")):
        return
    if "trainer" not in config or resumed_checkpoint(config.trainer) is None:
        raise ValueError(
            f"policy_loss.record_dir={directory} holds the records of another run, and two runs in one directory cannot be "
            "told apart: choose another, or delete them"
        )


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


HISTORY = "rovr_scale.jsonl"


class VerlRewardRun(RewardRun):
    """A RewardRun whose partitions are seeded by the number of the call: verl gives an estimator no seed."""

    def partition_seed(self, training: bool = True) -> int:
        """The seed of this call's random blocks; another at each call, since verl sorts a batch by length."""
        return FIXED_SEED + self.step - 1


class VerlRun:
    """Where one training run of verl is, in the driver's process: its step, its `reward_run`, its files."""

    _latest: VerlRun | None = None

    @classmethod
    def of(cls, algorithm: Any) -> VerlRun:
        """The run to which this `algorithm` config belongs: the same object as at the last step, or a new run."""
        if algorithm is None:
            return cls(None)
        if cls._latest is None or cls._latest.algorithm is not algorithm:
            cls._latest = cls(algorithm)
        return cls._latest

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.reward_run = VerlRewardRun()
        self.calls_per_step = _calls_per_step(algorithm)
        self.records = verl_records.Publisher.of(beside(algorithm, "actor_rollout_ref.actor.policy_loss"))
        self.history: Path | None = None
        trainer = beside(algorithm, "trainer")
        if trainer is not None and trainer.get("default_local_dir"):
            checkpoint = resumed_checkpoint(trainer)
            if checkpoint is not None or (trainer.get("save_freq") or 0) > 0:
                self._open(Path(trainer.get("default_local_dir")) / HISTORY, checkpoint)

    @property
    def step(self) -> int:
        """verl's global step of the current call, from 1; 0 before the first."""
        return -(-self.reward_run.step // self.calls_per_step)

    def explain(
        self,
        channel: RewardChannel,
        rewards: Rewards,
        uids: Sequence[Any] | np.ndarray,
        weights: Sequence[float] | None = None,
    ) -> Explanation:
        """One call of verl's: the advantages by `channel` and what led to them; writes the step's line and records."""
        self.reward_run.channel = channel
        result = self.reward_run.explain(rewards, uids, weights=weights)
        if self.history is not None:
            line = {
                "step": self.step,
                "state": self.reward_run.state_dict(),
                "seed": self.reward_run.partition_seed(),
                "blocks": {size: list(blocks.sizes) for size, blocks in result.blocks.items()},
                "scale_source": result.scale_source,
                "corruption_could_adapt": could_adapt(channel),
                **self.reward_run.metrics(),
            }
            _append(self.history, line)
        if self.records is not None:
            step = current_step()
            self.records.publish(self.step, result, uids, {} if step is None else step.calls)
        return result

    def _open(self, history: Path, checkpoint: Path | None) -> None:
        self.history = history
        lines: list[dict[str, Any]] = []
        if checkpoint is not None:
            first_step = int(checkpoint.name.removeprefix("global_step_"))
            lines = [line for line in read_history(checkpoint.parent / HISTORY) if line["step"] <= first_step]
            if lines and lines[-1]["step"] == first_step and "state" in lines[-1]:
                self.reward_run.load_state_dict(lines[-1]["state"])
                logger.warning(f"resumed from {checkpoint.name}: the reward channel goes on from its step {first_step}")
            else:
                self.reward_run.step = first_step * self.calls_per_step
                logger.warning(
                    f"{checkpoint.parent / HISTORY} says nothing about step {first_step}: the lagged scale starts "
                    "anew from the first batch"
                )
        _rewrite(history, lines)


def beside(algorithm: Any, key: str) -> Any:
    """The value of `key` in the config of which `algorithm` is a section; None if it stands alone or has no such key."""
    from omegaconf import OmegaConf
    from omegaconf.errors import ConfigKeyError

    if not OmegaConf.is_config(algorithm):
        return None
    try:
        return OmegaConf.select(algorithm, f"..{key}")
    except ConfigKeyError:  # a section on its own has no parent
        return None


def resumed_checkpoint(trainer: Any) -> Path | None:
    """The `global_step_N` from which verl resumes, by its own rule; None for a fresh start."""
    mode = trainer.get("resume_mode")
    if mode == "resume_path":
        return Path(trainer.get("resume_from_path"))
    if mode == "auto":
        from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

        found = find_latest_ckpt_path(trainer.get("default_local_dir"))
        return None if found is None else Path(found)
    return None


def read_history(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a history, in order; [] if there is none. A line cut short by a crash is left out."""
    lines = []
    if path.exists():
        for text in path.read_text().splitlines():
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                continue
    return lines


def _calls_per_step(algorithm: Any) -> int:
    mode = beside(algorithm, "trainer.v1.trainer_mode")
    return int(beside(algorithm, f"trainer.v1.{mode}.parameter_sync_step") or 1)


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        append_lines(path, [line])
    except OSError as error:
        logger.warning(f"cannot keep the lagged scale in {path}: {error}; a resumed run would start it anew")


def _rewrite(path: Path, lines: list[dict[str, Any]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lines(path, lines)
    except OSError as error:
        logger.warning(f"cannot keep the lagged scale in {path}: {error}; a resumed run would start it anew")
