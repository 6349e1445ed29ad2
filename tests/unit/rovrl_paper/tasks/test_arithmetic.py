"""The embedded task: what is printed, what is right, what is held out."""

import random

import pytest

from rovrl_paper.tasks import arithmetic, dispatch, fewshot, keywords


def test_without_misprints_every_scratchpad_ends_with_the_right_sum():
    rng = random.Random(0)
    for _ in range(2000):
        a, b = rng.randrange(10**4), rng.randrange(10**4)
        text = arithmetic.worked(a, b, rng, rate=0.0)
        assert arithmetic.score(arithmetic.prompt(a, b), text) == 1.0
        assert len(text) == arithmetic.RESPONSE_LENGTH


def test_the_textbook_is_right_exactly_where_no_misprint_was_printed():
    """The answer follows from the printed columns: it is right when the misprints cancel or none was printed."""
    rng = random.Random(1)
    for problem, text in arithmetic.textbook_page(rng, 500):
        columns = text.split("#")[0].rstrip(";").split(";")
        printed_right = all(eval(left) == int(right) for left, right in (c.split("=") for c in columns))
        if printed_right:
            assert arithmetic.score(problem, text) == 1.0


def test_misprints_are_off_by_one_and_never_negative():
    wrong = arithmetic.misprints()
    assert len(wrong) == arithmetic.MISPRINTED_PAIRS
    assert all(abs(total - x - y) == 1 and total >= 0 for (x, y), total in wrong.items())


def test_a_misprinted_pair_is_printed_wrong_three_times_out_of_four():
    (x, y), wrong = next(iter(arithmetic.misprints().items()))
    rng = random.Random(2)
    pages = [arithmetic.worked(x, y, rng) for _ in range(4000)]
    share = sum(page.startswith(f"{x}+{y}+0={wrong:02d};") for page in pages) / len(pages)
    assert abs(share - arithmetic.MISPRINT_RATE) < 4 * (0.75 * 0.25 / 4000) ** 0.5  # four standard errors


@pytest.mark.parametrize(
    ("response", "reward"),
    [("#08435", 1.0), ("anything at all #08435", 1.0), ("#8435", 0.0), ("#08436", 0.0), ("#084350", 0.0), ("", 0.0)],
)
def test_only_the_final_number_is_looked_at(response, reward):
    assert arithmetic.score("3574+4861=", response) == reward


@pytest.mark.parametrize("task", [arithmetic, dispatch, fewshot, keywords])
def test_no_training_problem_is_held_out(task):
    held_out = set(task.held_out())
    for seed in range(5):
        chosen = task.training_problems(100, seed)
        assert len(set(chosen)) == 100
        assert not held_out & set(chosen)


def test_the_textbook_never_shows_a_held_out_problem():
    rng = random.Random(3)
    assert not set(arithmetic.held_out()) & {problem for problem, _ in arithmetic.textbook_page(rng, 20000)}


def test_the_tokenizer_and_the_fast_encoding_agree_and_decoding_is_the_inverse():
    tokens = arithmetic.tokenizer()
    texts = [problem + text for problem, text in arithmetic.textbook_page(random.Random(4), 20)]
    assert tokens(texts, add_special_tokens=False)["input_ids"] == arithmetic.encode(texts)
    assert tokens.batch_decode(arithmetic.encode(texts), skip_special_tokens=True) == texts


@pytest.mark.parametrize(
    ("response", "reward"), [("72", 1.0), (" 72\n11+3=14", 1.0), ("720", 0.0), ("27", 0.0), ("is 72", 0.0), ("", 0.0)]
)
def test_few_shot_takes_the_first_number(response, reward):
    assert fewshot.score(fewshot.prompt(64, 8), response) == reward
