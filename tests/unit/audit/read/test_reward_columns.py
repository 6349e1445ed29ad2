"""Which columns of TRL's completions are rewards, and what each weighs, is found out over the whole run or asked for."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rovrl.audit import audit
from rovrl.cli import main

SIZE = 8


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def binary(generator, groups):
    return (generator.random((groups, SIZE)) < 0.5).astype(float)


def tokens(generator, groups):
    return generator.integers(100, 2000, (groups, SIZE)).astype(float)


def run(folder, batches):
    """Completions of a run; a batch is its columns [group, response] and the reward that the advantages are made of."""
    for step, (columns, total) in enumerate(batches):
        groups = len(total)
        spread = total.std(1, ddof=1, keepdims=True) + 1e-4
        table = {
            "step": [step] * total.size,
            "prompt": [f"{step}.{k}" for k in range(groups) for _ in range(SIZE)],
            "completion": [f"{step}/{k}" for k in range(total.size)],
            **{name: np.ravel(values) for name, values in columns.items()},
            "advantage": ((total - total.mean(1, keepdims=True)) / spread).ravel(),
        }
        pq.write_table(pa.table(table), folder / f"completions_{step:05d}.parquet")
    return folder


def notes(result):
    return {note.code: note.sentence for note in result.notes}


def test_a_function_that_is_constant_at_first_counts_with_its_weight(tmp_path, generator):
    batches = []
    for step in range(40):
        right, form = binary(generator, 2), binary(generator, 2) * (step > 35)
        batches.append(({"right": right, "form": form}, right + 0.5 * form))
    result = audit(run(tmp_path, batches))
    assert result.reader.weights == {"right": 1.0, "form": 0.5}
    assert notes(result)["reward_weights_inferred"] == "the logged advantages are those of 1 x right + 0.5 x form"


def test_one_group_per_file_shows_the_weights_too(tmp_path, generator):
    batches = []
    for _ in range(12):
        right, form = binary(generator, 1), binary(generator, 1)
        batches.append(({"right": right, "form": form, "n_tokens": tokens(generator, 1)}, right + 0.5 * form))
    assert audit(run(tmp_path, batches)).reader.weights == {"right": 1.0, "form": pytest.approx(0.5, abs=0.01)}


def test_a_function_that_scores_some_tasks_alone_counts(tmp_path, generator):
    batches = []
    for _ in range(6):
        right, bonus = binary(generator, 12), np.full((12, SIZE), np.nan)
        bonus[0] = generator.random(SIZE)
        columns = {"right": right, "bonus": bonus, "n_tokens": tokens(generator, 12)}
        batches.append((columns, right + np.nan_to_num(bonus)))
    result = audit(run(tmp_path, batches))
    assert result.reader.weights == {"right": 1.0, "bonus": 1.0}
    assert result.summary.nonfinite_rewards == 0


def test_the_tenth_column_may_be_the_reward_and_a_text_of_digits_is_none(tmp_path, generator):
    right = binary(generator, 8)
    columns = {f"c{k}": tokens(generator, 8) for k in range(9)} | {"right": right, "answer": ["42"] * 64}
    result = audit(run(tmp_path, [(columns, right)]))
    assert result.reader.weights == {"right": 1.0}
    assert "answer" not in notes(result)["reward_weights_inferred"]


def test_a_small_weight_of_a_column_of_large_numbers_is_found(tmp_path, generator):
    right, length = binary(generator, 16), tokens(generator, 16)
    result = audit(run(tmp_path, [({"right": right, "length": length}, right - 0.0005 * length)]))
    assert result.reader.weights == {"right": 1.0, "length": pytest.approx(-0.0005, rel=0.01)}


def test_of_what_is_constant_or_always_alike_it_is_said_that_it_cannot_be_told(tmp_path, generator):
    right = binary(generator, 8)
    columns = {"right": right, "form": np.ones_like(right), "again": right, "seconds": generator.random(right.shape)}
    told = notes(audit(run(tmp_path, [(columns, right)])))["reward_weights_inferred"]
    assert told == (
        "the logged advantages are those of 1 x right; seconds is not part of it; form is constant in every group that was "
        "looked at; they are the same with again: it cannot be told whether that counts, and it was left out"
    )


def test_a_column_that_would_outweigh_the_others_is_asked_about_and_not_added(tmp_path, generator, capsys):
    columns = {"right": binary(generator, 8), "form": binary(generator, 8), "n_tokens": tokens(generator, 8)}
    run(tmp_path, [(columns, generator.normal(size=(8, SIZE)))])
    assert main(["audit", str(tmp_path), "--no-page"]) == 2
    said = capsys.readouterr().err
    assert "in their sum n_tokens would outweigh right and form" in said
    assert "--reward-weight NAME=W" in said
    assert main(["audit", str(tmp_path), "--no-page", "--reward-weight", "right=1", "--reward-weight", "form=1"]) != 2


def test_the_runs_own_log_names_its_reward_functions(tmp_path, generator):
    columns = {"right": binary(generator, 8), "form": binary(generator, 8), "n_tokens": tokens(generator, 8)}
    run(tmp_path, [(columns, generator.normal(size=(8, SIZE)))])
    state = tmp_path / "checkpoint-1" / "trainer_state.json"
    state.parent.mkdir()
    logged = {"rewards/right/mean": 0.5, "rewards/right/std": 0.5, "rewards/form/mean": 0.5, "reward": 1.0}
    state.write_text(json.dumps({"log_history": [{"step": 1} | logged, 3]}))
    result = audit(tmp_path)
    np.testing.assert_array_equal(result.rollouts.reward, (columns["right"] + columns["form"]).ravel())
    assert "n_tokens is not part of it" in notes(result)["reward_functions_read"]
    assert "do not show their weights" in notes(result)["reward_weights_unknown"]
