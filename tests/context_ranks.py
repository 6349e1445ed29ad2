"""Ranks over gloo that hold the tokens of responses in pieces: `python context_ranks.py RANKS OUT`.

Started by tests/gradient/test_context_parallel.py. One import of torch serves all ranks: they are forked before anything ran.
"""

import multiprocessing
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

import rovrl

ROWS, TOKENS = 6, 240
LENGTHS = (240, 151, 40, 9, 3, 0)


@dataclass(frozen=True)
class Case:
    """How the responses look, and how they are cut: the tokens of each rank end at these shares of the whole."""

    settings: dict = field(default_factory=dict)
    dtype: torch.dtype = torch.float64
    outliers: bool = False
    holes: bool = True
    repeats: int = 1
    order: str = "contiguous"
    lopsided: bool = False

    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        """All tokens of all responses, and which are valid."""
        draw = torch.Generator().manual_seed(7)
        x = 0.05 * torch.randn(ROWS, TOKENS, generator=draw, dtype=torch.float64)
        if self.outliers:
            x[:, 30:70] += 3.0
            x[:, ::37] = 1e12
        mask = torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]
        if self.holes:
            mask &= torch.rand(ROWS, TOKENS, generator=draw) < 0.8
        x[~mask] = torch.nan
        return x.to(self.dtype).repeat_interleave(self.repeats, -1), mask.repeat_interleave(self.repeats, -1)

    def places(self, rank: int, ranks: int) -> torch.Tensor:
        """Which tokens a rank holds; lopsided: the first a seventh, the next but one the rest, and of four ranks two none."""
        tokens = torch.arange(TOKENS * self.repeats)
        if self.order == "zigzag":
            pieces = tokens.chunk(2 * ranks)
            return torch.cat((pieces[rank], pieces[2 * ranks - 1 - rank]))
        if self.lopsided:
            ends = (0, len(tokens) // 7, len(tokens) // 7, *[len(tokens)] * (ranks - 2))
            return tokens[ends[rank] : len(tokens) if rank == ranks - 1 else ends[rank + 1]]
        return tokens.chunk(ranks)[rank]


CASES = {
    "even": Case(),
    "float32": Case(dtype=torch.float32),
    "without holes": Case(holes=False),
    "outliers": Case(outliers=True),
    "robust units": Case({"units": "robust"}),
    "other settings": Case({"num_blocks": 3, "score_width": 0.1, "temperature": 0.05, "num_levels": 4}),
    "zigzag": Case(order="zigzag"),
    "lopsided": Case(lopsided=True),
    "short": Case(holes=False),
    "long": Case(holes=False, repeats=16),
}


def weights() -> torch.Tensor:
    """What each response's log weight is multiplied with in the loss."""
    return torch.linspace(-2, 3, ROWS, dtype=torch.float64)


def main(rank: int, ranks: int, out: Path) -> None:
    """Every case on this rank's tokens, with the numbers that were sent, and the sentences for what does not fit."""
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=ranks)
    sent, all_reduce = [], dist.all_reduce

    def counted(tensor, *args, **kwargs):
        sent.append(tensor.numel())
        return all_reduce(tensor, *args, **kwargs)

    dist.all_reduce = counted
    found = {}
    for name, case in CASES.items():
        x, mask = case.whole()
        mine = case.places(rank, ranks)
        leaf = x[:, mine].clone().requires_grad_()
        channel = rovrl.RatioChannel(**case.settings)
        sent.clear()
        value = rovrl.soft_rovr_context_parallel(leaf, mask[:, mine], channel, order=case.order)
        forward = list(sent)
        (value * weights().to(value)).sum().backward()
        assert len(sent) == len(forward)  # the backward pass sends nothing
        found[name] = {"value": value.detach(), "grad": leaf.grad, "places": mine, "sent": forward}
    try:
        rovrl.soft_rovr_context_parallel(torch.zeros(2 + rank % 2, 8))
    except ValueError as error:
        found["refused"] = str(error)
    torch.save(found, out / f"rank{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    number, directory = int(sys.argv[1]), Path(sys.argv[2])
    fork = multiprocessing.get_context("fork")
    started = [fork.Process(target=main, args=(rank, number, directory)) for rank in range(number)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in started))
