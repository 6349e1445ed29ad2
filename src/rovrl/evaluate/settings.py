"""What an evaluation does, and nothing about which model it does it to: two models are comparable when these are equal."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rovrl.tasks.catalog import SETS, Example

MAX_NEW_TOKENS = {"math": 8192, "govreport": 1024, "toolcall": 1024, "own": 1024}
"""The paper's response limits (`app:exp_protocol`); it states none for GovReport: its 1,024 are ours, as those of `own`."""


@dataclass(frozen=True)
class Decoding:
    """How responses are drawn. Temperature 0 is greedy."""

    samples: int = 1  # k responses per problem and run
    runs: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int | None = None  # None: the task's limit
    seed: int = 0
    chunk: int = 8  # problems generated together; part of the settings, because batches decide the random numbers

    def __post_init__(self) -> None:
        for name in ("samples", "runs", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be 0 (greedy) or a positive number, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}")
        if self.temperature == 0 and self.samples * self.runs > 1:
            raise ValueError(
                "greedy decoding gives the same response every time: set a temperature for more samples or runs"
            )

    def limit(self, task: str) -> int:
        """The response limit for a task."""
        return self.max_new_tokens or MAX_NEW_TOKENS[task]

    def seed_of(self, suite: str, run: int, unit: int) -> int:
        """The seed of one chunk of problems in one run: the same for every model, whatever was done before it."""
        words = f"{self.seed}/{suite}/{run}/{unit}".encode()
        return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "big")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def task_of(suite: str) -> str:
    """The task a suite belongs to: by the catalog, or the word before the colon of TASK:FILE."""
    return SETS[suite].task if suite in SETS else suite.partition(":")[0]


def fingerprint(examples: Sequence[Example]) -> str:
    """Sixteen hex digits that change when a problem, its order or its gold answer changes."""
    digest = hashlib.blake2b(digest_size=8)
    for example in examples:
        digest.update(repr(sorted(example.items())).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
