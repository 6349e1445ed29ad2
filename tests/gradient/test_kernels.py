"""The fused SoftRoVR beside the eager one: the same values and gradients, on ordinary data and on the worst."""

import pytest
import torch

from rovrl import RatioChannel, soft_rovr
from rovrl.robust.kernels import use_kernel
from rovrl.weight import soft_rovr_packed

ROWS, TOKENS = 6, 400


def noise(generator: torch.Generator) -> torch.Tensor:
    return 0.05 * torch.randn(ROWS, TOKENS, generator=generator, dtype=torch.float64)


def burst(generator: torch.Generator) -> torch.Tensor:
    x = noise(generator)
    x[:, 100:180] += 8 * 0.05
    return x


def cauchy(generator: torch.Generator) -> torch.Tensor:
    return 0.05 * torch.tan(torch.pi * (torch.rand(ROWS, TOKENS, generator=generator, dtype=torch.float64) - 0.5))


def wide(generator: torch.Generator) -> torch.Tensor:
    """Far beyond both widths: flat scores, Newton steps that overshoot."""
    return 2000 * noise(generator)


def two_heaps(generator: torch.Generator) -> torch.Tensor:
    """Blocks a hundred median widths apart."""
    x = noise(generator)
    x[:, ::2] += 1
    x[:, TOKENS // 2 :] += 1
    return x


def spikes(generator: torch.Generator) -> torch.Tensor:
    x = noise(generator)
    x[:, ::37] = 1e30
    x[:, 5::53] = -1e12
    return x


def constant(generator: torch.Generator) -> torch.Tensor:
    return torch.full((ROWS, TOKENS), 0.7, dtype=torch.float64)


def shifted(generator: torch.Generator) -> torch.Tensor:
    return 5 + noise(generator)


DATA = (noise, burst, cauchy, wide, two_heaps, spikes, constant, shifted)


def masks(generator: torch.Generator) -> dict[str, torch.Tensor | None]:
    lengths = torch.tensor([0, 3, 40, 150, 399, 400]).unsqueeze(-1)
    place = torch.arange(TOKENS)
    return {
        "none": None,
        "right-padded": place < lengths,
        "left-padded": place >= TOKENS - lengths,
        "holes": (place < lengths) & (torch.rand(ROWS, TOKENS, generator=generator) < 0.6),
    }


def both(x: torch.Tensor, mask: torch.Tensor | None, channel: RatioChannel) -> list[tuple[torch.Tensor, torch.Tensor]]:
    found = []
    for kernel in ("numba", "eager"):
        leaf = x.clone().requires_grad_()
        with use_kernel(kernel):
            value = soft_rovr(leaf, mask, channel)
            (value * torch.arange(1.0, len(value) + 1).to(value)).sum().backward()
        found.append((value.detach(), leaf.grad))
    return found


@pytest.mark.parametrize("shape", ["none", "right-padded", "left-padded", "holes"])
@pytest.mark.parametrize("data", DATA)
def test_fused_is_eager_in_float32_to_1e_6_in_value_and_1e_5_in_gradient(data, shape, generator):
    x, mask = data(generator).float(), masks(generator)[shape]
    (value, grad), (expected, expected_grad) = both(x, mask, RatioChannel())
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(grad, expected_grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("data", [noise, cauchy, wide])
def test_fused_is_eager_in_float64_to_rounding(data, generator):
    x, mask = data(generator), masks(generator)["holes"]
    (value, grad), (expected, expected_grad) = both(x, mask, RatioChannel())
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)  # the eager smooth median stops at eps·B in score
    torch.testing.assert_close(grad, expected_grad, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize(
    "settings", [{"units": "robust"}, {"num_blocks": 1}, {"num_blocks": 50, "min_block": 1}, {"num_levels": 4}]
)
def test_fused_is_eager_whatever_the_settings(settings, generator):
    x, mask = burst(generator).float(), masks(generator)["holes"]
    (value, grad), (expected, expected_grad) = both(x, mask, RatioChannel(**settings))
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(grad, expected_grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("data", DATA)
def test_gradients_sum_to_one_in_float32(data, generator):
    x = data(generator).float().requires_grad_()
    soft_rovr(x).sum().backward()
    torch.testing.assert_close(x.grad.double().sum(-1), torch.ones(ROWS, dtype=torch.float64), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kernel", ["numba", "eager"])
def test_packed_responses_are_the_padded_ones_without_padding(kernel, generator):
    x, mask = noise(generator).float(), masks(generator)["right-padded"]
    padded, packed = x.clone().requires_grad_(), x[mask].clone().requires_grad_()
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(-1).cumsum(0)])
    with use_kernel(kernel):
        expected, value = soft_rovr(padded, mask), soft_rovr_packed(packed, bounds)
        expected.sum().backward()
        value.sum().backward()
    torch.testing.assert_close(value, expected, atol=1e-8, rtol=0)
    torch.testing.assert_close(packed.grad, padded.grad[mask], atol=1e-8, rtol=0)


def test_gradcheck_of_the_fused_path(generator):
    x = (0.05 * torch.randn(3, 24, generator=generator, dtype=torch.float64)).requires_grad_()
    mask = torch.arange(24) < torch.tensor([[24], [17], [5]])
    assert torch.autograd.gradcheck(lambda v: soft_rovr(v, mask), (x,), eps=1e-6, atol=1e-6)


def test_func_grad_under_vmap_is_the_rows_own_gradient(generator):
    x = noise(generator)
    each = torch.func.vmap(torch.func.grad(soft_rovr))(x)
    leaf = x.clone().requires_grad_()
    soft_rovr(leaf).sum().backward()
    torch.testing.assert_close(each, leaf.grad, atol=0, rtol=0)


@pytest.mark.usefixtures("kernel")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # torch's own, on the first jvp
def test_a_second_derivative_is_refused_with_a_sentence(generator):
    x = noise(generator).requires_grad_()
    (grad,) = torch.autograd.grad(soft_rovr(x).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        grad.sum().backward()
    with pytest.raises(NotImplementedError, match="reverse-mode"):
        torch.func.jacfwd(soft_rovr)(noise(generator))
