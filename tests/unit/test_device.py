"""Tensors lie where the caller's do: torch.set_default_device, here to a device without numbers, changes nothing."""

import pytest
import torch

import rovrl
from rovrl import RatioChannel, RewardChannel
from rovrl.robust.kernels import use_kernel

LEVELS = 23  # of no other test: grids are kept
KERNELS = pytest.mark.parametrize("kernel", ["eager", "numba"])


@KERNELS
@pytest.mark.parametrize("faults", ["bound", "reject"])
@pytest.mark.parametrize("method", ["credit", "center", "loo", "grpo"])
def test_advantages_do_not_depend_on_the_default_device(method, faults, kernel, generator):
    sizes = torch.tensor([17] * 8 + [11] * 8)
    ids = torch.arange(16).repeat_interleave(sizes)
    rewards = torch.randn(len(ids), generator=generator) * (1 + 99 * (ids % 2))  # two units, two sizes
    channel = RewardChannel(num_levels=LEVELS, credit_bound="adaptive", credit_floor="adaptive", faults=faults)
    seeds = [torch.Generator().manual_seed(0) for _ in range(2)]
    with use_kernel(kernel):
        with torch.device("meta"):
            found = rovrl.grouped_advantages(rewards, ids, channel, method=method, generator=seeds[0])
        own = rovrl.grouped_advantages(rewards, ids, channel, method=method, generator=seeds[1])
    assert torch.equal(found, own)


@KERNELS
@pytest.mark.parametrize("gradient", ["implicit", "unrolled"])
def test_sequence_weights_do_not_depend_on_the_default_device(gradient, kernel, generator):
    channel = RatioChannel(num_levels=LEVELS + (kernel == "numba"), gradient=gradient, units="robust")
    x = torch.randn(4, 60, generator=generator)

    def result():
        leaf = x.clone().requires_grad_()
        value = rovrl.soft_rovr(leaf, None, channel)
        value.sum().backward()
        return value.detach(), leaf.grad

    with use_kernel(kernel):
        with torch.device("meta"):
            found = result()
        own = result()
    assert all(torch.equal(a, b) for a, b in zip(found, own, strict=True))
