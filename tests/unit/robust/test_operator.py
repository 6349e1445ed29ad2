"""`torch.ops.rovrl.soft_rovr`: what torch asks of an operator, and whole losses that are one graph."""

import subprocess
import sys

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import rovrl
from rovrl import RatioChannel
from rovrl.robust.kernels import use_kernel
from rovrl.weight import soft_rovr_packed

SETTINGS = (RatioChannel().numbers, RatioChannel().units)
BOUNDS = torch.tensor([0, 7, 7, 150])


def operator(x, mask=None, bounds=None):
    return torch.ops.rovrl.soft_rovr(x, mask, bounds, *SETTINGS)


def batch(generator, rows=3, tokens=50, dtype=torch.float32):
    """Log-probabilities, those of the old policy, a mask with holes and a response without tokens, advantages."""
    old = torch.randn(rows, tokens, generator=generator).to(dtype)
    new = old + (0.05 * torch.randn(rows, tokens, generator=generator)).to(dtype)
    mask = torch.rand(rows, tokens, generator=generator) < 0.6
    mask[1] = False
    return new.requires_grad_(), old, mask, torch.randn(rows, generator=generator)


def loss(new, old, mask, advantage):
    log_weight = rovrl.soft_rovr(new - old, mask)
    return -rovrl.clipped_objective(log_weight, advantage, 0.1, 0.1).mean()


def result(function, leaf, *rest):
    leaf = leaf.detach().clone().requires_grad_()
    value = function(leaf, *rest)
    value.sum().backward()
    return value.detach(), leaf.grad


