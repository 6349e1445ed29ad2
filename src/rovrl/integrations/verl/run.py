"""The reward channel's state in a verl run: the lagged scale, kept beside verl's checkpoints and found again on resume.

verl hands an estimator the `algorithm` section alone, once per step, and no step number. The section knows its parent,
the whole config: from it comes where checkpoints go and from which one the run resumes, so steps can be counted. After
each step one line is appended to `<trainer.default_local_dir>/rovr_scale.jsonl`; a run that resumes from checkpoint N
goes on with line N, and drops the lines of the steps that are trained again.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rovrl.advantage import Explanation
from rovrl.config import RewardChannel
from rovrl.diagnostics import metric
from rovrl.integrations.verl import records as verl_records
from rovrl.robust.blocks import FIXED_SEED
from rovrl.robust.scale import LaggedScale
from rovrl.scales import channel_for_step

HISTORY = "rovr_scale.jsonl"

logger = logging.getLogger("rovrl")


class Run:
    """What one training run remembers from step to step, in the driver's process."""

    _latest: Run | None = None

    @classmethod
    def of(cls, algorithm: Any) -> Run:
        """The run to which this `algorithm` config belongs: the same object as at the last step, or a new run."""
        if algorithm is None:
            return cls(None)
        if cls._latest is None or cls._latest.algorithm is not algorithm:
            cls._latest = cls(algorithm)
        return cls._latest

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.lagged = LaggedScale()
        self.calls = 0
        self.in_use = LaggedScale()
        self.used_lagged = False
        self.calls_per_step = _calls_per_step(algorithm)
        self.responses = beside(algorithm, "actor_rollout_ref.rollout.n")
        self.records = verl_records.Publisher.of(beside(algorithm, "actor_rollout_ref.actor.policy_loss"))
        self.history: Path | None = None
        self.first_step = 0
        trainer = beside(algorithm, "trainer")
        if trainer is not None and trainer.get("default_local_dir"):
            checkpoint = resumed_checkpoint(trainer)
            if checkpoint is not None or (trainer.get("save_freq") or 0) > 0:
                self._open(Path(trainer.get("default_local_dir")) / HISTORY, checkpoint)

    @property
    def step(self) -> int:
        """verl's global step of the current call, from 1; 0 before the first."""
        return self.first_step + -(-self.calls // self.calls_per_step)

    def begin_step(self, channel: RewardChannel, rewards: Tensor, uids: Sequence[Any] | np.ndarray) -> RewardChannel:
        """The settings for this step, with the scale of earlier steps filled in; takes this step's scale in."""
        self.calls += 1
        self.in_use = copy.copy(self.lagged)
        filled = channel_for_step(channel, self.lagged, rewards, uids)
        self.used_lagged = filled.scale_source != channel.scale_source
        return filled

    def generator(self) -> torch.Generator:
        """The random partition's generator: from the step's number, so that a resumed run draws the same.

        A new one at each step: verl sorts a batch by length, and fixed blocks would follow the lengths.
        """
        earlier_calls = self.first_step * self.calls_per_step + self.calls - 1
        return torch.Generator().manual_seed(FIXED_SEED + earlier_calls)

    def end_step(self, result: Explanation, uids: Sequence[Any] | np.ndarray, valid: Tensor) -> None:
        """Writes the step's line, and what the records need; padding (not `valid`) is no part of the metrics."""
        if self.responses and int(result.size.max()) > self.responses:
            self._explain_sessions(int(result.size.max()))
        if self.history is not None:
            line = {
                "step": self.step,
                "lagged": self.lagged.state_dict(),
                "seed": self.generator().initial_seed(),
                "blocks": {size: list(blocks.sizes) for size, blocks in result.blocks.items()},
                "scale_source": "lagged" if self.used_lagged else result.scale_source,
                metric("lagged_scale"): self.in_use.value,  # null at the very first step
                metric("lagged_spread"): self.in_use.spread,
                **_metrics(result, valid),
            }
            _append(self.history, line)
        if self.records is not None:
            self.records.publish(self.step, result, uids)

    def _open(self, history: Path, checkpoint: Path | None) -> None:
        self.history = history
        lines: list[dict[str, Any]] = []
        if checkpoint is not None:
            self.first_step = int(checkpoint.name.removeprefix("global_step_"))
            lines = [line for line in read_history(checkpoint.parent / HISTORY) if line["step"] <= self.first_step]
            if lines and lines[-1]["step"] == self.first_step:
                self.lagged.load_state_dict(lines[-1]["lagged"])
                logger.warning(f"resumed from {checkpoint.name}: the lagged scale is {self.lagged.value}")
            else:
                logger.warning(
                    f"{checkpoint.parent / HISTORY} says nothing about step {self.first_step}: the lagged scale starts "
                    "anew from the first batch"
                )
        _rewrite(history, lines)

    def _explain_sessions(self, size: int) -> None:
        logger.warning(
            f"a group has {size} rows, and rollout.n is {self.responses}: if sessions emit several outputs, verl counts "
            'each one as a response for every estimator but its own "grpo". See "Sessions with several outputs" in docs/verl.md'
        )
        self.responses = None


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


def _metrics(result: Explanation, valid: Tensor) -> dict[str, float]:
    if not valid.any():
        return {}
    real = result.group[valid].unique()
    per_group = {
        "reference_shift": (result.reference - result.mean).abs(),
        "scale": result.scale,
        "nu": result.nu,
        "fallback_rate": result.fallback,
        "tied_rate": result.tied,
        "single_rate": result.finite_size < 2,
    }
    values = {name: column[real].double().mean() for name, column in per_group.items()}
    values["nonfinite_rate"] = (~result.finite)[valid].double().mean()
    return {metric(name): float(value) for name, value in values.items()}


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        logger.warning(f"cannot keep the lagged scale in {path}: {error}; a resumed run would start it anew")


def _rewrite(path: Path, lines: list[dict[str, Any]]) -> None:
    partial = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.replace(partial, path)
    except OSError as error:
        logger.warning(f"cannot keep the lagged scale in {path}: {error}; a resumed run would start it anew")
