r"""The answer a completion commits to: its last `\boxed{...}`, else its closing text; and verdicts that need no algebra."""

from __future__ import annotations

import re

TAIL = 1_000
"""characters of an unboxed completion that are searched for a final expression"""

_TOKEN = re.compile(r"\\(?:boxed|fbox)\s*\{|\\(?:boxed|fbox)\s+(?P<bare>[^\s{}$\\]+)|\\.|[{}]", re.DOTALL)
_INTEGER = re.compile(r"-?\d{1,18}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def last_boxed(text: str) -> str | None:
    r"""What stands in the last complete `\boxed{...}` of `text`, or None.

    One pass with a stack, so a million unclosed boxes cost no more than a million characters. Escaped braces (`\{`) do not
    count; `\fbox` counts; of nested boxes the inner one is meant; `\boxed 5` means 5; an unclosed box does not count.
    """
    found, found_at = None, -1
    open_boxes: list[int] = []  # where the content of each open box starts, -1 for an ordinary brace
    for token in _TOKEN.finditer(text):
        word = token.group()
        if token["bare"] is not None:
            found, found_at = token["bare"], token.start()
        elif word == "{":
            open_boxes.append(-1)
        elif word == "}":
            start = open_boxes.pop() if open_boxes else -1
            if start > found_at:  # not one that encloses the box already found
                found, found_at = text[start : token.start()], start
        elif word.endswith("{") and len(word) > 2:
            open_boxes.append(token.end())
    return None if found is None else found.strip()


def final_answer(completion: str) -> str:
    r"""The last boxed answer in its `\boxed{...}`, else the last `TAIL` characters; without control characters."""
    boxed = last_boxed(completion)
    answer = completion[-TAIL:] if boxed is None else f"\\boxed{{{boxed}}}"
    return _CONTROL.sub(" ", answer).strip()


def plain_verdict(answer: str, gold: str) -> bool | None:
    """True or False where no algebra is needed: the same text, two plain integers, no answer, one far too long; else None."""
    boxed = last_boxed(answer)
    given = _tidy(answer if boxed is None else boxed)
    gold = _tidy(gold)
    if not given or not gold:
        return False
    if boxed is not None and given == gold:
        return True
    if boxed is not None and _INTEGER.fullmatch(given) and _INTEGER.fullmatch(gold):
        return int(given) == int(gold)
    if boxed is not None and len(given) > max(TAIL, 10 * len(gold)):
        return False
    return None


def _tidy(expression: str) -> str:
    expression = _CONTROL.sub(" ", expression).strip()
    if len(expression) > 2 and expression[0] == expression[-1] == "$":
        expression = expression.strip("$").strip()
    return expression
