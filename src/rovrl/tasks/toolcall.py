"""Tool calls: ToolRL's rule as a scorer (`sec:tool_call_results`); no tool is executed.

    from rovrl.tasks.toolcall import toolcall_reward      # TRL: reward_funcs=[toolcall_reward]; the dataset has `ground_truth`
    reward.custom_reward_function.path=pkg://rovrl.tasks.toolcall     # verl: name=compute_score

The rule (Qian et al. 2025, "ToolRL"): total = format + correctness.

- format ∈ {0, 1}: the whole completion is `<think>..</think>`, then on their own lines what the ground truth holds:
  `<tool_call>` block, `<response>` block, or both; each of these tags exactly once.
- correctness ∈ [-3, 3], 0 if the ground truth calls no tool. With S the points of the predicted calls and S_max those of a
  perfect prediction, 6 S / S_max - 3; without a readable block of calls, -3.

Where ToolRL's own program would misread a text, we read it: a thought that *mentions* a tag is not a call when calls follow
it, and the JSON constant NaN equals itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from rovrl.tasks.chat import as_text

LOWEST, HIGHEST = -3.0, 3.0
_THOUGHT_END = re.compile(r"</think>\s*(?=<tool_call>|<response>)")
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>")


class ToolScore(NamedTuple):
    """The two parts of the rule; their sum is the reward."""

    format: float
    correctness: float

    @property
    def total(self) -> float:
        """The reward."""
        return self.format + self.correctness


def score(completion: object, ground_truth: object) -> float:
    """The total of ToolRL's rule, in [-3, 4]; never raises because of a completion."""
    return parts(completion, ground_truth).total


def parts(completion: object, ground_truth: object) -> ToolScore:
    """Format and correctness of a completion. ValueError if the ground truth itself has calls that are not JSON objects."""
    text, truth = _turn(as_text(completion)), as_text(ground_truth).strip()
    wanted = _after_thought(truth)
    blocks = [tag for tag in ("tool_call", "response") if f"<{tag}>" in wanted]
    return ToolScore(float(well_formed(text, blocks)), _correctness(text, wanted))


def well_formed(text: str, blocks: Sequence[str]) -> bool:
    """Whether `text` is a thought followed by exactly `blocks`, each tag once; linear in its length."""
    if any(text.count(f"<{tag}>") != 1 or text.count(f"</{tag}>") != 1 for tag in blocks):
        return False
    if not text.startswith("<think>"):
        return False
    end = "</think>"
    if not blocks:
        return text.endswith(end)
    for tag in blocks:
        line_break = "\n" if tag == "tool_call" else ""  # calls stand on lines of their own, a response need not
        opening = f"{end}\n<{tag}>"
        start = text.find(opening + line_break)
        end = f"{line_break}</{tag}>"
        if start < 0 or text.find(end, start + len(opening) + len(line_break)) < 0:
            return False
    return text.endswith(end)


def match_points(gold: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """(S, S_max): names as multisets, then for each gold call the best unused call of its name, by keys and by values.

    S = |names ∩| / |names ∪| + Σ_gold max over unused same-name calls of ( |keys ∩| / |keys ∪| + #{equal values} )
    S_max = 1 + Σ_gold (1 + #parameters)
    """
    points = _overlap([call["name"] for call in gold], [call["name"] for call in given])
    unused: dict[Hashable, list[dict[str, Any]]] = {}
    for call in given:
        unused.setdefault(call["name"], []).append(call)
    for call in gold:
        candidates = unused.get(call["name"], [])
        worths = [_worth(call["parameters"], candidate["parameters"]) for candidate in candidates]
        best = max(range(len(worths)), key=worths.__getitem__, default=None)
        if best is not None and worths[best] > 0:
            points += worths[best]
            candidates.pop(best)
    return points, 1.0 + sum(1.0 + len(call["parameters"]) for call in gold)


def toolcall_reward(
    prompts: Sequence[object] = (),
    completions: Sequence[object] = (),
    ground_truth: Sequence[object] = (),
    **columns: Any,
) -> list[float]:
    """The rewards of a batch, as TRL calls it; the dataset's column `ground_truth` holds the gold turns."""
    if len(completions) != len(ground_truth):
        raise ValueError(
            f"{len(completions)} completions but {len(ground_truth)} ground truths: one for each is needed"
        )
    return [score(completion, truth) for completion, truth in zip(completions, ground_truth, strict=True)]


def compute_score(
    data_source: object, solution_str: str, ground_truth: object, extra_info: object = None, **kwargs: Any
) -> float:
    """The reward of one response, as verl calls it."""
    return score(solution_str, ground_truth)


def prompt(system: str, user: str) -> list[dict[str, str]]:
    """The conversation of one RLLA row."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _correctness(text: str, wanted: str) -> float:
    if "<tool_call>" not in wanted:
        return 0.0
    try:
        gold = _calls(wanted, blank_lines=True)
        match_points(gold, gold)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"the ground truth's tool calls are not JSON objects with name and parameters: {error}"
        ) from None
    try:
        given = _calls(_after_thought(text))
        if given == gold:
            return HIGHEST
        points, most = match_points(gold, given)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        return LOWEST
    return (HIGHEST - LOWEST) * points / most + LOWEST


def _calls(answer: str, blank_lines: bool = False) -> list[dict[str, Any]]:
    """The JSON objects, one a line, of the `<tool_call>` block; ValueError if there is no such block or a line is not JSON."""
    _, opened, rest = answer.partition("<tool_call>")
    block, closed, _ = rest.partition("</tool_call>")
    if not opened or not closed:
        raise ValueError("no <tool_call> block")
    lines = block.strip().split("\n")
    return [json.loads(line, parse_constant=_Constant) for line in lines if line.strip() or not blank_lines]


class _Constant(NamedTuple):
    """NaN or an infinity in JSON: equal to itself, unlike the float."""

    name: str


def _worth(gold: dict[str, Any], given: dict[str, Any]) -> float:
    equal = sum(1 for key, value in gold.items() if key in given and given[key] == value)
    return _overlap(list(gold.keys()), list(given.keys())) + equal


def _overlap(gold: list[Any], given: list[Any]) -> float:
    """|∩| / |∪| of two multisets; 1 for two empty ones."""
    if not gold and not given:
        return 1.0
    common = (Counter(gold) & Counter(given)).total()
    return common / (len(gold) + len(given) - common)


def _after_thought(text: str) -> str:
    """What follows the thought: from the first `</think>` with a block right behind it, else all of the text."""
    end = _THOUGHT_END.search(text)
    return text[end.end() :] if end else text


def _turn(completion: str) -> str:
    """The assistant's turn, without its end-of-turn tokens; linear, however many there are."""
    end = len(completion)
    while end:
        tag = next((tag for tag in _TURN_ENDS if completion.endswith(tag, 0, end)), None)
        if tag is None and not completion[end - 1].isspace():
            break
        end -= len(tag) if tag else 1
    return completion[:end].lstrip()
