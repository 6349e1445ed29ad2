"""A real mismatch between rollouts and learner: responses sampled from a copy of the policy in lower precision.

Either the copy's own log-probabilities are the old ones, as with an inference engine that serves quantized weights: the
importance ratios then carry the rounding of the copy, token by token, before any update has been made. Or the policy computes
the old ones anew, one more forward pass, and what is left of the copy is that it sampled: a rollout correction's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # what the mixin goes before
    from rovrl.integrations.trl import RoVRTrainer as Mixin
else:
    Mixin = object


def _integers(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """Symmetric integers per output channel, dequantized; vectors (norms, biases) stay as they are."""
    if weight.dim() < 2:
        return weight
    most = 2 ** (bits - 1) - 1
    step = weight.abs().amax(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny) / most
    return (weight / step).round().clamp(-most, most) * step


PRECISIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bfloat16": lambda weight: weight.to(torch.bfloat16).to(weight.dtype),
    "int8": partial(_integers, bits=8),
    "int4": partial(_integers, bits=4),
}


@contextmanager
def degraded(model: torch.nn.Module, precision: str) -> Iterator[None]:
    """Inside, `model` has its weights rounded to `precision` (the arithmetic stays as it was); afterwards, its own."""
    rounding = PRECISIONS[precision]
    kept = [(weight, weight.detach().clone()) for weight in model.parameters()]
    try:
        with torch.no_grad():
            for weight, own in kept:
                weight.copy_(rounding(own))
        yield
    finally:
        with torch.no_grad():
            for weight, own in kept:
                weight.copy_(own)


class MismatchedRollouts(Mixin):
    """A trainer mixin: the copy generates, and unless `recomputes` it also tells the old log-probabilities."""

    brings_rollout_log_probs = True
    rollout_precision: str | None = None
    recomputes: bool = False
    """Whether the policy itself tells the old log-probabilities; the copy's are then the sampler's."""

    def _copy(self, wanted: bool) -> AbstractContextManager[None]:
        if self.rollout_precision is None or not wanted:
            return nullcontext()
        return degraded(self.model, self.rollout_precision)

    def _generate(self, prompts: Any) -> Any:
        with self._copy(self.recomputes):
            return super()._generate(prompts)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        with self._copy(not self.recomputes):
            output = super()._generate_and_score_completions(inputs)
        if self.recomputes:
            output["sampling_per_token_logps"] = self._sampling_log_probs(output)
        return output

    @torch.no_grad()
    def _sampling_log_probs(self, output: dict[str, torch.Tensor]) -> torch.Tensor:
        """The log-probabilities of a generation by the copy that sampled it."""
        ids, masks = (torch.cat([output[f"prompt_{x}"], output[f"completion_{x}"]], 1) for x in ("ids", "mask"))
        tokens = output["completion_ids"].shape[1]
        with self._copy(True):
            found = self._get_per_token_logps_and_entropies(self.model, ids, masks, tokens, batch_size=len(ids))
        return found[0]
