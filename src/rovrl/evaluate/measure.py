"""Numbers for a batch of responses, by task: accuracy, ROUGE, or the two parts of the tool-call score."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rovrl.errors import RovrlError
from rovrl.tasks import govreport, math, toolcall
from rovrl.tasks.catalog import Example

Metrics = dict[str, float]
_ATTEMPTS = 3


def accuracy(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """1 where math-verify accepts the final answer; a RovrlError, and not 0, if the verifier keeps failing."""
    answers = [example["answer"] for example in examples]
    for _ in range(_ATTEMPTS):
        found = math.verdicts(completions, answers)  # what was judged is remembered: only failures are asked again
        if all(verdict.judged for verdict in found):
            return [{"accuracy": float(verdict.accepted)} for verdict in found]
    reasons = [verdict.reason for verdict in found if not verdict.judged]
    raise RovrlError(
        f"{len(reasons)} answers could not be judged ({', '.join(sorted(set(reasons)))}): what is finished is kept, repeat the "
        "command to go on"
    )


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
