"""The audit of a verl run while it goes on: every N steps, into verl's own logger and a page beside its rollouts.

    trainer.rollout_data_dir=... +trainer.rovr_audit.every=20 +trainer.rovr_audit.stop_on=[stuck_grader]

verl's trainer fills its metrics, dumps the rollouts of the step, and logs the metrics. The first two are wrapped: the audit
reads what has been dumped and adds its numbers to the metrics that are about to be logged. verl (0.9 and later) imports this
in every process, by the entry point group `verl.plugins`.
"""

from __future__ import annotations

from concurrent.futures import wait
from pathlib import Path
from typing import Any, NamedTuple

from rovrl.audit.live import LiveAudit, stop_codes
from rovrl.integrations.verl.step import when_trainer_is_imported, wrapping


class Settings(NamedTuple):
    """What `trainer.rovr_audit` asks for."""

    every: int
    """Steps from one audit to the next."""
    stop_on: frozenset[str]
    """Findings that end the training after the step."""


def settings(trainer: Any) -> Settings | None:
    """What a config's `trainer.rovr_audit` says, checked; None without it.

    A ValueError for a wrong word or number, and where verl saves no rollouts that could be audited.
    """
    given = trainer.get("rovr_audit")
    if given is None:
        return None
    given: dict[str, Any] = {"every": given} if isinstance(given, int | float | str) else dict(given)
    unknown = sorted(set(given) - {"every", "stop_on"})
    if unknown:
        raise ValueError(f"trainer.rovr_audit takes every and stop_on, not {', '.join(unknown)}")
    every = given.get("every", 20)
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ValueError(f"trainer.rovr_audit.every must be a whole number of steps, at least 1, not {every!r}")
    if not trainer.get("rollout_data_dir"):
        raise ValueError("trainer.rovr_audit audits what verl saves: set trainer.rollout_data_dir")
    return Settings(every, stop_codes(given.get("stop_on") or ()))


def _check(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    """Refuses settings that cannot be meant before anything is rolled out."""
    settings((args[0] if args else kwargs["config"]).get("trainer") or {})
    return wrapped(*args, **kwargs)


def _remember(wrapped: Any, trainer: Any, args: Any, kwargs: Any) -> Any:
    """Keeps hold of the metrics that the trainer is about to log."""
    trainer._rovrl_metrics = args[1] if len(args) > 1 else kwargs["metrics"]
    return wrapped(*args, **kwargs)


def _audit_after(wrapped: Any, trainer: Any, args: Any, kwargs: Any) -> Any:
    result = wrapped(*args, **kwargs)
    asked, step = settings(trainer.config.trainer), trainer.global_steps
    if asked is not None and step % asked.every == 0:
        wait(getattr(trainer, "_dump_futures", ()))  # verl writes its dumps in a thread
        folder = Path(args[2] if len(args) > 2 else kwargs["rollout_data_dir"])
        live = LiveAudit(folder, folder / "audit", asked.stop_on, format="verl")
        getattr(trainer, "_rovrl_metrics", {}).update(live.in_training())
        if live.ends(step):
            trainer.total_training_steps = step
    return result


listen = wrapping("_rovrl_audits", __init__=_check, _compute_metrics=_remember, _log_rollout_data=_audit_after)
"""Has the trainer in a module audit its rollouts where its config asks for it."""
when_trainer_is_imported(listen)
