"""ToolRL's rule: worked numbers, and texts that are meant to confuse it."""

import json

import pytest

from rovrl.tasks import toolcall
from rovrl.tasks.toolcall import match_points, parts, score, well_formed


def turn(*calls, think="I should look it up.", response=None):
    """A well-formed turn with these calls (objects or raw lines) and response."""
    text = f"<think> {think} </think>"
    if calls:
        lines = "\n".join(call if isinstance(call, str) else json.dumps(call) for call in calls)
        text += f"\n<tool_call>\n{lines}\n</tool_call>"
    if response is not None:
        text += f"\n<response> {response} </response>"
    return text


def call(tool, /, **parameters):
    return {"name": tool, "parameters": parameters}


GOLD = turn(call("search", query="tea", limit=3))


def test_the_gold_turn_has_the_full_score():
    assert score(GOLD, GOLD) == 4.0
    assert score(turn(response="Done."), turn(response="Hello.")) == 1.0  # a response's words are not judged
    both = turn(call("search", query="tea"), response="Searching.")
    assert score(both, both) == 4.0


@pytest.mark.parametrize(
    ("completion", "format", "correctness"),
    [
        # S_max = 1 + (1 + 2) = 4; correctness = 6 S / 4 - 3
        (turn(call("search", query="tea", limit=4)), 1, 6 * (1 + 1 + 1) / 4 - 3),  # one value wrong
        (turn(call("search", query="oil", limit=4)), 1, 6 * (1 + 1 + 0) / 4 - 3),  # both values wrong
        (turn(call("search", query="tea")), 1, 6 * (1 + 1 / 2 + 1) / 4 - 3),  # a key missing
        (turn(call("search", query="tea", limit=3, page=1)), 1, 6 * (1 + 2 / 3 + 2) / 4 - 3),  # a key too many
        (turn(call("find", query="tea", limit=3)), 1, -3),  # another tool
        (turn(call("search", query="tea", limit=3), call("find")), 1, 6 * (1 / 2 + 1 + 2) / 4 - 3),  # a call too many
        (turn(call("search", query="tea", limit="3")), 1, 6 * (1 + 1 + 1) / 4 - 3),  # a string is not a number
        (turn("{not json}"), 1, -3),
        (turn(response="Tea is a drink."), 0, -3),
        ("", 0, -3),
    ],
)
def test_partial_matches_have_the_rules_numbers(completion, format, correctness):
    found = parts(completion, GOLD)
    assert found.format == format
    assert found.correctness == pytest.approx(correctness, abs=1e-12)
    assert score(completion, GOLD) == found.total


def test_the_order_of_calls_does_not_matter_but_each_is_used_once():
    a, b = call("f", x=1), call("f", x=2)
    assert score(turn(b, a), turn(a, b)) == 4.0
    points, most = match_points([a, b], [a, a])
    assert (points, most) == (1.0 + 2.0 + 1.0, 5.0)  # names equal, one call right, the other only its keys


def test_calls_without_parameters_match():
    assert score(turn(call("now")), turn(call("now"))) == 4.0
    assert parts(turn(call("now", zone="utc")), turn(call("now"))).correctness == pytest.approx(6 * 1 / 2 - 3)


@pytest.mark.parametrize(
    ("text", "blocks", "fits"),
    [
        ("<think></think>\n<tool_call>\n\n</tool_call>", ["tool_call"], True),
        ("<think>a</think>\n<tool_call>\n</tool_call>", ["tool_call"], False),  # one line break for two
        ("<think>a</think><tool_call>\nx\n</tool_call>", ["tool_call"], False),
        ("<think>a</think>\n<tool_call>x</tool_call>", ["tool_call"], False),
        ("<think>a</think>\n<tool_call>\nx\n</tool_call>\nMore.", ["tool_call"], False),
        ("Well, <think>a</think>\n<tool_call>\nx\n</tool_call>", ["tool_call"], False),
        ("<think>a</think>\n<tool_call>\nx\n</tool_call>\n<tool_call>\nx\n</tool_call>", ["tool_call"], False),
        ("<think>a</think>\n<response>x</response>", ["response"], True),
        ("<think>a</think>\n<response>x</response>", ["tool_call", "response"], False),
        ("<think>a</think>\n<tool_call>\nx\n</tool_call>\n<response>y</response>", ["tool_call", "response"], True),
        ("<think>a</think>\n<tool_call>\nx\n</tool_call><response>y</response>", ["tool_call", "response"], False),
        ("<think>a</think>", [], True),
        ("<think>a", [], False),
    ],
)
def test_format_is_the_whole_layout_or_nothing(text, blocks, fits):
    assert well_formed(text, blocks) is fits


