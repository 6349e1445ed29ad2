"""A whole loss under torch.compile beside the same loss in plain calls, forward and backward, one thread."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from measuring import Row, compare, ragged, seconds
from rovrl import clipped_objective, soft_rovr
from rovrl.robust.kernels import compiled

Step = Callable[[], None]


def run(quick: bool) -> list[Row]:
    """Time per step, seconds of the first one, and how many graphs four lengths need."""
    rows, tokens, repeats = (24, 512, 3) if quick else (192, 8192, 41)
    counter = CompileCounterWithBackend("inductor")
    graph = torch.compile(loss, fullgraph=True, backend=counter)
    first = seconds(step(graph, *batch(8, 300)))
    for length in (301, 450, 777):
        step(graph, *batch(8, length))()
    table = [
        Row("graphs for four lengths that are marked as dynamic", counter.frame_count, must=1),
        Row("CPU seconds of the first compiled step", first),
    ]
    with compiled():  # plain calls of any size by the kernel, as in a trainer
        large, small = batch(rows, tokens), batch(16, 512)
        name = "compiled / plain: forward and backward of a loss, {} x {} float32, ragged"
        table.append(_compare(name.format(rows, tokens), graph, loss, large, repeats))
        table.append(_compare(name.format(16, 512), graph, loss, small, 3 if quick else 201))
        vocabulary = 64 if quick else 1024
        name = f"the same from logits, 16 x 512 x {vocabulary}"
        whole = torch.compile(loss_of_logits, fullgraph=True, dynamic=False)
        logits = from_logits(vocabulary, *small)
        return [*table, _compare(name, whole, loss_of_logits, logits, 3 if quick else 21, must=1.1, goal=1.0)]


def loss(new: Tensor, old: Tensor, mask: Tensor, advantage: Tensor) -> Tensor:
    return -clipped_objective(soft_rovr(new - old, mask), advantage).mean()


def loss_of_logits(logits: Tensor, tokens: Tensor, old: Tensor, mask: Tensor, advantage: Tensor) -> Tensor:
    new = torch.log_softmax(logits, -1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return loss(new, old, mask, advantage)


def batch(rows: int, tokens: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    lengths = torch.randint(tokens // 8, tokens + 1, (rows,), generator=generator)
    x, mask = ragged(rows, tokens, lengths, generator)
    old = torch.randn(rows, tokens, generator=generator)
    data = (old + x).requires_grad_(), old, mask, torch.randn(rows, generator=generator)
    for tensor in data:
        torch._dynamo.mark_dynamic(tensor, tuple(range(tensor.ndim)))
    return data


def from_logits(vocabulary: int, _: Tensor, old: Tensor, mask: Tensor, advantage: Tensor) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(vocabulary)
    logits = torch.randn(*old.shape, vocabulary, generator=generator)
    tokens = torch.randint(vocabulary, old.shape, generator=generator)
    chosen = torch.log_softmax(logits, -1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    near = chosen + 0.05 * torch.randn(old.shape, generator=generator)
    return logits.requires_grad_(), tokens, near, mask.clone(), advantage.clone()


def step(function: Callable[..., Tensor], *data: Tensor) -> Step:
    """Forward and backward; the first tensor is the one that learns."""

    def work() -> None:
        data[0].grad = None
        function(*data).backward()

    return work


def _compare(name: str, graph, plain, data: tuple[Tensor, ...], repeats: int, **bars: float) -> Row:
    return compare(name, step(graph, *data), step(plain, *data), repeats, **bars)  # pyright: ignore[reportArgumentType]