def one_graph(function):
    """`function` as one graph, and the count of graphs that were made for it."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, fullgraph=True, backend=counter), counter


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # opcheck's own, of its copies
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("form", ["whole", "holes", "packed", "nothing"])
def test_the_operator_is_what_torch_asks_of_one(form, dtype, generator):
    x, _, mask, _ = batch(generator, dtype=dtype)
    x = x.detach().clone().requires_grad_()
    inputs = {
        "whole": (x, None, None),
        "holes": (x, mask, None),
        "packed": (x.detach().flatten().requires_grad_(), None, BOUNDS),
        "nothing": (torch.zeros(2, 0, dtype=dtype), None, None),
    }[form]
    torch.library.opcheck(torch.ops.rovrl.soft_rovr, (*inputs, *SETTINGS))
    saved = [t.detach() for t in operator(*inputs)[1:]]
    rows = torch.ones(len(saved[0]), dtype=dtype)
    torch.library.opcheck(torch.ops.rovrl.soft_rovr_gradient, (rows, inputs[0].detach(), *inputs[1:], *saved))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_whole_loss_is_one_graph_with_the_values_and_gradients_of_plain_calls(dtype, generator):
    inputs = batch(generator, dtype=dtype)
    compiled, _ = one_graph(loss)
    (value, grad), (expected, expected_grad) = result(compiled, *inputs), result(loss, *inputs)
    # plain calls of this size are computed without a kernel, graphs with one; bfloat16 then rounds the same numbers
    torch.testing.assert_close(value, expected, atol=1e-7, rtol=0)
    torch.testing.assert_close(grad, expected_grad, atol=1e-7, rtol=0.01 if dtype == torch.bfloat16 else 1e-5)
    assert (grad[1] == 0).all()


def test_one_graph_serves_every_length_and_batch(generator):
    compiled, counter = one_graph(loss)
    for rows, tokens in ((3, 50), (5, 51), (9, 300), (16, 2000)):  # the last one is large enough for another kernel
        inputs = batch(generator, rows, tokens)
        for tensor in inputs[:3]:
            torch._dynamo.mark_dynamic(tensor, (0, 1))
        torch._dynamo.mark_dynamic(inputs[3], 0)
        compiled(*inputs).backward()
        torch.testing.assert_close(inputs[0].grad, result(loss, *inputs)[1], atol=1e-7, rtol=1e-5)
    assert counter.frame_count == 1


def test_the_kernel_in_force_computes_when_the_graph_runs(generator):
    inputs = batch(generator, dtype=torch.float64)
    compiled, counter = one_graph(loss)
    found = {}
    for kernel in ("numba", "eager"):
        with use_kernel(kernel):
            found[kernel] = result(compiled, *inputs)
            expected = result(loss, *inputs)
        assert torch.equal(found[kernel][0], expected[0])
        torch.testing.assert_close(found[kernel][1], expected[1], atol=1e-15, rtol=1e-12)
    assert counter.frame_count == 1
    with use_kernel("numba"):
        value = compiled(*inputs)
    inputs[0].grad = None
    with use_kernel("eager"):  # one kernel finishes what another began
        value.backward()
    torch.testing.assert_close(inputs[0].grad, found["numba"][1], atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_reaches_neither_the_operator_nor_a_graph(dtype, generator):
    def under_autocast(*inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(*inputs)

    inputs = batch(generator, dtype=dtype)
    torch.testing.assert_close(
        result(one_graph(under_autocast)[0], *inputs)[0], result(loss, *inputs)[0], atol=1e-7, rtol=0
    )
    x = (inputs[0] - inputs[1]).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside, double = operator(x)[0], operator(x.double())[0]
    assert torch.equal(inside, operator(x.float())[0])
    assert torch.equal(double, operator(x.double())[0])


def test_the_operator_refuses_half_precision_outside_autocast():
    with pytest.raises(ValueError, match="float32 or float64"):
        operator(torch.zeros(2, 8, dtype=torch.bfloat16))


def test_packed_responses_are_one_graph_and_wrong_bounds_a_sentence(generator):
    tokens = 0.05 * torch.randn(150, generator=generator)
    compiled, _ = one_graph(soft_rovr_packed)
    (value, grad), (expected, expected_grad) = (
        result(compiled, tokens, BOUNDS),
        result(soft_rovr_packed, tokens, BOUNDS),
    )
    torch.testing.assert_close(value, expected, atol=1e-7, rtol=0)
    torch.testing.assert_close(grad, expected_grad, atol=1e-7, rtol=1e-5)
    with pytest.raises(ValueError, match="must rise from 0"):
        compiled(tokens, torch.tensor([0, 7, 9, 151]))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # torch's own, on the first jvp
def test_derivatives_that_do_not_exist_are_refused_inside_a_graph_too(generator):
    x = (0.05 * torch.randn(3, 50, generator=generator)).requires_grad_()
    (grad,) = torch.autograd.grad(operator(x)[0].sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        grad.sum().backward()
    tangents, _ = one_graph(lambda v: torch.func.jvp(rovrl.soft_rovr, (v,), (v,)))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="reverse-mode"):
        tangents(x.detach())


def test_the_operator_works_under_vmap_and_with_batched_gradients(generator):
    x = (0.05 * torch.randn(3, 2, 50, generator=generator)).requires_grad_()
    alone = operator(x.flatten(0, 1))[0].view(3, 2)
    assert torch.equal(torch.func.vmap(lambda rows: operator(rows)[0])(x), alone)
    (jacobian,) = torch.autograd.grad(alone, x, torch.eye(6).view(6, 3, 2), is_grads_batched=True)
    torch.testing.assert_close(jacobian.sum((0, -1)), torch.ones(3, 2), atol=1e-5, rtol=0)


FRESH = """
import torch
from rovrl import clipped_objective, soft_rovr

def loss(log_ratios, advantage):
    return -clipped_objective(soft_rovr(log_ratios), advantage, 0.1, 0.1).mean()

x = (0.05 * torch.randn(4, 2100, generator=torch.Generator().manual_seed(0))).requires_grad_()
value = torch.compile(loss, fullgraph=True)(x, torch.ones(4))
value.backward()
assert abs(value.item() - loss(x, torch.ones(4)).item()) < 1e-6
print(f"{x.grad.sum():.1f}")
"""


@pytest.mark.slow
def test_a_loss_compiles_before_any_kernel_was_loaded():
    """Dynamo used to follow the kernel's import into numba and fail there."""
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert done.stdout == "-1.0\n", done.stderr[-3000:]


@pytest.mark.parametrize("kernel", ["eager", "numba"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_of_transposed_rows_has_the_strides_that_a_graph_was_told(masked, kernel, generator):
    x = torch.randn(50, 3, generator=generator).t()
    mask = (torch.rand(50, 3, generator=generator) < 0.6).t() if masked else None
    with use_kernel(kernel):
        saved = operator(x, mask)[1:]
        gradient = torch.ops.rovrl.soft_rovr_gradient(torch.ones(3), x, mask, None, *saved)
    assert gradient.stride() == (50, 1)
