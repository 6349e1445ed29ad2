"""Accuracy on the held-out problems: of one model, of a method over its seeds with intervals, and of two methods paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from rovrl.errors import RovrlError
from rovrl.output.intervals import Estimate, crossed, differences, proportion
from rovrl_paper.lab.methods import METHODS

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


Result = Mapping[str, Any]


class Row(NamedTuple):
    """One method over its seeds."""

    method: str
    seeds: tuple[int, ...]
    before: Estimate
    after: Estimate
    sd: float
    """Standard deviation of the final accuracy between seeds; nan with one seed."""
    difference: Estimate | None
    """To the first method, paired over seeds and problems; None for the first itself."""


class Comparison(NamedTuple):
    """Accuracy of `ours` minus `theirs`."""

    ours: str
    theirs: str
    difference: Estimate


def title(method: str) -> str:
    """A method's name for people."""
    return METHODS[method].title


def final_verdicts(results: Sequence[Result], evaluation: int = -1) -> np.ndarray:
    """[seed, problem] whether the greedy response was right (in a graded world: its score), at that evaluation of each run."""
    return np.stack([from_row(result["evaluations"][evaluation]) for result in results])


def by_method(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results of each method in the order of seeds; every method must have the same seeds, or there are no pairs."""
    found: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: r["job"]["seed"]):
        found.setdefault(result["job"]["method"], []).append(result)
    seeds = {method: [r["job"]["seed"] for r in runs] for method, runs in found.items()}
    if len({tuple(s) for s in seeds.values()}) > 1:
        raise RovrlError(f"methods cannot be paired, they have different seeds: {seeds}")
    return found


def table(results: Sequence[Result], order: Sequence[str]) -> list[Row]:
    """One row per method; the differences are to the first one of `order`."""
    runs, rows = by_method(results), []
    first = final_verdicts(runs[order[0]])
    for method in order:
        before, after = final_verdicts(runs[method], 0), final_verdicts(runs[method])
        finals = after.mean(1)
        rows.append(
            Row(
                method,
                tuple(r["job"]["seed"] for r in runs[method]),
                proportion(before[0]) if before.dtype == bool else crossed(before[:1]),
                crossed(after.astype(float)),
                float(finals.std(ddof=1)) if len(finals) > 1 else float("nan"),
                None if method == order[0] else paired_difference(after, first),
            )
        )
    return rows


def pairs(results: Sequence[Result], order: Sequence[str]) -> list[Comparison]:
    """Every method against every earlier one, by paired bootstrap."""
    runs = by_method(results)
    finals = {method: final_verdicts(runs[method]) for method in order}
    return [
        Comparison(ours, theirs, paired_difference(finals[ours], finals[theirs]))
        for i, ours in enumerate(order)
        for theirs in order[:i]
    ]


def percent(estimate: Estimate) -> str:
    """ "64.6 [60.3, 68.7]": per cent with the interval."""
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def points(estimate: Estimate) -> str:
    """ "+22.8 [+18.0, +27.4]": percentage points with the interval."""
    return f"{100 * estimate.value:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"


def as_json(rows: Sequence[Row], comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Table and comparisons as plain values."""
    plain = [
        row._asdict()
        | {"before": row.before._asdict(), "after": row.after._asdict(), "sd": None if row.sd != row.sd else row.sd}
        | {"difference": row.difference._asdict() if row.difference else None}
        for row in rows
    ]
    return {"table": plain, "pairs": [c._asdict() | {"difference": c.difference._asdict()} for c in comparisons]}
