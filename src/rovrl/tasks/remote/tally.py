"""What happened while rewards were asked for: seconds, retries, and what is missing for which reason."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rovrl.tasks.remote.failure import REASONS

_KEPT = 10_000  # requests over which the quantiles are taken


@dataclass
class Tally:
    """Counts of one call, or of a client's life; `seconds` are those of the last requests."""

    asked: int = 0
    requests: float = 0
    retries: float = 0
    splits: float = 0
    missing: Counter[str] = field(default_factory=Counter)
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def add(self, other: Tally) -> None:
        """Adds the counts of `other`."""
        self.asked += other.asked
        self.requests += other.requests
        self.retries += other.retries
        self.splits += other.splits
        self.missing.update(other.missing)
        self.seconds.extend(other.seconds)

    def metrics(self) -> dict[str, float]:
        """Numbers by name, always the same names: every rank of a distributed run must log the same."""
        shares = {f"none/{reason}": self.missing[reason] / max(self.asked, 1) for reason in REASONS}
        return {
            "seconds/p50": quantile(self.seconds, 0.5),
            "seconds/p95": quantile(self.seconds, 0.95),
            "requests": float(self.requests),
            "retries": float(self.retries),
            "splits": float(self.splits),
            "none": self.missing.total() / max(self.asked, 1),
            **shares,
        }


def quantile(values: Iterable[float], level: float) -> float:
    """The smallest value that at least a share `level` of the values do not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[min(int(level * len(ordered)), len(ordered) - 1)] if ordered else 0.0
