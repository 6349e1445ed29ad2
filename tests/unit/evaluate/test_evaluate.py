"""Evaluation without a model: statistics, settings, the store, comparison, the gold check, and the command's sentences."""

import json

import numpy as np
import pytest

from rovrl.cli import main
from rovrl.errors import RovrlError
from rovrl.evaluate.engine import Decoding, Response
from rovrl.evaluate.metrics import checks, run_check
from rovrl.evaluate.results import compare, interval, paired, pass_at, read_records, records_file, summarize
from rovrl.evaluate.run import evaluate, fingerprint
from rovrl.tasks.catalog import SETS, load
from samples_tasks import PROBLEMS, REPORTS, TURNS, write_lines


class Adder:
    """An engine that adds, and is wrong for the problems whose first number is in `fails`; it dies after `lives` calls."""

    def __init__(self, fails=(), lives=10**9):
        self.fails, self.lives, self.asked = fails, lives, []

    def generate(self, prompts, decoding, limit, seed):
        if self.lives == 0:
            raise KeyboardInterrupt
        self.lives -= 1
        self.asked.append((len(prompts), seed))
        numbers = [int(prompt[-1]["content"].split("+")[0]) for prompt in prompts]
        answers = [n + n + (n in self.fails) for n in numbers]
        return [Response(f"It is \\boxed{{{answer}}}.", 5, answer != 4) for answer in answers]


@pytest.fixture
def problems(tmp_path):
    return {"amc23": load("amc23", write_lines(tmp_path / "amc23.jsonl", PROBLEMS))}


def run(out, problems, engine, decoding=None, models=("m",)):
    return evaluate(models, problems, decoding or Decoding(chunk=2), out, open_engine=lambda model: engine)


def test_results_count_right_answers_and_cut_off_responses(tmp_path, problems):
    found = run(tmp_path / "out", problems, Adder(fails={1, 3}))["suites"]["amc23"]
    assert found["problems"] == 6
    assert found["metrics"]["accuracy"]["mean"] == pytest.approx(4 / 6)
    assert found["metrics"]["accuracy"]["pass@1"] == found["metrics"]["accuracy"]["mean@1"]
    assert found["cut_off"] == pytest.approx(1 / 6)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["suites"]["amc23"] == found


def test_an_interrupted_evaluation_goes_on_where_it_stopped_and_ends_the_same(tmp_path, problems):
    whole = run(tmp_path / "whole", problems, Adder(fails={2}))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", problems, Adder(fails={2}, lives=2))
    file = records_file(tmp_path / "cut", "amc23")
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    file.write_text("".join(lines[:3]) + lines[3][:40])  # a kill in the middle of a line, which spoils its unit
    rest = Adder(fails={2})
    again = run(tmp_path / "cut", problems, rest)
    assert len(rest.asked) == 2  # the spoilt unit and the missing one
    assert again["suites"] == whole["suites"]
    done = Adder()
    assert run(tmp_path / "cut", problems, done)["suites"] == whole["suites"]
    assert done.asked == []


def test_every_model_is_decoded_with_the_same_seeds(tmp_path, problems):
    first, second = Adder(), Adder(fails={5})
    decoding = Decoding(samples=2, runs=2, temperature=0.7, chunk=4)
    run(tmp_path / "a", problems, first, decoding)
    run(tmp_path / "b", problems, second, decoding, models=("other",))
    assert first.asked == second.asked
    assert len({seed for _, seed in first.asked}) == 4  # two chunks in two runs, each its own


def test_several_models_are_runs_of_one_method(tmp_path, problems):
    engines = {"seed1": Adder(fails={1}), "seed2": Adder(fails={1, 2}), "seed3": Adder(fails=())}
    found = evaluate(list(engines), problems, Decoding(), tmp_path / "out", open_engine=engines.__getitem__)
    accuracy = found["suites"]["amc23"]["metrics"]["accuracy"]
    assert accuracy["runs"] == pytest.approx([5 / 6, 4 / 6, 1.0])
    assert accuracy["sd"] == pytest.approx(1 / 6)
    with pytest.raises(ValueError, match="3 models are 3 runs already"):
        evaluate(
            list(engines), problems, Decoding(runs=2, temperature=1.0), tmp_path / "x", open_engine=engines.__getitem__
        )