def test_a_thought_that_mentions_a_tag_is_not_a_call():
    think = "I will write <tool_call> and then </tool_call>."
    assert (
        score(turn(call("search", query="tea", limit=3), think=think), GOLD) == 3.0
    )  # the tag is there twice: no format
    assert score(GOLD, turn(call("search", query="tea", limit=3), think=think)) == 4.0  # in the ground truth likewise
    assert score("Please use <tool_call> and </tool_call> tags.", GOLD) == -3.0


def test_a_tag_inside_a_value_does_not_end_the_thought():
    gold = turn(call("write", text="end with </think> please"))
    assert score(gold, gold) == 4.0


def test_of_duplicate_keys_the_last_counts_as_in_every_json_reader():
    doubled = '{"name": "find", "name": "search", "parameters": {"query": "oil", "query": "tea", "limit": 3}}'
    assert score(turn(doubled), GOLD) == 4.0


def test_nan_and_infinity_are_values_that_equal_only_themselves():
    gold = turn('{"name": "set", "parameters": {"x": NaN, "y": -Infinity}}')
    assert score(gold, gold) == 4.0
    assert score(turn('{"name": "set", "parameters": {"x": 0, "y": -Infinity}}'), gold) < 4.0
    assert score(turn(call("set", x="NaN", y=-1)), gold) < score(gold, gold)


@pytest.mark.parametrize(
    "line",
    [
        "[]", "3", '"search"', "null", "{}", '{"name": "search"}', '{"name": ["search"], "parameters": {}}',
        '{"name": {"a": 1}, "parameters": {}}', '{"name": "search", "parameters": [["query", "tea"]]}',
        '{"name": "search", "parameters": null}', '{"name": "search", "parameters": "query"}',
        '{"name": "search", "parameters": {"query": "tea", "limit": 3}} extra', "9" * 100_000,
    ],
)  # fmt: skip
def test_calls_of_a_wrong_type_score_the_lowest(line):
    assert score(turn(line), GOLD) == -2.0  # the layout is right, the call is not one


NONSENSE = {
    "braces": "{" * 5_000_000,
    "brackets": "[" * 5_000_000,
    "objects": '{"a":' * 1_000_000,
    "lines": "\n" * 1_000_000,
    "openings": "</think>\n<tool_call>\n" * 200_000,
    "thoughts": "<think>" * 500_000,
}


@pytest.mark.parametrize("text", NONSENSE.values(), ids=NONSENSE)
def test_megabytes_of_nonsense_score_the_lowest(text):
    assert score(text, GOLD) == -3.0
    assert score(turn(text), GOLD) <= -2.0


def test_twenty_thousand_calls_are_weighed_in_linear_time():
    many = turn(*[json.dumps(call("search", query=str(n), limit=n)) for n in range(20_000)])
    assert -3.0 < score(many, GOLD) < 4.0


def test_end_of_turn_tokens_do_not_spoil_the_format():
    assert score(GOLD + "<|im_end|>\n", GOLD) == 4.0
    assert score([{"role": "assistant", "content": GOLD}], GOLD) == 4.0


def test_a_ground_truth_with_broken_calls_is_an_error_about_the_data():
    with pytest.raises(ValueError, match="ground truth's tool calls are not JSON objects"):
        score(GOLD, turn("{broken"))


def test_trl_and_verl_call_the_same_score():
    assert toolcall.toolcall_reward(prompts=["?", "?"], completions=[GOLD, ""], ground_truth=[GOLD, GOLD]) == [
        4.0,
        -3.0,
    ]
    with pytest.raises(ValueError, match="1 completions but 0 ground truths"):
        toolcall.toolcall_reward(completions=[GOLD])
    assert toolcall.compute_score("rlla", GOLD, GOLD, extra_info={"index": 1}, step=2) == 4.0


def test_end_of_turn_tokens_are_stripped_in_time_that_grows_with_their_number(monkeypatch):
    """Each token is looked at a fixed number of times: the text is never copied on the way."""

    class Counted(str):
        looked = 0

        def endswith(self, *arguments):
            Counted.looked += 1
            return super().endswith(*arguments)

        def strip(self, *_):
            raise AssertionError("a copy per token makes it quadratic")

    ends = Counted(GOLD + "<|im_end|>\n" * 20_000)
    assert toolcall._turn(ends) == GOLD
    assert Counted.looked <= 7 * 20_000 + 10
    assert score(GOLD + " <|im_end|> <|endoftext|>\n<|eot_id|>", GOLD) == 4.0
