"""What verl's trainer knows and does not tell an estimator: the rows' keys, the reward's own fields, the metrics to log.

verl hands an estimator rewards, masks and prompt ids. Four things need more: a session with several rows counts once,
several reward functions get credit of their own, and the metrics of the reward channel and of reward servers belong in verl's
logger. So the one method of the trainer that calls estimators is wrapped, when verl imports it, and says on which rows it
works.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import wrapt
from torch import Tensor

TRAINER = "verl.trainer.ppo.v1.trainer_base"
VALUE_HEAD = "AutoModelForCausalLMWithValueHead"
logger = logging.getLogger("rovrl")
_current: ContextVar[Step | None] = ContextVar("rovrl_verl_step", default=None)


@dataclass(frozen=True)
class Step:
    """The rows on which verl's trainer is about to compute advantages."""

    keys: Sequence[str]
    """One per row: `<prompt>_<session>_<output>`."""
    metrics: dict[str, Any]
    """What verl will log for this step."""
    partition: str = "train"
    calls: Mapping[str, float] = field(default_factory=dict)
    """What asking a server for its rewards took, by metric name; nothing for other rewards."""

    def sessions(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the last row of each session, for each of `rows` the number of its session), among these rows.

        verl gives every row of a session the reward of its last output.
        """
        keys = [self.keys[row] for row in map(int, rows)]
        names = [key.rpartition("_")[0] for key in keys]
        outputs = [int(key.rpartition("_")[2]) for key in keys]
        last: dict[str, int] = {}
        for i, name in enumerate(names):
            if name not in last or outputs[last[name]] < outputs[i]:
                last[name] = i
        numbers = {name: number for number, name in enumerate(last)}
        found = np.array([rows[i] for i in last.values()], dtype=np.int64)
        return found, np.array([numbers[name] for name in names], dtype=np.int64)

    def reward_fields(self, rows: np.ndarray, names: Sequence[str]) -> Tensor:
        """The rewards [row, name] that the reward function returned beside its score; NaN where it returned none."""
        infos = _reward_fields([self.keys[row] for row in map(int, rows)], self.partition)
        for name in names:
            if not any(name in info for info in infos):
                known = sorted({key for info in infos for key in info})
                raise ValueError(
                    f"algorithm.gdpo_reward_keys names {name!r}, which the reward function returned for no response; it "
                    f"returned {', '.join(known) or 'a score alone'}"
                )
        return torch.tensor([[_number(name, info.get(name)) for name in names] for info in infos], dtype=torch.float64)

    def log_ratios(self, width: int) -> Tensor:
        """log π_old - log π_rollout of every row [row, width], 0 beyond its end."""
        import transfer_queue

        names = ["old_log_probs", "rollout_log_probs"]
        data = transfer_queue.kv_batch_get(keys=list(self.keys), partition_id=self.partition, select_fields=names)
        if "rollout_log_probs" not in data:
            raise ValueError(
                "algorithm.rovr_rollout needs the sampler's log-probabilities, and the rollouts came without: set "
                "actor_rollout_ref.rollout.calculate_log_probs=True"
            )
        old, sampled = (data.select(*names).to_padded_tensor()[name].float() for name in names)
        return torch.nn.functional.pad(old - sampled, (0, width - old.shape[-1]))


def current_step() -> Step | None:
    """The step that verl's trainer is in; None outside of it, and in verl's legacy trainer."""
    return _current.get()


@contextmanager
def announced(step: Step) -> Iterator[Step]:
    """Makes `step` the current one while the trainer computes its advantages."""
    token = _current.set(step)
    try:
        yield step
    finally:
        _current.reset(token)


def listen(check: Callable[[Any], None]) -> None:
    """Has verl's trainer announce its steps, and `check` its config before anything is rolled out."""

    def before(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        check(args[0] if args else kwargs["config"])
        return wrapped(*args, **kwargs)

    when_trainer_is_imported(wrapping("_rovrl_listens", __init__=before, _compute_advantage=_announce))


def wrapping(mark: str, **wrappers: Callable[..., Any]) -> Callable[[Any], None]:
    """A function that wraps these methods of the `PPOTrainer` in a module (wrapt's wrappers), once, however often it is called.

    `mark` is the name under which the module remembers it.
    """

    def wrap(module: Any) -> None:
        if not getattr(module, mark, False):
            setattr(module, mark, True)
            for name, wrapper in wrappers.items():
                wrapt.wrap_function_wrapper(module, f"PPOTrainer.{name}", wrapper)

    return wrap


def when_trainer_is_imported(wrap: Callable[[Any], None]) -> None:
    """Calls `wrap` with the module of verl's trainer: when verl imports it, or at once if it has."""
    wrapt.register_post_import_hook(wrap, TRAINER)


def trl_lacks_value_head() -> bool:
    """True if TRL is installed without the class that verl imports; read from its files, since importing takes seconds."""
    spec = importlib.util.find_spec("trl")
    if spec is None or not spec.submodule_search_locations:
        return False
    root = Path(spec.submodule_search_locations[0])
    return not (root / "experimental/ppo").is_dir() and VALUE_HEAD not in (root / "__init__.py").read_text()


def mend_value_head() -> None:
    """One incompatibility between verl and a recent TRL in the same environment, set right without importing TRL.

    verl's FSDP engine imports TRL's value-head model whenever TRL is installed, critic or not. TRL removed that class, so
    verl fails in every environment that holds both. Without the class verl is told that TRL is absent: a run with a critic
    on a value head ends with verl's own message, every other run works. Called before verl's models are imported.
    """
    if trl_lacks_value_head():
        import verl.utils.import_utils

        verl.utils.import_utils.is_trl_available = lambda: False


def _announce(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    def told(batch: Any, metrics: dict[str, Any]) -> Step:
        return Step(batch.keys, metrics, batch.partition_id, _calls(batch))

    step = told(*args, **kwargs)
    step.metrics.update(step.calls)
    with announced(step):
        return wrapped(*args, **kwargs)


def _calls(batch: Any) -> dict[str, float]:
    """The metrics of the reward server's calls for a batch, from the fields that came with its scores."""
    real = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")]
    last = Step(real, {}).sessions(np.arange(len(real)))[0]
    try:
        told = _reward_fields([real[row] for row in last], batch.partition_id)
    except Exception as error:  # an extra: the run goes on without it
        logger.warning(f"what the rewards took is not logged: {type(error).__name__}: {error}")
        return {}
    if not any(name.endswith("/breaker_open") for each in told for name in each):
        return {}
    from rovrl.tasks.remote import metrics  # with httpx, which other rewards do not need

    return metrics(told)


def _reward_fields(keys: Sequence[str], partition: str) -> list[dict[str, Any]]:
    """What the reward function returned beside its score for each of these rows."""
    import transfer_queue

    data = transfer_queue.kv_batch_get(keys=list(keys), partition_id=partition, select_fields=["extra_fields"])
    extras: list[Any] = [getattr(extra, "data", extra) for extra in data["extra_fields"]]  # some come wrapped
    return [extra.get("reward_extra_info") or {} for extra in extras]


def _number(name: str, value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"the reward function returned {name}={value!r}, which is not a number (None: not scored)"
        ) from None
