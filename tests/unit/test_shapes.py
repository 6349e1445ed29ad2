"""The shape annotations are true: every public function runs under jaxtyping's checks, in a process of its own."""

import subprocess
import sys

import pytest

EXERCISE = """
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook("rovrl", "beartype.beartype"):
    import rovrl
    from rovrl.robust.location import auxiliary
    from rovrl.robust.score import scaled_residuals

import torch

rewards = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
for dtype in (torch.float32, torch.float64):
    for channel in (rovrl.RewardChannel(), rovrl.RewardChannel(scale_source="lagged", credit_bound="adaptive")):
        for method in [*rovrl.ADVANTAGES.values(), *rovrl.baselines.ADVANTAGES.values()]:
            assert method(rewards.to(dtype), channel).shape == (5, 16)
        for reference in rovrl.REFERENCES.values():
            assert reference(rewards.to(dtype), rovrl.Blocks.random(16, 3), channel).shape == (5,)
    auxiliary(rewards.double(), rovrl.Blocks.random(16, 3), rovrl.RewardChannel(), 0.1)
    rovrl.explain(rewards.flatten().to(dtype), list(range(8)) * 10, rovrl.RewardChannel())
    rovrl.explain([1, 0.5, None], ["a", "a", "b"], rovrl.RewardChannel())
    rovrl.m_center(rewards.to(dtype), 0.5, rewards > -1)
    keep = torch.ones(5, 16, dtype=torch.bool)
    rovrl.contrast(rewards.to(dtype), keep)
    log_ratios = rewards.to(dtype).repeat(1, 4).requires_grad_()
    for settings in ({}, {"gradient": "unrolled"}, {"units": "robust"}):
        weight = rovrl.soft_rovr(log_ratios, log_ratios > -1, rovrl.RatioChannel(**settings))
        advantage = torch.ones(5, dtype=dtype)
        rovrl.clipped_objective(weight, advantage).sum().backward()
        rovrl.clip_branch(weight, advantage)
    for weigh in rovrl.baselines.WEIGHTS.values():
        weigh(log_ratios, log_ratios > -1, rovrl.RatioChannel())
try:
    scaled_residuals(torch.zeros(2, 3), torch.zeros(4), 1.0)
except TypeCheckError:
    print("checked")
"""


@pytest.mark.slow
def test_every_public_function_keeps_the_shapes_its_annotations_promise():
    done = subprocess.run([sys.executable, "-c", EXERCISE], capture_output=True, text=True, check=False)
    assert done.stdout == "checked\n", done.stderr[-3000:]
