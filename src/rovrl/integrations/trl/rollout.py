"""The rollout correction in TRL: our weights in the place of TRL's ratios, inside its own loss.

TRL multiplies its loss by `importance_sampling_ratio` where vLLM sampled and nowhere else, not even for a `rollout_func`
that returns log-probabilities. The weights are put there, and TRL is told to use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from rovrl.config import RolloutCorrection
from rovrl.diagnostics import rollout_metrics
from rovrl.errors import RovrlError
from rovrl.rollout import rollout_weights

RATIO, SAMPLED, OLD = "importance_sampling_ratio", "sampling_per_token_logps", "old_per_token_logps"
TRLS_METRICS = tuple(f"sampling/{RATIO}/{name}" for name in ("min", "mean", "max"))
"""What TRL logs about ratios of its own, which are not used where ours are."""


@contextmanager
def multiplied(trainer: Any) -> Iterator[None]:
    """Inside, TRL's loss is multiplied by the ratios of its batch, whoever sampled."""
    names = ("use_vllm", "vllm_importance_sampling_correction")
    before = {name: getattr(trainer, name) for name in names}
    for name in names:
        setattr(trainer, name, True)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(trainer, name, value)


def put_weights(
    batch: dict[str, Any],
    log_probs: Tensor,
    mask: Tensor,
    correction: RolloutCorrection,
    sum_over_ranks: Callable[[Tensor], Tensor],
) -> dict[str, float]:
    """Puts the weights into `batch` as TRL's ratios; returns their metrics. `log_probs` are the policy's, not yet shifted."""
    if batch.get(SAMPLED) is None:
        raise RovrlError(
            "rollout_correction needs the log-probabilities of the engine that sampled, and this generation came without: set "
            "use_vllm=True, or return them as 'logprobs' from rollout_func"
        )
    old = batch.get(OLD)
    log_ratios = (log_probs.detach() if old is None else old) - batch[SAMPLED]
    weights = rollout_weights(log_ratios, mask, correction)
    batch[RATIO] = weights.to(log_probs.dtype)
    return rollout_metrics(weights, log_ratios, mask, sum_over_ranks)
