"""ms-swift's lines as a real run writes them: parts of a batch, entropies that change, evaluation among the training."""

import json

import numpy as np
import pytest

import audit_dumps
from rovrl.audit import audit

SCORES = np.random.default_rng(0).normal(size=(4, 2, 8))


def line(step, generation, rows=16, first_entropy=0.0):
    """What is logged at `step`: the first `rows` of a generation, with entropies of whatever was trained on last."""
    made = audit_dumps.swift_line(generation, SCORES[generation]) | {"step": [str(step)] * 16}
    made["entropy"] = [first_entropy + k for k in range(16)]
    return {name: cells[:rows] for name, cells in made.items()}


def entry(step, evaluation=False):
    return {"eval_reward" if evaluation else "reward": 1.0, "global_step/max_steps": f"{step}/9"}


def write(folder, lines, entries=None, settings=None):
    folder.mkdir(exist_ok=True)
    (folder / "completions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    if entries is not None:
        last = {"last_model_checkpoint": None}
        (folder / "logging.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (*entries, last)))
    if settings is not None:
        (folder / "args.json").write_text(json.dumps(settings))
    return folder


def codes(result):
    return {note.code: note.sentence for note in result.notes}


def test_a_batch_that_is_logged_again_with_other_entropies_counts_once(tmp_path):
    run = write(tmp_path, [line(1, 0), line(2, 0, first_entropy=5.0), line(3, 1), line(4, 1, first_entropy=9.0)])
    result = audit(run)
    assert (result.summary.responses, result.summary.group_sizes) == (32, {8: 4})
    assert "32 responses were logged again" in codes(result)["logged_twice"]


def test_a_line_that_ends_within_a_group_goes_on_in_the_next_line_of_its_generation(tmp_path):
    run = write(tmp_path, [line(1, 0, rows=4), line(2, 0, rows=12), line(3, 0), line(4, 1)])
    result = audit(run)
    assert (result.summary.responses, result.summary.group_sizes) == (32, {8: 4})
    assert np.unique(result.rollouts.step).tolist() == [1, 4]
    np.testing.assert_allclose(np.diff(result.rewards(0)), np.diff(SCORES[0, 0]), atol=1e-12)


def test_weights_that_a_later_batch_shows_count_for_the_first_one_too(tmp_path):
    tied = line(1, 0) | {"MathAccuracy": [0.25] * 16, "advantages": [0.0] * 16}
    result = audit(write(tmp_path, [tied, line(2, 1), line(3, 2)]))
    assert codes(result)["reward_weights_inferred"] == (
        "the logged advantages are those of 1 x MathAccuracy; Format is constant in every group that was looked at: it cannot "
        "be told whether that counts, and it was left out"
    )
    assert "reward_weights_unknown" not in codes(result)
    assert result.rewards(0).tolist() == [0.25] * 8


def test_evaluation_is_left_out_as_the_log_beside_the_completions_says(tmp_path):
    lines = [line(1, 0), line(2, 0), line(2, 3), line(3, 3), line(4, 1), line(4, 1)]  # 3: still what was evaluated
    entries = [entry(1), entry(2), entry(2, evaluation=True), entry(3), entry(4), entry(4)]
    run = write(tmp_path, lines, entries)
    result = audit(run)
    assert result.summary.responses == 32
    np.testing.assert_allclose(np.diff(result.rewards(3)), np.diff(SCORES[1, 1]), atol=1e-12)
    assert "16 responses are evaluation, as logging.jsonl says" in codes(result)["evaluation_rows"]
    assert "evaluation_unclear" not in codes(result)
    assert audit(run, keep_evaluation=True).summary.responses == 48


@pytest.mark.parametrize("entries", [None, [], [entry(7)]], ids=["no log", "an empty log", "the log of another run"])
def test_without_a_log_that_fits_it_is_said_that_evaluation_would_count(tmp_path, entries):
    result = audit(write(tmp_path, [line(1, 0), line(2, 1)], entries))
    assert result.summary.responses == 32
    assert "counted as training" in codes(result)["evaluation_unclear"]


def test_weights_and_the_size_of_the_groups_are_those_of_the_settings(tmp_path):
    lines = [line(1, 0) | {"Tiny": [1e-9 * k for k in range(16)]}]  # no advantage shows its weight
    result = audit(write(tmp_path, lines, settings={"reward_weights": [0.5, 1, 2.0], "num_generations": 4}))
    assert "0.5 x MathAccuracy + 1 x Format + 2 x Tiny" in codes(result)["reward_weights_read"]
    assert (result.summary.group_sizes, "group_size_inferred" in codes(result)) == ({4: 4}, False)
    assert audit(tmp_path, group_size=8).summary.group_sizes == {8: 2}
    given = audit(tmp_path, columns={"reward_weights": (("MathAccuracy", 1.0), ("Format", 0.5))})
    np.testing.assert_allclose(given.rollouts.reward, SCORES[0].ravel(), atol=1e-12)


@pytest.mark.parametrize(
    "settings", [[], {"reward_weights": ["x", 1]}, {"reward_weights": [1], "num_generations": "many"}]
)
def test_settings_that_do_not_fit_are_not_used(tmp_path, settings):
    result = audit(write(tmp_path, [line(1, 0), line(2, 1)], settings=settings))
    assert "reward_weights_read" not in codes(result)
    assert result.summary.group_sizes == {8: 4}