def test_other_settings_or_other_data_do_not_mix_with_what_is_there(tmp_path, problems):
    run(tmp_path / "out", problems, Adder())
    with pytest.raises(RovrlError, match=r"other settings \(decoding\)"):
        run(tmp_path / "out", problems, Adder(), Decoding(chunk=2, max_new_tokens=7))
    with pytest.raises(RovrlError, match=r"other settings \(models\)"):
        run(tmp_path / "out", problems, Adder(), models=("another",))
    with pytest.raises(RovrlError, match=r"data of amc23"):
        run(tmp_path / "out", {"amc23": problems["amc23"][:4]}, Adder())


def test_a_model_that_does_not_load_leaves_nothing_that_refuses_the_right_one(tmp_path, problems):
    def no_such_model(name):
        raise RovrlError(f"no model {name}")

    with pytest.raises(RovrlError, match="no model mm"):
        evaluate(["mm"], problems, Decoding(chunk=2), tmp_path / "out", open_engine=no_such_model)
    assert run(tmp_path / "out", problems, Adder())["suites"]["amc23"]["problems"] == 6


@pytest.mark.parametrize("line", ["{}", "[]", "7", '{"run": 0}', "\x00\x00", '{"run": "a"}', "[" * 100_000])
def test_a_damaged_line_is_named(tmp_path, problems, line):
    run(tmp_path / "out", problems, Adder())
    file = records_file(tmp_path / "out", "amc23")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    with pytest.raises(RovrlError, match=r"amc23.jsonl, line 2 is damaged: delete that line"):
        run(tmp_path / "out", problems, Adder())


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"decoding": 3}', "\udcff"])
def test_damaged_settings_are_a_sentence(tmp_path, problems, content):
    run(tmp_path / "out", problems, Adder())
    (tmp_path / "out" / "settings.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(RovrlError, match="is damaged: evaluate again into a new directory"):
        run(tmp_path / "out", problems, Adder())
    with pytest.raises(RovrlError, match="is damaged: evaluate again into a new directory"):
        compare(tmp_path / "out", tmp_path / "out")


def test_a_comparison_pairs_problems_and_signs_the_difference(tmp_path, problems):
    run(tmp_path / "a", problems, Adder(fails={1, 2, 3}))
    run(tmp_path / "b", problems, Adder(fails={3, 4}), models=("other",))
    found = compare(tmp_path / "a", tmp_path / "b")["suites"]["amc23"]["accuracy"]
    assert found["difference"] == pytest.approx(1 / 6)
    assert (found["better"], found["worse"], found["equal"]) == (2, 1, 3)
    assert found["interval"][0] <= found["difference"] <= found["interval"][1]


def test_a_comparison_refuses_what_is_not_comparable(tmp_path, problems):
    run(tmp_path / "a", problems, Adder())
    run(tmp_path / "b", problems, Adder(), Decoding(chunk=2, seed=1))
    with pytest.raises(RovrlError, match=r"decoded differently \(seed 0 and 1\)"):
        compare(tmp_path / "a", tmp_path / "b")
    run(tmp_path / "c", {"amc23": problems["amc23"][:3]}, Adder())
    with pytest.raises(RovrlError, match="hold different problems"):
        compare(tmp_path / "a", tmp_path / "c")
    with pytest.raises(RovrlError, match="is not an evaluation"):
        compare(tmp_path / "a", tmp_path / "nothing")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "half", problems, Adder(lives=1))
    with pytest.raises(RovrlError, match="not finished"):
        compare(tmp_path / "a", tmp_path / "half")


