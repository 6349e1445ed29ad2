"""Which answer of a completion counts."""

import pytest

from rovrl.tasks.answers import final_answer, last_boxed, plain_verdict
from rovrl.tasks.chat import as_text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{5}.", "5"),
        (r"\boxed{3}, no: \boxed{4}", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),  # an escaped brace that never closes
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{5} and then \boxed{6", "5"),  # the last complete one
        (r"\fbox{7}", "7"),
        (r"\boxed 8 is it", "8"),
        (r"\boxed{ 9 }", "9"),
        (r"\boxed{}", ""),
        ("no box here", None),
        (r"{ \boxed{5}", "5"),
    ],
)
def test_the_last_complete_box_counts(text, answer):
    assert last_boxed(text) == answer


def test_a_million_nested_boxes_cost_one_pass():
    deep = "\\boxed{" * 200_000
    assert last_boxed(deep) is None
    assert last_boxed(deep + "7" + "}" * 200_000) == "7"


def test_without_a_box_the_closing_text_counts():
    assert final_answer("x" * 5000 + " so it is 12").endswith("12")
    assert len(final_answer("x" * 5000)) == 1000


def test_control_characters_and_lone_surrogates_never_reach_the_verifier():
    cleaned = final_answer("\x00\ud800\\boxed{4\x07}")
    assert cleaned == "\\boxed{4 }"
    cleaned.encode()


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"\boxed{\text{east}}", r"\text{east}", True),
        (r"\boxed{007}", "7", True),
        (r"\boxed{8}", "7", False),
        (r"\boxed{$7$}", "7", True),
        (r"\boxed{}", "7", False),
        (r"\boxed{7}", "", False),
        ("\\boxed{" + "9" * 100_000 + "}", "7", False),
        (r"\boxed{\frac12}", "0.5", None),  # algebra is needed
        ("it is 7", "7", None),
    ],
)
def test_algebra_is_skipped_only_where_it_cannot_matter(answer, gold, verdict):
    assert plain_verdict(answer, gold) is verdict


def test_a_completion_may_be_text_or_a_conversation():
    assert as_text("a") == "a"
    assert as_text([{"role": "assistant", "content": "b"}]) == "b"
    parts = [{"type": "text", "text": "c"}, {"type": "image", "image": None}, "d", None, {"type": "text", "text": "e"}]
    assert as_text([{"role": "assistant", "content": parts}]) == "cde"
    assert as_text(None) == as_text([]) == as_text(3) == ""
