"""Reward groups and token rows for the tests: random, with the special values forced in."""

from __future__ import annotations

import numpy as np
import torch

CHEM = [2.2, 2.2, 2.4, 2.4, 2.5, 2.7, 2.8, 2.9, 3.03, 3.03, 3.1, 3.37]
CHEM += [3.4, 3.4, 3.4, 3.5, 3.6, 3.7, 3.7, 3.7, 3.7, 3.77, 5.28, 28.95]
"""Copper in wholemeal flour (Analytical Methods Committee 1989): the field's test data for M-estimates of location."""


def reward_groups(count: int, size: int, seed: int = 0) -> np.ndarray:
    """[count, size] of groups in turn normal, heavy-tailed, binary, five-valued, spiked, offset, tiny, constant."""
    rng = np.random.default_rng(seed)
    kinds = [
        lambda: rng.normal(size=size),
        lambda: rng.standard_cauchy(size=size),
        lambda: rng.integers(0, 2, size).astype(float),
        lambda: rng.integers(0, 5, size) / 4,
        lambda: _spiked(rng, rng.normal(size=size) * 0.165, 10.0 ** rng.integers(1, 13)),
        lambda: 1e3 + rng.normal(size=size) * 0.01,
        lambda: rng.normal(size=size) * 1e-4,
        lambda: np.full(size, rng.choice([0.0, 1.0, 0.95, -3.7, 1e6])),
        lambda: _spiked(rng, rng.integers(0, 2, size).astype(float), 1000.0),
    ]
    return np.stack([kinds[i % len(kinds)]() for i in range(count)])


def extreme_groups(size: int = 16) -> np.ndarray:
    """Groups that overflow, underflow or defeat a careless solver."""
    zeros, ones = np.zeros(size), np.ones(size)
    first = zeros.copy()
    first[0] = 1
    half = (np.arange(size) % 2).astype(float)
    rows = [
        zeros,
        ones * 0.95,
        ones * 1e300,
        ones * 5e-324,
        first * 1e300,
        first * -1e300,
        first * 5e-324,
        half * 5e-324,
        half * 1e300,
        half * 2e300 - 1e300,
        first * 1e12 + half,
        first * 1e18 + np.arange(size) / size,
        np.linspace(-1e154, 1e154, size),
        half + 1e-17,
        np.nextafter(1, 2) * first + (1 - first),
        np.arange(size) * 1e-310,
    ]
    return np.stack(rows)


def token_rows(count: int, longest: int = 70, seed: int = 0, scale: float = 0.03) -> list[np.ndarray]:
    """`count` responses of 0 .. longest tokens: log-ratios normal, constant, spiked, burst, mostly zero, heavy."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        n = [0, 1, 3, 4, 7, 8, 31, 32, 33][i] if i < 9 else int(rng.integers(1, longest + 1))
        x = rng.normal(size=n) * scale
        if i % 6 == 1:
            x = np.full(n, 0.25)
        elif i % 6 == 2 and n:
            x[rng.integers(n)] += rng.choice([-1, 1]) * 10.0 ** rng.integers(-1, 3)
        elif i % 6 == 3:
            x[n // 3 : n // 3 + n // 5] += 0.5
        elif i % 6 == 4:
            x *= rng.random(n) < 0.1
        elif i % 6 == 5:
            x = rng.standard_cauchy(size=n) * scale
        rows.append(x)
    return rows


def scattered(rows: list[np.ndarray], seed: int = 0, filler: float = 0.0, dtype: torch.dtype = torch.float64):
    """The rows in a padded [seq, token] tensor whose mask has holes, masked slots holding `filler`."""
    rng = np.random.default_rng(seed)
    width = max(len(r) for r in rows) * 4 // 3 + 3
    table = torch.full((len(rows), width), filler, dtype=dtype)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, r in enumerate(rows):
        slots = torch.as_tensor(np.sort(rng.permutation(width)[: len(r)]))
        table[i, slots] = torch.as_tensor(r, dtype=dtype)
        mask[i, slots] = True
    return table, mask


def _spiked(rng: np.random.Generator, x: np.ndarray, size: float) -> np.ndarray:
    x = x.copy()
    x[rng.integers(len(x))] += rng.choice([-1, 1]) * size
    return x
