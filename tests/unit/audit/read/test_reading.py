"""Every kind of dump gives the same groups; what is damaged, repeated or no training row is left out and said."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.read import table, tables
from rovrl.errors import RovrlError

SCORES = audit_dumps.rewards(24, 8)


def codes(result):
    return {note.code for note in result.notes}


def trl_file(folder, step, prompts, rewards, texts=None, name="score", size=4, **more):
    """One completions file: `rewards` [group, size] for `prompts`, rows of a group one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = np.asarray(rewards, dtype=float).ravel()
    rows = [prompt for prompt in prompts for _ in range(size)]
    texts = texts or [f"{step}/{k}" for k in range(len(rows))]
    columns = {
        "step": [step] * len(rows),
        "prompt": rows,
        "completion": texts,
        name: flat,
        "advantage": np.zeros(len(rows)),
        **more,
    }
    pq.write_table(pa.table(columns), folder / f"completions_{step:05d}.parquet")


@pytest.mark.parametrize("name", ["run.parquet", "run.jsonl", "run.csv"])
def test_a_table_gives_its_groups_in_every_format(tmp_path, name):
    result = audit(audit_dumps.table(tmp_path / name, SCORES))
    assert result.kind == "table"
    assert (result.summary.groups, result.summary.responses, result.summary.steps) == (24, 192, 3)
    np.testing.assert_array_equal(result.rollouts.reward.reshape(24, 8), SCORES)


def test_verl_rollouts_are_grouped_by_uid_and_pad_rows_are_left_out(tmp_path):
    result = audit(audit_dumps.verl(tmp_path / "dump", SCORES, per_step=8, pads=3))
    assert result.kind == "verl"
    assert result.summary.groups == 24
    assert result.summary.responses == 192
    assert sorted(result.groups.mean) == pytest.approx(sorted(SCORES.mean(1)))
    assert [note.sentence for note in result.notes] == ["9 pad rows (uid pad...) were left out: they are not responses"]


def test_verl_rollouts_without_uid_are_grouped_by_input_within_a_step(tmp_path):
    rows = [{"input": f"p{g}", "output": "x", "score": float(g), "step": 1} for _ in range(4) for g in range(3)]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = audit(tmp_path)
    assert result.summary.group_sizes == {4: 3}
    assert "grouped_by_prompt" in codes(result)


def test_records_give_each_response_once_and_their_token_log_ratios_per_update(tmp_path):
    result = audit(audit_dumps.records(tmp_path / "run" / "records", SCORES, per_step=4, updates=3))
    assert result.kind == "records"
    assert result.summary.responses == 192
    np.testing.assert_array_equal(result.rollouts.reward.reshape(24, 8), SCORES)
    assert result.summary.ratios.responses == 3 * 192
    assert result.summary.ratios.tokens == 3 * 192 * 40
    assert result.summary.trained_with == "grpo"
    assert audit(tmp_path / "run").summary == result.summary


