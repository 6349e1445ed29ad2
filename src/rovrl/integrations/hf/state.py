"""What survives a restart of a RoVR run: the number of the generation and what the reward channel remembers."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rovrl.config import RewardChannel
from rovrl.errors import RovrlError, require
from rovrl.output.files import write_json
from rovrl.run import RewardRun

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
