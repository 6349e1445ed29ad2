"""A real mismatch between rollouts and learner: responses sampled from a copy of the policy in lower precision.

The copy's own log-probabilities are the old ones, as with an inference engine that serves quantized weights. The
importance ratios then carry the rounding of the copy, token by token, before any update has been made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch


def _bfloat16(weight: torch.Tensor) -> torch.Tensor:
    return weight.to(torch.bfloat16).to(weight.dtype)


def _int8(weight: torch.Tensor) -> torch.Tensor:
    """Symmetric int8 per output channel, dequantized; vectors (norms, biases) stay as they are."""
    if weight.dim() < 2:
        return weight
    step = weight.abs().amax(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny) / 127
    return (weight / step).round().clamp(-127, 127) * step


PRECISIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {"bfloat16": _bfloat16, "int8": _int8}


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


class MismatchedRollouts:
    """A trainer mixin: generation and the old log-probabilities use the copy, everything else the policy itself."""

    rollout_precision: str | None = None

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        if self.rollout_precision is None:
            return super()._generate_and_score_completions(inputs)  # pyright: ignore[reportAttributeAccessIssue]
        with degraded(self.model, self.rollout_precision):  # pyright: ignore[reportAttributeAccessIssue]
            return super()._generate_and_score_completions(inputs)  # pyright: ignore[reportAttributeAccessIssue]
