"""Accuracy on the held-out problems, and how sure one can be of it and of differences between methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rovrl.output.intervals import Estimate, crossed, differences

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from rovrl_paper.lab.models.worlds import World


@torch.no_grad()
def greedy_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, problems: Sequence[str], max_tokens: int
) -> list[str]:
    """The model's greedy response to each problem."""
    training = model.training
    model.eval()
    encoded = tokenizer(list(problems), return_tensors="pt", padding=True, padding_side="left")
    out: Any = model.generate(  # pyright: ignore[reportCallIssue]
        input_ids=encoded["input_ids"],
        attention_mask=encoded["attention_mask"],
        max_new_tokens=max_tokens,
        do_sample=False,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.train(training)
    return tokenizer.batch_decode(out[:, encoded["input_ids"].shape[1] :], skip_special_tokens=True)


def verdicts(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, world: World) -> np.ndarray:
    """[problem] whether the greedy response to each held-out problem is right, as bool; in a graded world its score."""
    problems = world.held_out()
    responses = greedy_responses(model, tokenizer, problems, world.max_response_tokens)
    scores = np.array([world.score(p, r) for p, r in zip(problems, responses, strict=True)])
    return scores if world.graded else scores >= 1


def as_row(verdicts: np.ndarray) -> dict[str, Any]:
    """Verdicts as fields of one line of JSON; `from_row` is the inverse."""
    told = {"right": pack(verdicts)} if verdicts.dtype == bool else {"scores": verdicts.tolist()}
    return {"accuracy": float(verdicts.mean()), "problems": verdicts.size, **told}


def from_row(row: Mapping[str, Any]) -> np.ndarray:
    """The verdicts that `as_row` wrote."""
    return np.array(row["scores"]) if "scores" in row else unpack(row["right"], row["problems"])


def paired_difference(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Accuracy of `ours` minus `theirs`, both [seed, problem] of the same seeds and problems, paired over both."""
    return crossed(differences(ours, theirs))


def pack(right: np.ndarray) -> str:
    """Bools as a short hexadecimal text, for one line of JSON; `unpack` is the inverse."""
    return np.packbits(right).tobytes().hex()


def unpack(text: str, count: int) -> np.ndarray:
    """The `count` bools that `pack` wrote."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[:count].astype(bool)