def test_the_interval_over_problems_has_the_width_of_the_normal_one():
    values = np.random.default_rng(1).normal(2.0, 3.0, size=400)
    low, high = interval(values)
    half = 1.96 * values.std() / 20
    # 10,000 replicates: a quantile's own error is about 2 % of the standard error
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_summary_has_both_standard_deviations_of_the_papers_tables():
    # AIME2025: 4, 4 and 5 right answers of 30 are "14.44 ± 1.57" in tab:math_main; tab:placement_ablation writes ± 1.92
    values = np.zeros((3, 30, 1))
    values[0, :4], values[1, :4], values[2, :5] = 1, 1, 1
    found = summarize(values, binary=True)
    assert 100 * found["mean"] == pytest.approx(14.44, abs=0.005)
    assert 100 * found["sd_population"] == pytest.approx(1.57, abs=0.005)
    assert 100 * found["sd"] == pytest.approx(1.92, abs=0.005)


def test_pass_at_k_is_the_chance_of_one_right_answer_among_k():
    values = np.array([[[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]], dtype=float)
    assert pass_at(values, 1)[0] == pytest.approx([1 / 4, 1 / 2, 0, 1])
    assert pass_at(values, 2)[0] == pytest.approx([1 / 2, 5 / 6, 0, 1])
    assert pass_at(values, 4)[0] == pytest.approx([1, 1, 0, 1])
    with pytest.raises(ValueError, match="k must be between 1"):
        pass_at(values, 5)


def test_paired_needs_the_same_problems():
    with pytest.raises(ValueError, match="same shape"):
        paired(np.zeros(3), np.zeros(4))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"samples": 0}, "samples must be at least 1, not 0"),
        ({"temperature": -1.0}, "temperature must be 0"),
        ({"temperature": float("nan")}, "temperature must be 0"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"samples": 4}, "greedy decoding gives the same response"),
    ],
)
def test_settings_outside_their_range_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Decoding(**changes)


def test_suites_of_all_tasks_load_from_local_files(tmp_path):
    write_lines(
        tmp_path / "math500.jsonl", [{"question": "1+1", "solution": r"so \boxed{2}"}, {"problem": "x", "answer": " "}]
    )
    write_lines(tmp_path / "rlla_test.jsonl", TURNS)
    write_lines(tmp_path / "govreport.jsonl", REPORTS)
    math = load("math500", tmp_path)
    assert [example["answer"] for example in math] == [
        "2"
    ]  # from the solution's box; the row without an answer is left out
    assert "1+1" in math[0]["prompt"][0]["content"]
    assert load("rlla_test", tmp_path)[1]["prompt"][1]["content"] == "find tea 1"
    assert load("govreport", tmp_path, limit=2)[0]["report"] == REPORTS[0]["report"]
    assert len(load(f"math:{tmp_path / 'math500.jsonl'}")) == 1


def test_a_data_mark_changes_with_any_gold_answer(problems):
    changed = [dict(example) for example in problems["amc23"]]
    changed[3]["answer"] = "7"
    assert fingerprint(changed) != fingerprint(problems["amc23"])


def test_rows_with_one_name_are_told_apart(tmp_path):
    rows = [{"id": "same", "problem": "a", "answer": "1"}, {"id": "same", "problem": "b", "answer": "2"}]
    assert len({example["id"] for example in load("amc23", write_lines(tmp_path / "amc23.jsonl", rows))}) == 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"problem": "x"', "line 1: not JSON"),
        ("[1]", "a JSON object was expected, not list"),
        ('{"text": "x"}', r"row 1: no column problem or question \(found: text\)"),
        ('{"problem": "x", "answer": ""}', "no usable row"),
        ("", "no usable row"),
    ],
)
def test_unusable_data_is_said_in_a_sentence(tmp_path, content, sentence):
    (tmp_path / "amc23.jsonl").write_text(content)
    with pytest.raises(RovrlError, match=sentence):
        load("amc23", tmp_path)


