"""ToolRL's rule against a second, naive writing of it, on turns that hypothesis makes up."""

import json
import re
from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from rovrl.tasks.toolcall import parts, score

VALUES = st.one_of(
    st.integers(0, 2), st.sampled_from(["a", "b"]), st.none(), st.booleans(), st.lists(st.integers(0, 1), max_size=2)
)
CALLS = st.lists(
    st.builds(
        lambda name, parameters: {"name": name, "parameters": parameters},
        st.sampled_from(["f", "g"]),
        st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3),
    ),
    min_size=1,
    max_size=3,
)
PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>", "\n", "a", '{"name": "f"}']
    ),
    max_size=12,
).map("".join)


def written(calls):
    return "<think>t</think>\n<tool_call>\n" + "\n".join(map(json.dumps, calls)) + "\n</tool_call>"


def overlap(a, b):
    a, b = Counter(a), Counter(b)
    return 1.0 if a == b else (a & b).total() / (a | b).total()


def naive(gold, given):
    """The rule as the notes state it; greedy over gold calls in order, like the rule."""
    points, unused = overlap([c["name"] for c in gold], [c["name"] for c in given]), list(given)
    for wanted in gold:
        best = (0.0, None)
        for candidate in unused:
            if candidate["name"] == wanted["name"]:
                have, want = candidate["parameters"], wanted["parameters"]
                worth = overlap(list(want), list(have)) + sum(k in have and have[k] == v for k, v in want.items())
                if worth > best[0]:
                    best = (worth, candidate)
        if best[1] is not None:
            points += best[0]
            unused = [c for c in unused if c is not best[1]]
    return 6 * points / (1 + sum(1 + len(c["parameters"]) for c in gold)) - 3


@given(CALLS, CALLS)
def test_correctness_agrees_with_the_rule_written_a_second_time(gold, other):
    found = parts(written(other), written(gold))
    assert found.format == 1.0
    assert abs(found.correctness - (3.0 if gold == other else naive(gold, other))) < 1e-12


@given(CALLS)
def test_any_order_of_the_gold_calls_has_the_full_score(gold):
    distinct = [c for n, c in enumerate(gold) if c["name"] not in [d["name"] for d in gold[:n]]]
    assert {score(written(order), written(distinct)) for order in permutations(distinct)} == {4.0}


@given(PIECES, CALLS)
def test_no_text_leaves_the_range_or_raises(text, gold):
    assert -3.0 <= score(text, written(gold)) <= 4.0


@given(PIECES)
def test_format_agrees_with_the_regular_expressions_of_the_rule(text):
    text = text.strip()
    for truth, pattern in [
        (written([{"name": "f", "parameters": {}}]), r"<think>.*?</think>\n<tool_call>\n.*?\n</tool_call>"),
        ("<think>t</think>\n<response>r</response>", r"<think>.*?</think>\n<response>.*?</response>"),
    ]:
        tag = "tool_call" if "tool_call" in truth else "response"
        once = text.count(f"<{tag}>") == text.count(f"</{tag}>") == 1
        assert parts(text, truth).format == float(bool(once and re.fullmatch(pattern, text, re.DOTALL)))
