"""The data of app:simulation: six estimators on the same observations and the same partition, seed 0."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rovrl import REFERENCES, Blocks, RewardChannel
from rovrl.output.intervals import shared_draws

SIZE, BLOCKS, SHIFT, CORRUPTED = 128, 8, 8.0, 16
CHANNEL = RewardChannel(num_blocks=BLOCKS, num_levels=9, score_width=1.0)
PARTITION = Blocks.contiguous(SIZE, BLOCKS)
TITLES = {
    "mean": "Mean", "global_m": "Global M", "mom": "MOM", "vrmom": "VRMOM-style", "robust_mom": "Robust MOM", "rovr": "RoVR",
}  # fmt: skip
SCENARIOS = {
    "gaussian": "Gaussian", "student_t3": "Student-t3", "point": "Point contamination", "block": "Block contamination",
}  # fmt: skip
COLOURS = {
    "mean": "#999999", "global_m": "#56B4E9", "mom": "#E69F00", "vrmom": "#CC79A7", "robust_mom": "#009E73", "rovr": "#D55E00",
}  # fmt: skip
"""Okabe and Ito's palette, safe for colour-blind readers."""
TITLES |= {name: name for name in REFERENCES if name not in TITLES}  # an estimator that the paper does not have
COLOURS |= {name: "#000000" for name in REFERENCES if name not in COLOURS}


def gaussian(trials: int, generator: torch.Generator) -> Tensor:
    """Standard normal observations [trial, 128]."""
    return torch.randn(trials, SIZE, generator=generator, dtype=torch.float64)


def student_t3(trials: int, generator: torch.Generator) -> Tensor:
    """t_3/√3: center 0, variance 1, heavy tails."""
    chi_square = torch.randn(trials, SIZE, 3, generator=generator, dtype=torch.float64).square().sum(-1)
    return gaussian(trials, generator) / (chi_square / 3).sqrt() / math.sqrt(3)


def dispersed(clean: Tensor, shift: float) -> Tensor:
    """16 of 128 observations shifted, two in each block."""
    x = clean.clone()
    x.view(-1, BLOCKS, SIZE // BLOCKS)[:, :, : CORRUPTED // BLOCKS] += shift
    return x


def coherent(clean: Tensor, shift: float) -> Tensor:
    """16 of 128 observations shifted: one whole block."""
    x = clean.clone()
    x[:, : SIZE // BLOCKS] += shift
    return x


def estimates(x: Tensor) -> dict[str, Tensor]:
    """Each estimator's value in every trial."""
    return {name: estimator(x, PARTITION, CHANNEL) for name, estimator in REFERENCES.items()}


def resampled_moments(samples: Tensor, replicates: int, generator: torch.Generator) -> Tensor:
    """Resampled raw moments [replicate, 2] (mean, mean square) of [trial] values, by how often each trial was drawn."""
    n = len(samples)
    counts = torch.stack([torch.bincount(drawn, minlength=n) for drawn in shared_draws(n, replicates, generator)])
    return counts.double() @ torch.stack((samples, samples.square()), -1) / n