def test_interleaved_rows_are_grouped_by_their_label_and_keep_their_order(tmp_path):
    order = np.random.default_rng(0).permutation(SCORES.size)
    columns = {"group": np.repeat(np.arange(24), 8)[order].tolist(), "reward": SCORES.ravel()[order].tolist()}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    result = audit(tmp_path / "run.parquet")
    assert result.summary.group_sizes == {8: 24}
    for group in range(24):
        label = int(result.rollouts.label[group].as_py())
        np.testing.assert_array_equal(result.rewards(group), [SCORES.ravel()[k] for k in order if k // 8 == label])


def test_the_same_label_at_two_steps_is_two_groups(tmp_path):
    columns = {"step": [1] * 4 + [2] * 4, "uid": ["a"] * 8, "score": np.arange(8.0)}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    assert audit(tmp_path / "run.parquet").summary.group_sizes == {4: 2}


def test_files_in_pieces_of_a_few_rows_give_the_same_groups(tmp_path, monkeypatch):
    path = audit_dumps.table(tmp_path / "run.parquet", SCORES)
    whole = audit(path)
    trl_file(tmp_path / "trl", 1, ["a", "b", "c"], SCORES[:3], size=8)
    runs = audit(tmp_path / "trl")
    monkeypatch.setattr(table, "BATCH_ROWS", 5)
    monkeypatch.setattr(tables.batches, "__defaults__", (5,))
    pieces, pieces_of_runs = audit(path), audit(tmp_path / "trl")
    np.testing.assert_array_equal(pieces.rollouts.reward, whole.rollouts.reward)
    np.testing.assert_array_equal(pieces.rollouts.start, whole.rollouts.start)
    np.testing.assert_array_equal(pieces_of_runs.rollouts.start, runs.rollouts.start)


def test_trl_groups_are_runs_of_equal_prompts_and_a_prompt_twice_in_a_row_is_two(tmp_path):
    trl_file(tmp_path, 1, ["a", "b", "b", "c"], SCORES[:4, :4])
    result = audit(tmp_path)
    assert result.kind == "trl"
    assert result.summary.group_sizes == {4: 4}
    assert {"group_size_inferred", "runs_split"} <= codes(result)
    assert audit(tmp_path, group_size=4).summary.group_sizes == {4: 4}
    assert audit(tmp_path, group_size=2).summary.group_sizes == {2: 8}


def test_a_batch_that_trl_logged_three_times_counts_once(tmp_path):
    texts = [f"same {k}" for k in range(8)]
    for step in (1, 2, 3):
        trl_file(tmp_path / "completions", step, ["a", "b"], SCORES[:2, :4], texts=texts)
    trl_file(tmp_path / "completions", 4, ["c", "d"], SCORES[2:4, :4])
    result = audit(tmp_path)
    assert result.summary.groups == 4
    assert result.rollouts.step.tolist() == [1, 1, 4, 4]
    assert any(note.sentence.startswith("4 groups were logged again") for note in result.notes)


def test_evaluation_rows_are_told_by_their_repeated_prompts(tmp_path):
    for step in (1, 3, 5):
        trl_file(tmp_path, step, [f"train {step}.{k}" for k in range(2)], SCORES[step : step + 2, :4])
    for step in (2, 4, 6):
        trl_file(tmp_path, step, ["eval a", "eval b"], SCORES[10 + step : 12 + step, :4])
    result = audit(tmp_path)
    assert set(result.rollouts.step.tolist()) == {1, 3, 5}
    assert "evaluation_rows" in codes(result)
    assert audit(tmp_path, keep_evaluation=True).summary.groups == 12


def test_evaluation_rows_that_cannot_be_told_are_reported_with_the_steps_of_the_run(tmp_path):
    trl_file(tmp_path, 1, ["a", "b"], SCORES[:2, :4])
    trl_file(tmp_path, 2, ["c", "d"], SCORES[2:4, :4])
    state = tmp_path / "checkpoint-2" / "trainer_state.json"
    state.parent.mkdir()
    state.write_text(json.dumps({"log_history": [{"step": 1, "loss": 1.0}, {"step": 2, "eval_loss": 1.0}]}))
    result = audit(tmp_path)
    assert result.summary.groups == 4
    assert any("the run evaluated at steps 2" in note.sentence for note in result.notes)


def test_reward_functions_add_up_with_weights_and_an_unscored_row_has_no_reward(tmp_path):
    second = np.arange(8.0)
    second[3] = np.nan
    first = np.array([0.0, 1, 0, np.nan, 1, 1, 0, 1])
    trl_file(tmp_path, 1, ["a", "b"], first, other=second)
    result = audit(tmp_path)
    np.testing.assert_array_equal(result.rollouts.reward, np.where(np.isnan(first), np.nan, first + second))
    assert "reward_weights_unknown" in codes(result)
    weighted = audit(tmp_path, columns={"reward_weights": (("score", 1.0), ("other", 0.5))})
    assert weighted.rollouts.reward[2] == 1.0
    assert "reward_weights_unknown" not in codes(weighted)
    with pytest.raises(RovrlError, match="no reward column missing"):
        audit(tmp_path, columns={"reward_weights": (("missing", 1.0),)})


def test_conversational_prompts_are_compared_by_what_they_say(tmp_path):
    chats = [[{"role": "user", "content": f"question {k // 4}"}] for k in range(8)]
    columns = {"step": [1] * 8, "prompt": chats, "completion": [[{"role": "assistant", "content": "x"}]] * 8}
    pq.write_table(
        pa.table({**columns, "score": np.arange(8.0), "advantage": np.zeros(8)}), tmp_path / "completions_00001.parquet"
    )
    result = audit(tmp_path)
    assert result.summary.group_sizes == {4: 2}
    assert result.to_dict()["groups"][0]["prompt"] in ("[user] question 0", "[user] question 1")


def test_columns_are_found_by_option(tmp_path):
    columns = {"mark": SCORES.ravel(), "question": [f"q{k // 8}" for k in range(192)], "when": np.arange(192) // 64}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    result = audit(tmp_path / "run.parquet", columns={"reward": "mark", "step": "when"})
    assert (result.summary.groups, result.summary.steps) == (24, 3)
    with pytest.raises(RovrlError, match=r"no reward column.*columns are mark, question, when.*--reward-column"):
        audit(tmp_path / "run.parquet")


def test_log_probabilities_give_the_log_ratios_where_the_mask_keeps_them(tmp_path):
    new, old = np.random.default_rng(1).normal(-1, 0.1, (2, 16, 9))
    mask = np.arange(9) < 6
    more = {"logp_new": new.tolist(), "logp_old": old.tolist(), "mask": [mask.astype(int).tolist()] * 16}
    result = audit(audit_dumps.table(tmp_path / "run.parquet", SCORES[:2], **more))
    np.testing.assert_allclose(result.ratios.mean, (new - old)[:, :6].mean(1), rtol=1e-12)
    assert result.ratios.length.tolist() == [6] * 16


def test_a_damaged_file_among_others_is_left_out_and_named(tmp_path):
    audit_dumps.verl(tmp_path, SCORES, per_step=8)
    trl_file(tmp_path / "trl", 1, ["a", "b"], SCORES[:2, :4])
    broken = tmp_path / "trl" / "completions_00002.parquet"
    broken.write_bytes((tmp_path / "trl" / "completions_00001.parquet").read_bytes()[:-100])
    (tmp_path / "2.jsonl").write_text("not json\n" * 3)
    assert audit(tmp_path / "trl").summary.groups == 2
    assert any(
        "completions_00002.parquet is damaged and was left out" in n.sentence for n in audit(tmp_path / "trl").notes
    )
    result = audit(tmp_path)
    assert result.summary.groups == 16
    assert any("3 lines are not JSON objects" in note.sentence for note in result.notes)


def test_nothing_readable_is_a_sentence(tmp_path):
    (tmp_path / "completions_00001.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(RovrlError, match=r"nothing readable in .* is damaged"):
        audit(tmp_path)
    with pytest.raises(RovrlError, match="does not exist"):
        audit(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RovrlError, match="no rollouts found"):
        audit(tmp_path / "empty")


def test_a_pickle_is_refused_and_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    for name in ("run.pkl", "run.pt", "run.npy"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(RovrlError, match="can hold a pickle"):
            audit(tmp_path / name)
    (tmp_path / "run.parquet").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(RovrlError):
        audit(tmp_path / "run.parquet")
    assert not (tmp_path / "ran").exists()


def test_texts_in_other_encodings_are_read(tmp_path):
    rows = [{"group": "a", "reward": k, "prompt": "é"} for k in range(4)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        (tmp_path / f"{encoding}.jsonl").write_bytes(text.encode(encoding))
        assert audit(tmp_path / f"{encoding}.jsonl").summary.responses == 4
    (tmp_path / "latin.jsonl").write_bytes(text.encode("latin-1"))
    result = audit(tmp_path / "latin.jsonl")
    assert result.summary.responses == 4
    assert "encoding" in codes(result)


def test_rewards_that_are_no_numbers_are_missing_and_counted(tmp_path):
    values = [1, "0.5", None, "none", True, [2.0], float("nan"), {"a": 1}]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps({"group": 1, "reward": v}) + "\n" for v in values))
    result = audit(tmp_path / "run.jsonl")
    np.testing.assert_array_equal(result.rollouts.reward, [1, 0.5, np.nan, np.nan, 1, 2, np.nan, np.nan])
    assert result.summary.nonfinite_rewards == 4
    assert "nonfinite_rewards" in {finding.code for finding in result.findings}


@pytest.mark.parametrize("dictionary", [False, True])
def test_names_of_groups_that_are_not_utf8_have_a_mark_for_what_cannot_be_read(tmp_path, dictionary):
    raw = pa.array([b"a\xff"] * 4 + [b"b"] * 4, pa.binary())
    names = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    if dictionary:
        names = pa.DictionaryArray.from_arrays(pa.array([0] * 4 + [1] * 4, pa.int32()), names.take(pa.array([0, 4])))
    pq.write_table(pa.table({"group": names, "reward": [0.0, 1.0] * 4}), tmp_path / "run.parquet")
    found = audit(tmp_path / "run.parquet")
    assert found.rollouts.label.to_pylist() == ["a\ufffd", "b"]
