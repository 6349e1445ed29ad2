"""A reward function is called as a trainer calls it, and whatever it does ends in a sentence."""

import json

import pytest

import audit_dumps
from rovrl.cli import main

FUNCTIONS = """
import asyncio
def honest(completions, **_): return [float(len(c)) for c in completions]
async def patient(completions, **_):
    await asyncio.sleep(0)
    return [float(len(c)) for c in completions]
async def compute_score(solution_str, ground_truth):
    await asyncio.sleep(0)
    return {"score": float(len(solution_str))}
def informed(completions, trainer_state, log_extra, log_metric, **_):
    log_extra("length", [len(c) for c in completions])
    log_metric("step", trainer_state.global_step)
    return [float(len(c)) for c in completions]
class Reward:
    def __call__(self, completions, **_): return [float(len(c)) for c in completions]
def loud(completions, **_):
    print("noise")
    return [float(len(c)) for c in completions]
def leaves(completions, **_): raise SystemExit(7)
def huge(completions, **_): return [1e308 * (-1) ** len(c) for c in completions]
def nothing(completions, **_): return None
def closed(completions): return [1.0] * len(completions)
def needs(completions, answer, **_): return [1.0] * len(completions)
def chat(completions, **_): return [float(len(c[0]["content"])) for c in completions]
def escape(completions, **_): raise ValueError("\x1b]0;owned\x07")
class Demanding:
    def __init__(self, model): self.model = model
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lint")
    (folder / "mine.py").write_text(FUNCTIONS)
    audit_dumps.verl(folder / "dump", audit_dumps.rewards(16, 8), texts=[f"answer {'x' * (k % 7)}" for k in range(16)])
    return folder


def linted(place, capsys, name, *words, dump="dump"):
    """The exit status, and what is said about one function."""
    status = main(["lint", f"{place / 'mine.py'}:{name}", "--completions", str(place / dump), "--json", *words])
    return status, json.loads(capsys.readouterr().out)["functions"][0]


@pytest.mark.parametrize("name", ["honest", "patient", "compute_score", "informed", "Reward", "loud"])
@pytest.mark.filterwarnings("error")
def test_functions_of_every_kind_that_trainers_take_are_called(place, capsys, name):
    status, found = linted(place, capsys, name)
    assert (status, found["findings"], found["low"], found["high"]) == (0, {}, 7.0, 13.0)


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("leaves", "raises", "it raised SystemExit: 7"),
        ("nothing", "wrong_count", "it returned one NoneType, not a list"),
        ("closed", "raises", "let it take **kwargs"),
        ("needs", "raises", "the dump has the columns gts, score, step, uid"),
        ("chat", "raises", "it takes lists of messages: try --chat"),
    ],
)
def test_what_went_wrong_is_said_with_what_would_help(place, capsys, name, code, sentence):
    status, found = linted(place, capsys, name)
    assert status == 1
    assert sentence in found["findings"][code]


def test_a_chat_function_passes_with_chat_and_one_of_texts_is_told_to_leave_it_out(place, capsys):
    assert linted(place, capsys, "chat", "--chat")[0] == 0
    (place / "mine.py").write_text(
        FUNCTIONS + "def text(completions, **_): return [len(c.strip()) for c in completions]"
    )
    assert "leave out --chat" in linted(place, capsys, "text", "--chat")[1]["findings"]["raises"]


@pytest.mark.filterwarnings("error")
def test_values_at_the_end_of_the_range_of_numbers_are_strict_json(place, capsys):
    _, found = linted(place, capsys, "huge")
    assert 1e307 < found["spread"] < 1.1e308


def test_an_error_cannot_write_to_the_terminal(place, capsys):
    assert main(["lint", f"{place / 'mine.py'}:escape", "--completions", str(place / "dump")]) == 1
    printed = capsys.readouterr().out
    assert "owned" in printed
    assert not set("\x1b\x07") & set(printed)


def test_a_class_that_needs_arguments_is_a_sentence(place, capsys):
    assert main(["lint", f"{place / 'mine.py'}:Demanding", "--completions", str(place / "dump")]) == 2
    assert "missing 1 required positional argument: 'model'" in capsys.readouterr().err


def test_every_kind_of_dump_gives_its_responses_in_its_groups_and_nothing_else(place, capsys, tmp_path):
    scores = audit_dumps.rewards(16, 8)
    for step in range(2):
        part = scores[8 * step : 8 * step + 8]
        audit_dumps.prime(place / "prime", step, part, first=8 * step)
        (place / "nemo").mkdir(exist_ok=True)
        audit_dumps.nemo(place / "nemo", step, part)
    (place / "swift").mkdir()
    lines = [audit_dumps.swift_line(step, scores[8 * step : 8 * step + 8]) for step in (0, 1, 1)]
    (place / "swift" / "completions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    audit_dumps.records(place / "trained" / "gspo" / "records", scores)
    evaluated = {"prompt": "p", "completion": "an answer of an evaluation"}
    (place / "trained" / "gspo" / "evaluations.jsonl").write_text(json.dumps(evaluated))
    for dump in ("dump", "prime", "nemo", "swift", "trained"):
        found = linted(place, capsys, "honest", dump=dump)[1]
        assert (found["responses"], found["groups"]) == (128, 16), dump


def test_plain_text_is_refused_with_the_columns_that_were_looked_for(place, capsys):
    (place / "plain.jsonl").write_text("an answer\nanother\n")
    assert main(["lint", f"{place / 'mine.py'}:honest", "--completions", str(place / "plain.jsonl")]) == 2
    said = capsys.readouterr().err
    assert "2 lines are not JSON objects" in said
    assert said.count("completion,") == 1


def test_a_slow_function_is_called_again_on_fewer_responses(place, capsys, monkeypatch):
    monkeypatch.setattr("rovrl.check.lint.PATIENCE", 0.0)
    (place / "mine.py").write_text(
        FUNCTIONS + "import random\ndef dice(completions, **_): return [random.random() for _ in completions]"
    )
    said = linted(place, capsys, "dice")[1]["findings"]["not_deterministic"]
    assert said == "2 of 2 values differ when it is called again"
