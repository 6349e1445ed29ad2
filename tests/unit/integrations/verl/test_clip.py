"""The clip band that a verl actor's settings mean."""

import warnings

import pytest


@pytest.mark.parametrize(
    ("low", "high", "band"),
    [(None, None, (0.01, 0.01)), (None, 0.02, (0.01, 0.02)), (0.03, None, (0.03, 0.01)), (3e-4, 4e-4, (3e-4, 4e-4))],
)
def test_an_end_of_the_band_that_is_not_given_is_the_common_one(low, high, band):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about engines and a GPU that are not there
        from verl.workers.config import FSDPActorConfig

        from rovrl.integrations.verl.algorithms import clip_range
    ends = {"clip_ratio": 0.01, "clip_ratio_low": low, "clip_ratio_high": high}
    config = FSDPActorConfig(strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=4, **ends)
    assert clip_range(config) == band
