"""The second embedded task: what a call is worth, what the manual prints, what is held out."""

import random

import pytest

from rovrl_paper.tasks import dispatch, keywords

PROBLEM = "ak3 gr7 bm0 jt5 ck9>"


def right() -> str:
    return dispatch.worked(PROBLEM, random.Random(0), rate=0.0)


def changed(call: int, tool: str | None = None, argument: str | None = None) -> str:
    calls = right().split(";")[:-1]
    asked, answer = calls[call].split(":")
    calls[call] = f"{asked}:{tool or answer[0]}{argument or answer[1]}"
    return "".join(f"{text};" for text in calls)


def other(call: int) -> str:
    """A tool that is not the right one of that call."""
    tool = right().split(";")[call].split(":")[1][0]
    return dispatch.TOOLS[(dispatch.TOOLS.index(tool) + 1) % 10]


def test_without_misprints_the_manual_scores_one_and_fills_the_length():
    rng = random.Random(0)
    for problem in dispatch.problems(500, seed=1):
        text = dispatch.worked(problem, rng, rate=0.0)
        assert dispatch.score(problem, text) == 1.0
        assert len(problem) == len(PROBLEM)
        assert len(text) == dispatch.RESPONSE_LENGTH


def test_each_call_is_a_fifth_and_a_wrong_argument_half_of_it():
    assert dispatch.score(PROBLEM, changed(2, tool=other(2))) == pytest.approx(0.8)
    assert dispatch.score(PROBLEM, changed(2, argument="9")) == pytest.approx(0.9)
    assert dispatch.score(PROBLEM, changed(2, tool=other(2), argument="9")) == pytest.approx(0.8)
    assert dispatch.score(PROBLEM, right()[:12]) == pytest.approx(0.4)


def test_what_a_call_says_it_was_asked_for_is_not_looked_at():
    assert dispatch.score(PROBLEM, right().replace("ak:", "bk:")) == 1.0


@pytest.mark.parametrize(
    "spoil", [lambda t: t + "ak:A1;", lambda t: t + "x", lambda t: t[:-1], lambda t: "", str.upper]
)
def test_what_is_not_a_list_of_calls_scores_nothing(spoil):
    assert dispatch.score(PROBLEM, spoil(right())) == 0.0


def test_every_tool_serves_ten_entries_and_a_misprint_names_another_tool():
    table, wrong = dispatch.table(), dispatch.misprints()
    assert sorted(table.values()) == sorted(dispatch.TOOLS * 10)
    assert len(wrong) == dispatch.MISPRINTED_PAIRS
    assert all(tool != table[pair] and tool in dispatch.TOOLS for pair, tool in wrong.items())


def test_a_misprinted_entry_is_printed_wrong_three_times_out_of_four_and_the_others_never():
    (verb, thing), wrong = next(iter(dispatch.misprints().items()))
    safe = next(pair for pair in dispatch.table() if pair not in dispatch.misprints())
    rng, problem = random.Random(2), f"{verb}{thing}1 {safe[0]}{safe[1]}2>"
    pages = [dispatch.worked(problem, rng) for _ in range(4000)]
    share = sum(page.startswith(f"{verb}{thing}:{wrong}1;") for page in pages) / len(pages)
    assert abs(share - dispatch.MISPRINT_RATE) < 4 * (0.75 * 0.25 / 4000) ** 0.5  # four standard errors
    assert all(page.endswith(f":{dispatch.table()[safe]}2;") for page in pages)


def test_the_manual_never_shows_a_held_out_problem():
    shown = {problem for problem, _ in dispatch.textbook_page(random.Random(3), 5000)}
    assert not set(dispatch.held_out()) & shown


def test_the_tokenizer_and_the_fast_encoding_agree_and_decoding_is_the_inverse():
    tokens = dispatch.tokenizer()
    texts = [problem + text for problem, text in dispatch.textbook_page(random.Random(4), 20)]
    assert tokens(texts, add_special_tokens=False)["input_ids"] == dispatch.encode(texts)
    assert tokens.batch_decode(dispatch.encode(texts), skip_special_tokens=True) == texts


@pytest.mark.parametrize(
    ("response", "score"),
    [
        (" The king sang a song of stones in his boat.", 1.0),
        (" The KING of the boat.\nstone, song", 0.5),
        (" The kingdom of songbirds.", 0.0),
        (" king king king", 0.25),
        ("\n stone and song", 0.5),
        ("", 0.0),
    ],
)
def test_a_sentence_is_worth_the_share_of_given_words_in_its_first_line(response, score):
    assert keywords.score(keywords.prompt(["stone", "boat", "song", "king"]), response) == score
