"""What the reward channel gets of the rewards of one gathered generation."""

from __future__ import annotations

import torch
from torch import Tensor


def total(per_function: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum over reward functions [response, function] -> [response], float64 on the CPU.

    A function that returned None (NaN) adds nothing; a response without any score stays NaN, as in TRL.
    """
    values = per_function.detach().double().cpu()
    summed = (values * weights.double().cpu()).nansum(-1)
    return torch.where(values.isnan().all(-1), torch.nan, summed)


def channel_input(per_function: Tensor, weights: Tensor, credit_per_function: bool) -> tuple[Tensor, Tensor | None]:
    """(rewards, weights) as `RewardRun` takes them: the weighted sum alone, or each function's own with the weights."""
    if not credit_per_function:
        return total(per_function, weights), None
    return per_function.detach().double().cpu(), weights.double().cpu()
