"""The reward channel's state in a verl run: a `RewardRun`, kept beside verl's checkpoints and found again on resume.

verl hands an estimator the `algorithm` section alone, once per step, and no step number. The section knows its parent,
the whole config: from it comes where checkpoints go and from which one the run resumes, so steps can be counted. After
each step one line is appended to `<trainer.default_local_dir>/rovr_scale.jsonl`; a run that resumes from checkpoint N
goes on with line N, and drops the lines of the steps that are trained again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.advantage import Explanation
from rovrl.config import RewardChannel
from rovrl.groups import Rewards
from rovrl.integrations.verl import records as verl_records
from rovrl.integrations.verl.step import current_step
from rovrl.output.files import append_lines, write_lines
from rovrl.partition import could_adapt
from rovrl.robust.blocks import FIXED_SEED
from rovrl.run import RewardRun

HISTORY = "rovr_scale.jsonl"

logger = logging.getLogger("rovrl")


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
