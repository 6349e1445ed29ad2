"""A dry run finds what is planted in a reward function, and nothing in an honest one."""

import json
import sys

import pytest

import audit_dumps
from rovrl.cli import main

FUNCTIONS = """
import random
calls = []
def honest(prompts, completions, **_): return [len(c) / 10 for c in completions]
def short(completions, **_): return [1.0] * (len(completions) - 1)
def nan(completions, **_): return [float("nan") if k == 3 else len(c) for k, c in enumerate(completions)]
def nothing(completions, **_): return [None] * len(completions)
def constant(completions, **_): return [0.5] * len(completions)
def dice(completions, **_): return [random.random() for _ in completions]
def batch(completions, **_): return [len(c) - len(completions[0]) for c in completions]
def fragile(completions, **_): return [1 / len(c.strip()) for c in completions]
def needs(completions, answer, **_): return [1.0] * len(completions)
def words(completions, **_): return ["good"] * len(completions)
def spikes(completions, **_): return [500.0 if c.startswith("answer 3 of 2") else len(c) for c in completions]
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(len(solution_str)) + float(ground_truth)}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lint")
    (folder / "rewards_of_mine.py").write_text(FUNCTIONS)
    rows = [
        {"input": f"prompt {g}", "output": f"answer {k} of {g} " + "x" * ((3 * k + g) % 7), "uid": f"p{g}_0_{k}"}
        for g in range(20)
        for k in range(8)
    ]
    rows = [row | {"gts": "1", "score": 0} for row in rows]
    (folder / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def findings(place, capsys, *names):
    """The exit status, and the codes of each function."""
    functions = [f"{place / 'rewards_of_mine.py'}:{name}" for name in names]
    status = main(["lint", *functions, "--completions", str(place / "dump.jsonl"), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_an_honest_function_has_no_findings_and_its_numbers_are_told(place, capsys):
    status, told = findings(place, capsys, "honest")
    (found,) = told["functions"]
    assert (status, found["findings"], found["responses"], found["groups"]) == (0, {}, 160, 20)
    assert found["low"] >= 1.0
    assert 0 <= found["seconds"] < 1  # a coarse clock may not have moved
    assert "any of the estimators" in found["fits"]


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("short", {"wrong_count"}),
        ("nan", {"nonfinite", "depends_on_batch"}),
        ("nothing", {"all_none"}),
        ("constant", {"constant"}),
        ("dice", {"not_deterministic"}),
        ("batch", {"depends_on_batch"}),
        ("fragile", {"fails_on_odd_texts"}),
        ("needs", {"raises"}),
        ("words", {"not_numbers"}),
        ("spikes", {"tails"}),
    ],
)
def test_each_planted_fault_is_named_and_nothing_else(place, capsys, name, codes):
    status, told = findings(place, capsys, name)
    assert (status, set(told["functions"][0]["findings"])) == (1, codes)


def test_a_function_of_verls_kind_is_called_response_by_response(place, capsys):
    status, told = findings(place, capsys, "compute_score")
    assert (status, told["functions"][0]["low"]) == (0, 15.0)


def test_several_functions_are_told_their_share_of_the_variance(place, capsys):
    _, told = findings(place, capsys, "honest", "constant")
    assert [pytest.approx(share) for share in told["share_of_variance"].values()] == [1.0, 0.0]


def test_the_text_names_what_fits_and_a_module_is_found_in_the_current_directory(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert main(["lint", "rewards_of_mine:spikes", "--completions", "dump.jsonl"]) == 1
    printed = capsys.readouterr().out
    assert "[tails] in 1 of 20 groups" in printed
    assert "fits: the usual spread" in printed


def test_columns_of_the_training_data_are_joined_to_the_completions_by_prompt(place, capsys):
    data = [{"prompt": f"prompt {g}", "answer": str(g)} for g in range(19)]  # of 20; "prompt 1" is not in "prompt 19"
    (place / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    function = "def same(prompts, answer, **_): return [float(p.endswith(' ' + a)) for p, a in zip(prompts, answer)]"
    (place / "reads.py").write_text(function)
    command = ["lint", f"{place / 'reads.py'}:same", "--completions", str(place / "dump.jsonl"), "--json"]
    assert main(command) == 1
    assert "join it: --data FILE" in json.loads(capsys.readouterr().out)["functions"][0]["findings"]["raises"]
    main([*command, "--data", str(place / "data.jsonl")])
    told = capsys.readouterr()
    assert "8 of 160 responses have no prompt of" in told.err
    (found,) = json.loads(told.out)["functions"]
    assert (found["responses"], found["low"], found["high"]) == (152, 1.0, 1.0)


def test_data_of_another_run_is_a_sentence(place, capsys):
    (place / "other.jsonl").write_text('{"prompt": "elsewhere", "answer": "1"}\n')
    command = ["lint", f"{place / 'rewards_of_mine.py'}:honest", "--completions", str(place / "dump.jsonl")]
    assert main([*command, "--data", str(place / "other.jsonl")]) == 2
    assert "is it the data of that run?" in capsys.readouterr().err


def test_records_are_read_once_per_response_although_they_hold_every_update(tmp_path, place, capsys):
    run = audit_dumps.records(tmp_path / "records", audit_dumps.rewards(8, 16))
    assert main(["lint", f"{place / 'rewards_of_mine.py'}:honest", "--completions", str(run), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["functions"][0]["responses"] == 128


def test_a_line_that_is_no_json_is_named_and_the_others_are_linted(tmp_path, place, capsys):
    lines = (place / "dump.jsonl").read_text().splitlines()
    (tmp_path / "damaged.jsonl").write_text("\n".join([*lines[:4], lines[4][:20], *lines[5:]]))
    words = ["--completions", str(tmp_path / "damaged.jsonl"), "--json"]
    assert main(["lint", f"{place / 'rewards_of_mine.py'}:honest", *words]) in (0, 1)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["functions"][0]["responses"] == 159
    assert "damaged.jsonl: line 5 is not a JSON object and was left out" in shown.err


@pytest.mark.parametrize(
    ("function", "completions", "sentence"),
    [
        ("no_such_module:f", "dump.jsonl", "'no_such_module' cannot be imported"),
        ("rewards_of_mine.py:absent", "dump.jsonl", "has no absent"),
        ("honest", "dump.jsonl", "module:function"),
        ("rewards_of_mine.py:calls", "dump.jsonl", "is not a function but of type list"),
        ("rewards_of_mine.py:honest", "none.jsonl", "does not exist"),
        ("rewards_of_mine.py:honest", "rewards_of_mine.py", "is not read"),
    ],
)
def test_what_cannot_be_linted_is_a_sentence(place, capsys, monkeypatch, function, completions, sentence):
    monkeypatch.chdir(place)
    assert main(["lint", function, "--completions", completions]) == 2
    assert sentence in capsys.readouterr().err
