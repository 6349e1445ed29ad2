"""A TRL callback: the audit of a run, while it goes on and when it ends.

trainer = GRPOTrainer(..., args=GRPOConfig(log_completions=True, ...), callbacks=[AuditCallback()])
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rovrl.audit.result import AuditResult
from rovrl.audit.run import audit
from rovrl.audit.tracked import metrics, stop_codes
from rovrl.errors import RovrlError, require

transformers = require("transformers", extra="train")
logger = logging.getLogger("rovrl.audit")


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
        stop_on: Iterable[str] = (),
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
        self.result: AuditResult | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits every `every` steps; ends the training at a finding of `stop_on`."""
        if self.every is None or state.global_step % self.every:
            return
        self._audit(args, state, quiet=True)
        found = {finding.code for finding in self.result.findings} if self.result else set()
        if found & self.stop_on:
            logger.warning(
                "rovrl audit ends the training at step %d: %s", state.global_step, ", ".join(found & self.stop_on)
            )
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits and writes."""
        self._audit(args, state, quiet=False)

    def _audit(self, args: Any, state: Any, quiet: bool) -> None:
        if not state.is_world_process_zero:
            return
        path = Path(self.path or args.output_dir)
        options: dict[str, Any] = {"group_size": getattr(args, "num_generations", None)} | self.options
        try:
            self.result = audit(path, **options)
            html, _ = self.result.write(self.out or Path(args.output_dir) / "audit")
        except RovrlError as error:
            logger.log(logging.INFO if quiet else logging.WARNING, "no audit of this run: %s", error)
            return
        if self.trainer is not None:
            transformers.Trainer.log(self.trainer, metrics(self.result))  # not TRL's: that would end its own averages
        level = logging.WARNING if self.result.status else logging.INFO
        logger.log(level, "rovrl audit: %s %s", self.result.verdict, html)
