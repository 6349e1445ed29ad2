"""Constants and signs of the bounds beside the paper's: sharp, movement, certificate, tolerance."""

from mutation.mutant import Mutant, mutants

SHARPER: tuple[Mutant, ...] = (
    *mutants(
        "guarantees/sharp.py",
        "unit/guarantees/test_sharp.py",
        (
            "p = (1 - score_separation(t, a, score_width, radius)) / 2",
            "p = (1 - score_separation(t, a, score_width, radius)) / 3",
        ),
        ("return n, n / 2 - count(", "return n, n / 2 - 2 * count("),
        ("min(1.0, 2 * _at_least(majority - q,", "min(1.0, 1 * _at_least(majority - q,"),
        ("math.exp(-n * _relative_entropy(", "math.exp(-2 * n * _relative_entropy("),
        ("* one_sided_blocks(sizes) / len(sizes)", "* one_sided_blocks(sizes) / (len(sizes) + 1)"),
        ("(B - 1) // 2 if len(set(sizes)) == 1", "B // 2 if len(set(sizes)) == 1"),
        ("delta / len(sizes)) for n in sizes)", "delta) for n in sizes)"),
        ("min(1.0, 2 * float(law[0,", "min(1.0, 1 * float(law[0,"),
        ("_log_choose(m, s) + _log_choose(N - m, n - s) -", "_log_choose(m, s) - _log_choose(N - m, n - s) -"),
        ("after[m - s, 1:] += tail[s] * come[:-1]", "after[m - s, 1:] += (1 - tail[s]) * come[:-1]"),
    ),
    *mutants(
        "guarantees/movement.py",
        "unit/guarantees/test_certificate.py",
        ("halves = sorted(-(-n // 2) for", "halves = sorted(n // 2 + 1 for"),
        ("low, high = -_median(down, r) - envelope,", "low, high = -_median(down, r) + envelope,"),
        (
            "one_sided_blocks(blocks.sizes) / (2 * density_sum(K)",
            "one_sided_blocks(blocks.sizes) / (4 * density_sum(K)",
        ),
        ("torch.where(cheapest <= r, candidates", "torch.where(cheapest < r, candidates"),
    ),
    *mutants(
        "guarantees/movement.py",
        "unit/guarantees/test_movement.py",
        ("shrink**3, 0.0).sum(-1)", "shrink**1, 0.0).sum(-1)"),
        ("(farthest * shrink) ** 2, 0.0).sum(-1) + m", "(farthest * shrink) ** 2, 0.0).sum(-1)"),
    ),
    *mutants(
        "guarantees/certificate.py",
        "unit/guarantees/test_certificate.py",
        ("_largest_others(-largest, self.r) + self.r) / G", "_largest_others(-largest, self.r)) / G"),
        ("(_others(least) - _largest_others(least, self.r))", "(_others(least) + _largest_others(least, self.r))"),
        ("+ top * top / G).sqrt() - now", "+ top * top / G).sqrt() + now"),
        ("stability.clamp(max=2 * min(", "stability.clamp(max=1 * min("),
        ("sides[0] - sides[1].flip(-1)", "sides[0] + sides[1].flip(-1)"),
    ),
    *mutants(
        "guarantees/certificate.py",
        "unit/guarantees/test_by_hand.py",
        ("(replaced / group + 2 * error) / 2 / floor**3", "(replaced / group + 2 * error) / 2 / floor"),
    ),
    *mutants(
        "guarantees/certificate.py",
        "unit/guarantees/test_certificate_extremes.py",
        (".clamp(max=FAR)", ".clamp(max=1.0)"),
    ),
    *mutants(
        "guarantees/tolerance.py",
        "unit/guarantees/test_certificate.py",
        ("(theta - low, high - theta)", "(0 * theta, 0 * theta)"),
        ("most = breakdown(blocks.sizes) - 1", "most = breakdown(blocks.sizes)"),
    ),
)
