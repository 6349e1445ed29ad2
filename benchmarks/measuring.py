"""How the benchmark measures: pairs of functions in turns, CPU time, ratios with quartiles; memory as the process's peak."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table: a number with its spread, what it must be and what it aims at."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    must: float | None = None
    goal: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """ "goal", "must", "MISSED", or nothing where there is no bar."""
        for bar, word in ((self.goal, "goal"), (self.must, "must")):
            if bar is not None and (self.value >= bar if self.at_least else self.value <= bar):
                return word
        return "MISSED" if self.must is not None else ""


def compare(
    name: str,
    ours: Work,
    theirs: Work,
    repeats: int,
    *,
    must: float | None = None,
    goal: float | None = None,
    at_least: bool = False,
    factor: float = 1.0,
) -> Row:
    """factor·(CPU time of `ours`)/(CPU time of `theirs`): the median over paired repeats, with its quartiles.

    They take turns in one process, so that other load on the machine falls on both.
    """
    for _ in range(2):
        ours()
        theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    low, middle, high = statistics.quantiles([factor * a / b for a, b in pairs], n=4)
    mine, other = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
    return Row(name, middle, low, high, must, goal, at_least, f"{mine:.2f} ms / {other:.2f} ms")


def seconds(work: Work) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def backward(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Work:
    """Forward and backward of `function` at x."""
    leaf = x.detach().clone().requires_grad_()

    def work() -> None:
        leaf.grad = None
        function(leaf).sum().backward()

    return work


def peak_tensors(setup: str, work: str, rows: int, tokens: int) -> float:
    """The peak extra memory of `work` in token-sized float32 tensors, in a fresh process (Linux).

    `setup` builds x and mask and warms up on a corner of them; the peak is the kernel's count of resident memory.
    """
    script = f"""
import gc, re, torch
torch.set_num_threads(1)
rows, tokens = {rows}, {tokens}
def status(field):
    return int(re.search(field + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
{setup}
gc.collect()
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
{work}
print((status("VmHWM") - before) / (4 * rows * tokens))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.split()[-1])


def ragged(
    rows: int, tokens: int, lengths: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-ratios of 0.05 standard deviations, and the mask of right-padded responses of the given lengths."""
    return 0.05 * torch.randn(rows, tokens, generator=generator), torch.arange(tokens) < lengths.unsqueeze(-1)
