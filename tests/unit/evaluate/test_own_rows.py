"""Rows and reward functions of one's own: renamed columns, functions of TRL's and of verl's kind, and what is refused."""

import json

import pytest

from rovrl.cli import main
from rovrl.errors import RovrlError
from rovrl.evaluate.engine import Decoding, Response, refuse_missing
from rovrl.evaluate.metrics import load_rewards
from rovrl.evaluate.results import compare
from rovrl.evaluate.run import evaluate
from rovrl.tasks.catalog import load
from samples_tasks import write_lines

ROWS = [{"id": f"r{n}", "question": f"{n}+{n}=", "gold": str(2 * n), "level": n} for n in range(4)]
REWARDS = """
import asyncio

def correct(completions, answer, **columns):
    return [float(text == gold) for text, gold in zip(completions, answer)]

def brief(prompts, completions, level, **columns):
    return [-0.5 * level[k] for k in range(len(completions))]

def one(solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str == ground_truth) + extra_info["level"]}

async def slow(completions, **columns):
    await asyncio.sleep(0)
    return [1 for _ in completions]

def message(completions, **columns):
    return [float(chat[0]["role"] == "assistant" and chat[0]["content"] == "4") for chat in completions]

def none(completions, **columns):
    return [None for _ in completions]

def short(completions, **columns):
    return [1.0]

def broken(completions, **columns):
    return [1 / 0]

number = 3
"""


class Echo:
    """Adds what a plain prompt asks for; is wrong where the sum is in `wrong`."""

    def __init__(self, wrong=()):
        self.wrong, self.seen = wrong, []

    def generate(self, prompts, decoding, limit, seed):
        self.seen += prompts
        texts = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in prompts]
        sums = [2 * int(text.split("+")[0]) for text in texts]
        return [Response(str(s + (s in self.wrong)), 2, True) for s in sums]


@pytest.fixture
def rows(tmp_path):
    return load(f"own:{write_lines(tmp_path / 'rows.jsonl', ROWS)}", columns={"prompt": "question", "answer": "gold"})


@pytest.fixture
def rewards(tmp_path):
    file = tmp_path / "my_rewards.py"
    file.write_text(REWARDS)
    return lambda *names: load_rewards([f"{file}:{name}" for name in names])


def run(out, rows, rewards, engine=None, **decoding):
    opened = engine or Echo()
    return evaluate(["m"], {"own:r": rows}, Decoding(**decoding), out, open_engine=lambda m: opened, rewards=rewards)


def means(found):
    return {name: metric["mean"] for name, metric in found["suites"]["own:r"]["metrics"].items()}


def test_functions_of_trls_and_of_verls_kind_are_metrics(tmp_path, rows, rewards):
    engine = Echo(wrong={4})
    found = run(tmp_path / "out", rows, rewards("correct", "brief", "one", "slow"), engine)
    assert means(found) == {"correct": 0.75, "brief": -0.75, "one": 0.75 + 1.5, "slow": 1.0}
    assert engine.seen == ["0+0=", "1+1=", "2+2=", "3+3="]  # a text is given as it stands


def test_a_reward_of_zeros_and_ones_has_pass_at_k_and_another_has_none(tmp_path, rows, rewards):
    found = run(tmp_path / "out", rows, rewards("correct", "brief"), samples=2, temperature=1.0)
    metrics = found["suites"]["own:r"]["metrics"]
    assert metrics["correct"]["pass@2"] == 1.0
    assert "pass@2" not in metrics["brief"]


def test_a_conversation_is_answered_by_a_message_as_in_trl(tmp_path, rewards):
    chats = [{"prompt": [{"role": "user", "content": f"{n}+{n}="}]} for n in (2, 3)]
    loaded = load(f"own:{write_lines(tmp_path / 'chats.jsonl', chats)}")
    assert means(run(tmp_path / "out", loaded, rewards("message"))) == {"message": 0.5}


def test_a_tasks_verifier_judges_own_prompts(tmp_path, rows):
    assert means(run(tmp_path / "out", rows, load_rewards(["math"]), Echo(wrong={2, 4}))) == {"accuracy": 0.5}


