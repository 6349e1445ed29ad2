"""A TRL callback: the audit of a run, while it goes on and when it ends.

trainer = GRPOTrainer(..., args=GRPOConfig(log_completions=True, ...), callbacks=[AuditCallback()])
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rovrl.audit.live import LiveAudit, stop_codes
from rovrl.audit.result import AuditResult
from rovrl.errors import require

transformers = require("transformers", extra="train")


class AuditCallback(transformers.TrainerCallback):
    """Writes `<output_dir>/audit/audit.html` and `.json` at the end of training, and every `every` steps if that is given.

    Reads what the run saved: its records if it wrote some, else the completions that TRL logs with `log_completions=True`. An
    audit that cannot be made is a warning, never an error. With `trainer` the numbers of every audit are logged as `audit/...`
    where the run logs everything else (Weights & Biases, TensorBoard, trackio, ...). `stop_on` names findings that end the
    training; they describe what has happened and do not predict, so choose codes that are faults whatever comes next.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        out: str | Path | None = None,
        *,
        every: int | None = None,
        trainer: Any = None,
        stop_on: str | Iterable[str] = (),
        **options: Any,
    ) -> None:
        if every is not None and every < 1:
            raise ValueError(f"every must be at least 1 step, not {every}")
        self.path = path
        self.out = out
        self.every = every
        self.trainer = trainer
        self.stop_on = stop_codes(stop_on)
        self.options = options
        """For `rovrl.audit.audit`: group_size, threshold, ..."""
        self.live: LiveAudit | None = None

    @property
    def result(self) -> AuditResult | None:
        """The last audit."""
        return self.live.result if self.live else None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits every `every` steps; ends the training at a finding of `stop_on`."""
        if self.every is None or state.global_step % self.every:
            return
        self._audit(args, state, quiet=True)
        if self.live is not None and self.live.ends(state.global_step):
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits and writes."""
        self._audit(args, state, quiet=False)

    def _audit(self, args: Any, state: Any, quiet: bool) -> None:
        if not state.is_world_process_zero:
            return
        if self.live is None:
            place = Path(args.output_dir)
            options: dict[str, Any] = {"group_size": getattr(args, "num_generations", None)} | self.options
            self.live = LiveAudit(Path(self.path or place), Path(self.out or place / "audit"), self.stop_on, **options)
        numbers = self.live.in_training(quiet)
        if numbers and self.trainer is not None:
            transformers.Trainer.log(self.trainer, numbers)  # not TRL's: that would end its own averages
