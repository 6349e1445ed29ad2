"""What the reward channel gets of several reward functions, whichever trainer of transformers gathered them."""

import math

import torch

from rovrl.integrations.hf import channel_input, total

REWARDS = torch.tensor([[1.0, 2.0], [3.0, math.nan], [math.nan, math.nan]])
WEIGHTS = torch.tensor([1.0, -0.5])


def test_the_total_is_the_weighted_sum_of_what_was_scored_and_nan_only_where_nothing_was():
    expected = torch.tensor([0.0, 3.0, math.nan], dtype=torch.float64)
    torch.testing.assert_close(total(REWARDS, WEIGHTS), expected, rtol=0, atol=0, equal_nan=True)


def test_credit_per_function_gets_every_column_with_its_weight_and_credit_of_the_sum_the_total():
    columns, weights = channel_input(REWARDS, WEIGHTS, credit_per_function=True)
    torch.testing.assert_close(columns, REWARDS.double(), rtol=0, atol=0, equal_nan=True)
    assert weights is not None
    assert weights.tolist() == [1.0, -0.5]
    summed, none = channel_input(REWARDS, WEIGHTS, credit_per_function=False)
    assert none is None
    torch.testing.assert_close(summed, total(REWARDS, WEIGHTS), rtol=0, atol=0, equal_nan=True)
