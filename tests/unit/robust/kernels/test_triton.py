"""The Triton kernels through Triton's interpreter, beside the eager path. No GPU takes part."""

import numpy as np
import pytest
import torch

import reference as ref
from rovrl import RatioChannel, soft_rovr
from rovrl.robust.kernels import use_kernel
from rovrl.weight import soft_rovr_packed

# the interpreter is NumPy and warns where an empty row divides 0 by 0; the kernels drop the result
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:All-NaN:RuntimeWarning"),
]
LENGTHS = torch.tensor([0, 3, 7, 40, 120])


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # read when the kernels are first imported


def both(x, mask, channel):
    found = []
    for kernel in ("triton", "eager"):
        leaf = x.clone().requires_grad_()
        with use_kernel(kernel):
            value = soft_rovr(leaf, mask, channel)
            (value * torch.arange(1.0, len(value) + 1).to(value)).sum().backward()
        found.append((value.detach(), leaf.grad))
    return found


@pytest.mark.parametrize(
    "settings", [{}, {"units": "robust"}, {"num_blocks": 1}, {"num_blocks": 5, "num_levels": 4, "score_width": 0.1}]
)
@pytest.mark.parametrize("shape", ["none", "right-padded", "holes"])
def test_triton_is_eager_in_float32(shape, settings, generator):
    x = 0.05 * torch.randn(5, 120, generator=generator)
    x[:, 20:44] += 0.4
    mask = None if shape == "none" else torch.arange(120) < LENGTHS.unsqueeze(-1)
    if shape == "holes":
        mask = mask & (torch.rand(5, 120, generator=generator) < 0.6)
    (value, grad), (expected, expected_grad) = both(x, mask, RatioChannel(**settings))
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(grad, expected_grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("factor", [20.0, 2000.0])
@pytest.mark.slow  # interpreted; the smaller cases run in the fast layer
def test_triton_is_eager_on_heavy_tails(factor, dtype, generator):
    x = (0.05 * torch.tan(3.1 * (torch.rand(4, 100, generator=generator) - 0.5))).to(dtype) * factor
    x[0, ::31] = 1e30
    (value, grad), (expected, expected_grad) = both(x, None, RatioChannel())
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(grad, expected_grad, atol=1e-5, rtol=1e-5)


def test_packed_triton_is_padded_eager(generator):
    x = 0.05 * torch.randn(5, 120, generator=generator)
    mask = torch.arange(120) < LENGTHS.unsqueeze(-1)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), LENGTHS.cumsum(0)])
    packed = x[mask].clone().requires_grad_()
    with use_kernel("triton"):
        value = soft_rovr_packed(packed, bounds)
        value.sum().backward()
    with use_kernel("eager"):
        torch.testing.assert_close(value, soft_rovr(x, mask), atol=1e-6, rtol=0)
    assert packed.grad.sum().item() == pytest.approx(4, abs=1e-5)  # one per response that has a token


def test_interpreted_centers_are_where_fifty_digits_put_them():
    for x, width in ref.hostile_rows(np.random.default_rng(5), 20):
        with use_kernel("triton"):
            center = soft_rovr(torch.as_tensor(x), None, RatioChannel(num_blocks=1, score_width=width)).item()
        ordered = np.sort(x)
        gap = ordered[len(x) // 2] - ordered[(len(x) - 1) // 2]
        allowed = max(1e-12 * max(gap, width), 2 * np.spacing(abs(center)))
        assert ref.m_center_lies_within(x, width, center, allowed), (x, width)