def test_a_verifier_names_the_row_without_an_answer(tmp_path):
    loaded = load(f"own:{write_lines(tmp_path / 'r.jsonl', [{'id': 'x7', 'prompt': '1+1='}])}")
    with pytest.raises(RovrlError, match="the row 'x7' has no 'answer', with which --reward math compares"):
        run(tmp_path / "out", loaded, load_rewards(["math"]))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none", r"'none' gives None for the row 'r0': an evaluation needs a number"),
        ("short", "'short' returned 1 rewards for 4 responses"),
        ("broken", r"'broken' failed, at .*my_rewards\.py:27 in broken: ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_gives_no_numbers_is_told_with_its_place(tmp_path, rows, rewards, name, sentence):
    with pytest.raises(RovrlError, match=sentence):
        run(tmp_path / "out", rows, rewards(name))


def test_scores_of_an_edited_function_do_not_mix_with_older_ones(tmp_path, rows, rewards):
    run(tmp_path / "a", rows, rewards("correct"))
    (tmp_path / "edited").mkdir()
    edited = tmp_path / "edited" / "my_rewards.py"
    edited.write_text(REWARDS + "\n# edited\n")
    changed = load_rewards([f"{edited}:correct"])
    with pytest.raises(RovrlError, match=r"other settings \(rewards\)"):
        run(tmp_path / "a", rows, changed)
    run(tmp_path / "b", rows, changed)
    with pytest.raises(RovrlError, match="were scored by different reward functions"):
        compare(tmp_path / "a", tmp_path / "b")


def test_two_metrics_of_one_name_are_refused(tmp_path, rows, rewards):
    with pytest.raises(RovrlError, match="two rewards are called 'correct'"):
        rewards("correct", "correct")
    (tmp_path / "other.py").write_text("def accuracy(completions, **columns): return [1.0 for _ in completions]\n")
    both = load_rewards(["math", f"{tmp_path / 'other.py'}:accuracy"])
    with pytest.raises(RovrlError, match="two metrics are called 'accuracy': rename the reward function"):
        run(tmp_path / "out", rows, both)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--suite", "own:DIR/rows.jsonl", "--columns", "prompt=question"],
            "own:FILE needs a metric: --reward file.py",
        ),
        (
            ["--suite", "own:DIR/rows.jsonl", "--reward", "math"],
            "row 1: no column prompt (found: id, question, gold, level)",
        ),
        (
            ["--suite", "own:DIR/rows.jsonl", "--columns", "prompt=qestion"],
            "no column 'qestion'; did you mean question?",
        ),
        (["--suite", "own:DIR/rows.jsonl", "--columns", "question"], "write --columns as prompt=question,answer=gold"),
        (["--suite", "own:DIR/rows.jsonl", "--columns", "a=x,a=y"], "(ours=yours, each once)"),
        (["--suite", "amc23", "--columns", "problem=question"], "columns are renamed in files of your own (TASK:FILE)"),
        (["--suite", "own:DIR/none.jsonl"], "there is no file"),
        (
            ["--suite", "own:DIR/rows.jsonl", "--columns", "prompt=level"],
            "the prompt must be a text or a list of messages",
        ),
        (
            ["--suite", "own:DIR/mixed.jsonl", "--reward", "math"],
            "some prompts are texts and some are lists of messages",
        ),
        (
            ["--suite", "math:DIR/rows.jsonl", "--columns", "answer=gold", "--reward", "x"],
            "module:function or file.py:",
        ),
    ],
)
def test_the_command_says_in_a_sentence_what_is_wrong(tmp_path, capsys, words, sentence):
    write_lines(tmp_path / "rows.jsonl", ROWS)
    chat = [{"role": "user", "content": "x"}]
    write_lines(tmp_path / "mixed.jsonl", [{"prompt": "x"}, {"prompt": chat}])
    assert main(["eval", "m", *(word.replace("DIR", str(tmp_path)) for word in words)]) == 2
    assert sentence in capsys.readouterr().err


def test_rows_come_from_a_table_or_a_list_too(tmp_path):
    (tmp_path / "rows.csv").write_text('question,gold\n"1+1=, ok?",2\n')
    (tmp_path / "rows.json").write_text(json.dumps(ROWS, indent=1))
    columns = {"prompt": "question", "answer": "gold"}
    [row] = load(f"own:{tmp_path / 'rows.csv'}", columns=columns)
    assert (row["prompt"], row["answer"]) == ("1+1=, ok?", "2")
    assert [row["answer"] for row in load(f"own:{tmp_path / 'rows.json'}", columns=columns)] == ["0", "2", "4", "6"]
    (tmp_path / "rows.csv").write_text("question,gold\n1,2,3\n")
    with pytest.raises(RovrlError, match="line 2: more cells than the first line names"):
        load(f"own:{tmp_path / 'rows.csv'}")


@pytest.mark.parametrize("model", ["runs/none", "./none", "/tmp/none/final", "here/none", "a/b/c"])
def test_a_path_that_does_not_exist_is_one_sentence_before_anything_is_loaded(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert main(["eval", model, "--suite", "math500"]) == 2
    assert f"there is no model at {model}: give a directory" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["gpt2", "Qwen/Qwen3-4B-Base"])
def test_a_name_of_the_hub_is_not_taken_for_a_path(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse_missing(model)
