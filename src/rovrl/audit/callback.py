"""A TRL callback: the audit of a run, written when training ends.

trainer = GRPOTrainer(..., args=GRPOConfig(log_completions=True, ...), callbacks=[AuditCallback()])
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from rovrl.audit.run import audit
from rovrl.errors import RovrlError, require

transformers = require("transformers", extra="train")
logger = logging.getLogger("rovrl.audit")


class AuditCallback(transformers.TrainerCallback):
    """Writes `<output_dir>/audit/audit.html` and `.json` at the end of training, on the main process.

    Reads what the run saved: its records if it wrote some, else the completions that TRL logs with `log_completions=True`. An
    audit that cannot be made is a warning, never an error: the training is done.
    """

    def __init__(self, path: str | Path | None = None, out: str | Path | None = None, **options: Any) -> None:
        self.path = path
        self.out = out
        self.options = options
        """For `rovrl.audit.audit`: group_size, threshold, ..."""
        self.result = None

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audits and writes."""
        if not state.is_world_process_zero:
            return
        path = Path(self.path or args.output_dir)
        options: dict[str, Any] = {"group_size": getattr(args, "num_generations", None)} | self.options
        try:
            self.result = audit(path, **options)
            html, _ = self.result.write(self.out or Path(args.output_dir) / "audit")
        except RovrlError as error:
            logger.warning("no audit of this run: %s", error)
            return
        level = logging.WARNING if self.result.status else logging.INFO
        logger.log(level, "rovrl audit: %s %s", self.result.verdict, html)
