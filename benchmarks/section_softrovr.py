"""SoftRoVR beside GSPO's masked mean, forward and backward, one thread; then the peers on the same tensors."""

from __future__ import annotations

import math

import torch

from measuring import Row, backward, compare, peak_tensors, ragged
from rovrl import RatioChannel, soft_rovr
from rovrl.baselines import WEIGHTS
from rovrl.robust.kernels import use_kernel
from rovrl.weight import gspo_mean, soft_rovr_packed

SETUP = """
import rovrl
from rovrl.weight import soft_rovr, gspo_mean
channel = rovrl.RatioChannel(gradient="{gradient}")
x = 0.05 * torch.randn(rows, tokens)
mask = torch.arange(tokens) < torch.randint(tokens // 8, tokens + 1, (rows, 1))
corner = x[:2, :64].clone().requires_grad_()
{function}(corner, mask[:2, :64].contiguous(){channel}).sum().backward()
x.requires_grad_()
"""
WORK = "{function}(x, mask{channel}).sum().backward()"


def run(quick: bool) -> list[Row]:
    """All rows of the ratio channel."""
    rows, tokens, repeats = (24, 512, 3) if quick else (192, 8192, 21)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(tokens // 8, tokens + 1, (rows,), generator=generator)
    x, mask = ragged(rows, tokens, lengths, generator)
    holes = mask & (torch.rand(rows, tokens, generator=generator) < 0.7)
    size = f"{rows} x {tokens}"
    table = [
        compare(f"SoftRoVR / masked mean, {size} float32, ragged", *_both(x, mask), repeats, must=4, goal=1.5),
        compare("the same with random holes in the mask", *_both(x, holes), repeats, must=6, goal=2.5),
        compare(
            "the same beside a mean with a ready float mask (not GSPO's, the fastest there is)",
            *(_both(x, mask)[0], backward(_float_mean(mask), x)),
            repeats,
        ),
        compare('SoftRoVR in units="robust" / masked mean', *_robust(x, mask), repeats),
    ]
    return table + _unrolled(quick) + _growth(quick) + _unequal(quick) + _peers(x, mask, repeats) + _memory(quick)


def _both(x: torch.Tensor, mask: torch.Tensor):
    return backward(lambda v: soft_rovr(v, mask), x), backward(lambda v: gspo_mean(v, mask), x)


def _robust(x: torch.Tensor, mask: torch.Tensor):
    channel = RatioChannel(units="robust")
    return backward(lambda v: soft_rovr(v, mask, channel), x), backward(lambda v: gspo_mean(v, mask), x)


def _float_mean(mask: torch.Tensor):
    keep = mask.float()
    count = keep.sum(-1)
    return lambda v: (v * keep).sum(-1) / count


def _unrolled(quick: bool) -> list[Row]:
    rows, tokens = (4, 512) if quick else (64, 8192)
    x = 0.05 * torch.randn(rows, tokens, generator=torch.Generator().manual_seed(1))
    steps = RatioChannel(gradient="unrolled", iterations=32)
    fused = backward(soft_rovr, x)
    unrolled = backward(lambda v: soft_rovr(v, None, steps), x)
    name = f"unrolled (S = 32) / fused implicit, {rows} x {tokens}"
    table = [compare(name, unrolled, fused, 3, must=30, goal=300, at_least=True)]

    def eager() -> None:
        with use_kernel("eager"):
            fused()

    return [*table, compare(f"eager implicit / fused implicit, {rows} x {tokens}", eager, fused, 3)]


def _growth(quick: bool) -> list[Row]:
    short, factor, rows = (256, 4, 2) if quick else (1024, 128, 2)
    generator = torch.Generator().manual_seed(2)
    large = 0.05 * torch.randn(rows, short * factor, generator=generator)
    small = large.reshape(-1, short).clone()  # the same tokens, cut into short responses
    repeats = 3 if quick else 21
    name = f"growth from {short} to {short * factor} tokens per response, against linear (as many tokens)"
    own = "the masked mean's own growth"
    return [
        compare(name, backward(soft_rovr, large), backward(soft_rovr, small), repeats, must=1.15, goal=1.0),
        compare(own, backward(gspo_mean, large), backward(gspo_mean, small), repeats),
    ]


def _unequal(quick: bool) -> list[Row]:
    rows, low, high, repeats = (24, 16, 512, 3) if quick else (192, 64, 8192, 21)
    generator = torch.Generator().manual_seed(3)
    draw = torch.rand(rows, generator=generator)
    lengths = torch.exp(math.log(low) + draw * math.log(high / low)).long().clamp(max=high)
    x, mask = ragged(rows, high, lengths, generator)
    packed, bounds = x[mask], torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    tokens = int(lengths.sum())
    even = backward(soft_rovr, packed[: tokens // rows * rows].view(rows, -1))  # as many responses, all of one length
    together = backward(lambda v: soft_rovr_packed(v, bounds), packed)
    padded, mean = _both(x, mask)
    share = tokens // rows * rows / tokens  # the even batch may lack a rest
    name = f"{rows} responses of {low}..{high} tokens (log-uniform), packed / as many of equal length"
    table = [
        compare(name, together, even, repeats, must=1.5, goal=1.1, factor=share),
        compare("the same padded (the gradient's padding must be written too)", padded, even, repeats, factor=share),
        compare("the same padded / masked mean of it", padded, mean, repeats),
    ]
    if tokens >= high:
        few = backward(soft_rovr, packed[: tokens // high * high].view(-1, high))
        share = tokens // high * high / tokens
        table.append(
            compare(
                f"the same packed / as many tokens in {tokens // high} responses", together, few, repeats, factor=share
            )
        )
    return table


def _peers(x: torch.Tensor, mask: torch.Tensor, repeats: int) -> list[Row]:
    mean = backward(lambda v: gspo_mean(v, mask), x)
    gmpo = backward(lambda v: WEIGHTS["gmpo"](v, mask, None), x)
    irls = backward(lambda v: _irls(v, mask.float()), x)
    table = [
        compare("peer: GMPO's clipped geometric mean / masked mean", gmpo, mean, repeats),
        compare("peer: IRLS with 20 iterations through autograd / masked mean", irls, mean, 3),
    ]
    try:
        import torchsort
    except ImportError:
        return table
    few = x[:8]
    soft = backward(lambda v: torchsort.soft_sort(v)[:, v.shape[1] // 2], few)
    return [*table, compare("peer: torchsort's soft median / mean, 8 rows", soft, backward(gspo_mean, few), 3)]


def _irls(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The M-center by 20 reweighted means, each seen by autograd."""
    u = (x * keep).sum(-1) / keep.sum(-1)
    for _ in range(20):
        weight = torch.rsqrt(1 + (x - u.unsqueeze(-1)) ** 2) * keep
        u = (weight * x).sum(-1) / weight.sum(-1)
    return u


def _memory(quick: bool) -> list[Row]:
    sizes = {"implicit": (256, 4096) if quick else (1536, 8192), "unrolled": (16, 1024) if quick else (64, 2048)}
    table = []
    for gradient, (rows, tokens) in sizes.items():
        words = {"function": "soft_rovr", "channel": ", channel", "gradient": gradient}
        value = peak_tensors(SETUP.format(**words), WORK.format(**words), rows, tokens)
        bars = {"must": 4.0, "goal": 2.0} if gradient == "implicit" else {}
        table.append(Row(f"peak extra memory in token tensors, {gradient}, {rows} x {tokens}", value, **bars))
    words = {"function": "gspo_mean", "channel": "", "gradient": "implicit"}
    mean = peak_tensors(SETUP.format(**words), WORK.format(**words), *sizes["implicit"])
    return [*table, Row("peak extra memory in token tensors, masked mean", mean)]
