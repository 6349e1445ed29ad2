"""Files to train on: the paper's sets or the training set alone, rows of one's own under other column names, and refusals."""

import json

import pyarrow.parquet as parquet
import pytest

from rovrl.tasks.catalog import load
from rovrl.tasks.prepare import main
from samples_tasks import PROBLEMS, write_lines

OWN = [{"question": f"{n}+{n}=?", "gold": str(2 * n), "level": n} for n in range(3)]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_training_set_alone_asks_for_no_test_set(tmp_path):
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    write_lines(raw / "math_train.jsonl", PROBLEMS)
    assert main(["math", "--data", str(raw), "--out", str(out), "--train-only"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["math_train.parquet", "math_train.trl.jsonl"]
    assert main(["math", "--data", str(raw), "--out", str(out)]) == 2  # all sets: math500 is not there


def test_problems_under_other_names_become_the_tasks(tmp_path):
    file = write_lines(tmp_path / "mine.jsonl", OWN)
    words = ["math", "--rows", str(file), "--columns", "problem=question,answer=gold", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    [first, *_] = lines(tmp_path / "out" / "mine.trl.jsonl")
    assert (first["answer"], "0+0=?" in first["prompt"][0]["content"]) == ("0", True)
    table = parquet.read_table(tmp_path / "out" / "mine.parquet").to_pylist()
    assert [row["reward_model"]["ground_truth"] for row in table] == ["0", "2", "4"]
    assert {row["data_source"] for row in table} == {"mine"}


def test_prompts_of_ones_own_keep_every_column_for_the_reward(tmp_path):
    file = write_lines(tmp_path / "mine.jsonl", OWN)
    words = ["own", "--rows", str(file), "--columns", "prompt=question,answer=gold", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert lines(tmp_path / "out" / "mine.trl.jsonl")[1] == {
        "id": "own-1",
        "prompt": "1+1=?",
        "level": 1,
        "answer": "2",
    }
    row = parquet.read_table(tmp_path / "out" / "mine.parquet").to_pylist()[1]
    assert row["prompt"] == [{"role": "user", "content": "1+1=?"}]
    assert row["reward_model"]["ground_truth"] == "2"
    assert row["extra_info"]["level"] == 1
    again = load(f"own:{tmp_path / 'out' / 'mine.parquet'}")  # what was written can be evaluated on
    assert (again[1]["prompt"], again[1]["answer"], again[1]["level"]) == (row["prompt"], "2", 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["own"], "name the file that holds your rows: --rows FILE"),
        (["math", "--columns", "problem=question"], "name the file that holds your rows: --rows FILE"),
        (["own", "--rows", "DIR/mine.jsonl"], "row 1: no column prompt (found: question, gold, level)"),
        (["own", "--rows", "DIR/none.jsonl"], "there is no file"),
        (["own", "--rows", "DIR/mine.jsonl", "--data", "DIR"], "give one of them"),
        (["own", "--rows", "DIR/out/p.parquet"], "would be overwritten: choose another --out"),
        (["own", "--rows", "DIR/mixed.jsonl"], "a column of mixed has values of several types"),
        (["math", "--rows", "DIR/mine.jsonl", "--columns", "problem=qestion"], "did you mean question?"),
        (["own", "--rows", "DIR/good.jsonl", "--out", "DIR/mine.jsonl/x"], "choose another --out"),
        (["own", "--rows", "DIR/good.jsonl", "--tokenizer", "DIR/no-model"], "could not be loaded"),
    ],
)
def test_the_command_says_in_a_sentence_what_is_wrong(tmp_path, capsys, words, sentence):
    write_lines(tmp_path / "mine.jsonl", OWN)
    write_lines(tmp_path / "good.jsonl", [{"prompt": "x"}])
    write_lines(tmp_path / "mixed.jsonl", [{"prompt": "x", "answer": 1}, {"prompt": "y", "answer": "two"}])
    given = [word.replace("DIR", str(tmp_path)) for word in words]
    (tmp_path / "out").mkdir()
    assert main(["own", "--rows", str(tmp_path / "good.jsonl"), "--out", str(tmp_path / "out")]) == 0
    (tmp_path / "out" / "good.parquet").rename(tmp_path / "out" / "p.parquet")
    assert main([*given, *([] if "--out" in given else ["--out", str(tmp_path / "out")])]) == 2
    assert sentence in capsys.readouterr().err


def test_prompts_that_are_all_too_long_are_an_error_and_not_an_empty_file(tmp_path, capsys):
    import tiny

    file = write_lines(tmp_path / "mine.jsonl", [{"prompt": "1+1="}])
    words = ["own", "--rows", str(file), "--out", str(tmp_path / "out"), "--tokenizer", tiny.saved(tmp_path / "model")]
    assert main([*words, "--max-prompt-tokens", "2"]) == 2
    assert "no prompt has at most 2 tokens, the shortest has 4" in capsys.readouterr().err