def test_missing_data_is_said_in_a_sentence(tmp_path):
    with pytest.raises(RovrlError, match=r"no data for 'amc23'.*expected amc23\.jsonl"):
        load("amc23", tmp_path)
    with pytest.raises(RovrlError, match="there is no set 'math600': choose from math_train, math500"):
        load("math600")
    with pytest.raises(RovrlError, match=r"rlla_test is not on the Hub: get dataset/rlla_4k"):
        load("rlla_test")
    (tmp_path / "rlla_test.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(RovrlError, match="not a readable Parquet file"):
        load("rlla_test", tmp_path)


def test_no_network_is_said_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    with pytest.raises(RovrlError, match=r"math-ai/amc23 could not be fetched from the Hub .*--data DIR"):
        load("amc23")


def test_the_papers_sets_are_all_there():
    assert {name: entry.rows for name, entry in SETS.items() if entry.task == "math"} == {
        "math_train": 7500, "math500": 500, "aime2025": 30, "amc23": 40, "gaokao2023en": 385, "minervamath": 272,
    }  # fmt: skip


def test_the_gold_check_counts_acceptance_and_lists_exceptions(tmp_path):
    rows = [
        {"id": "a", "answer": r"\frac{1}{2}", "solution": r"thus \boxed{0.5}"},
        {"id": "b", "answer": "x=7", "solution": r"no: \boxed{8}"},
        {"id": "c", "answer": "7"},
        {"id": "d", "answer": ""},
    ]
    found = {check.name: run_check(check) for check in checks(rows)}
    accepted = found["gold answer, boxed, accepted"]
    assert (accepted["right"], accepted["asked"]) == (3, 4)
    assert accepted["exceptions"] == [("d", "", "the file has no answer")]
    assert found["the same by math-verify alone"]["right"] == 3
    assert [name for name, _, _ in found["worked solution accepted"]["exceptions"]] == ["b"]
    refused = found["another problem's answer refused"]
    assert [(name, reason) for name, _, reason in refused["exceptions"]] == [("b", "accepts 7")]  # rightly: x=7 is 7


def test_the_command_compares_and_checks_gold(tmp_path, problems, capsys):
    run(tmp_path / "a", problems, Adder(fails={1}))
    run(tmp_path / "b", problems, Adder(), models=("other",))
    assert main(["eval", "--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "+0.1667" in capsys.readouterr().out
    assert main(["eval", "--compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["suites"]["amc23"]["accuracy"]["better"] == 1
    assert main(["eval", "--check-gold", str(write_lines(tmp_path / "turns.jsonl", TURNS))]) == 0
    assert "100.00 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a MODEL and --suite NAME"),
        (["m", "--suite", "nothing"], "there is no set 'nothing'"),
        (["m", "--suite", "amc23", "--data", "DATA", "--samples", "4", "--temperature", "0"], "greedy decoding"),
        (["DATA/nowhere", "--suite", "amc23", "--data", "DATA", "--out", "DATA/out"], "there is no model at"),
        (["--check-gold", "DATA/none.jsonl"], "there is no file"),
        (["m", "--suite", "amc23", "--data", "DATA", "--engine", "vllm", "--out", "DATA/out"], "needs vLLM"),
        (["m", "--suite", "amc23", "--data", "DATA", "--limit", "0"], "limit must be at least 1"),
        (["m", "--suite", "amc23", "--data", "DATA", "--out", "DATA/amc23.jsonl/x"], "cannot write results"),
    ],
)
def test_the_command_says_in_a_sentence_what_is_wrong(tmp_path, problems, capsys, words, sentence):
    assert main(["eval", *(word.replace("DATA", str(tmp_path)) for word in words)]) == 2
    assert sentence in capsys.readouterr().err


def test_records_keep_every_response(tmp_path, problems):
    run(tmp_path / "out", problems, Adder())
    records = read_records(records_file(tmp_path / "out", "amc23"))
    assert [record["problem"] for record in records] == [row["id"] for row in PROBLEMS]
    assert records[3]["completion"] == "It is \\boxed{6}."
