"""Numbers for a batch of responses, by task: accuracy, ROUGE, or the two parts of the tool-call score."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rovrl.tasks import govreport, math, toolcall
from rovrl.tasks.catalog import Example

Metrics = dict[str, float]


def accuracy(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """1 where math-verify accepts the final answer."""
    found = math.scores(completions, [example["answer"] for example in examples])
    return [{"accuracy": value} for value in found]


def summary_overlap(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """ROUGE-1/2/L F1 against the reference summary."""
    pairs = zip(examples, completions, strict=True)
    return [govreport.rouge(completion, example["summary"]) for example, completion in pairs]


def tool_match(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """ToolRL's total and its parts."""
    parts = [
        toolcall.parts(completion, example["ground_truth"])
        for example, completion in zip(examples, completions, strict=True)
    ]
    return [{"total": part.total, "format": part.format, "correctness": part.correctness} for part in parts]


MEASURES: dict[str, Callable[[Sequence[Example], Sequence[str]], list[Metrics]]] = {
    "math": accuracy,
    "govreport": summary_overlap,
    "toolcall": tool_match,
}
BINARY = frozenset({"accuracy"})
"""Metrics for which pass@k means something."""
