"""Tables with other names, other separators, and the dumps of other programs."""

import gzip
import json

import numpy as np
import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.read import texts
from rovrl.errors import RovrlError


def test_columns_are_found_in_any_case_and_cells_by_tabs_or_semicolons(tmp_path):
    rows = [(1 + k // 16, f"p{k // 8}", k % 5) for k in range(64)]
    for name, mark in (("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t")):
        lines = [mark.join(("Step", "Prompt_ID", "Reward")), *(mark.join(map(str, row)) for row in rows)]
        (tmp_path / name).write_text("\n".join(lines))
        result = audit(tmp_path / name)
        assert (result.summary.groups, result.summary.steps) == (8, 4)
        assert result.summary.mean_reward == pytest.approx(np.mean([row[2] for row in rows]))


def test_rollouts_of_open_instruct_are_grouped_by_step_and_prompt(tmp_path):
    """By the schema of its RolloutRecord; no file of a real run was at hand."""
    rows = [
        {
            "step": 1 + k // 16,
            "sample_idx": k % 16,
            "prompt_idx": (k % 16) // 8,
            "prompt_tokens": [1, 2],
            "reward": k % 3,
        }
        | {"response_tokens": [5] * (3 + k % 4), "advantage": 0.0, "finish_reason": "length" if k % 4 == 3 else "stop"}
        for k in range(64)
    ]
    path = tmp_path / "run_rollouts_000000.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = audit(path)
    totals = result.description.totals
    assert (result.summary.groups, result.summary.group_sizes) == (8, {8: 8})
    assert (totals.unit, totals.length, totals.truncated) == ("tokens", 4.5, 0.25)


def test_batches_of_ms_swift_are_unrolled_and_a_repeated_line_counts_once(tmp_path):
    scores = np.random.default_rng(0).normal(size=(3, 4, 8))
    batches = [audit_dumps.swift_line(step, scores[k]) for k, step in enumerate((5, 10, 15))]
    again = batches[-1] | {"step": ["16"] * 32}
    path = tmp_path / "completions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (*batches, again)))
    result = audit(tmp_path, columns={"reward_weights": (("MathAccuracy", 1.0), ("Format", 0.5))})
    assert (result.kind, result.summary.group_sizes, result.summary.last_step) == ("swift", {8: 12}, 15)
    assert result.summary.trained_with == "grpo"
    np.testing.assert_allclose(result.rewards(5), scores[1, 1], atol=1e-12)
    assert [f.name for f in result.description.functions] == ["MathAccuracy", "Format"]
    assert "32 responses were logged again" in " ".join(note.sentence for note in result.notes)
    alone = audit(path)
    np.testing.assert_allclose(np.diff(alone.rewards(5)), np.diff(scores[1, 1]), atol=1e-12)  # no entropy in it


def test_a_table_that_is_called_completions_stays_a_table(tmp_path):
    rows = [{"step": 1, "group": k // 4, "prompt": "p", "completion": "c", "reward": k % 3} for k in range(16)]
    (tmp_path / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = audit(tmp_path)
    assert (result.kind, result.summary.group_sizes) == ("table", {4: 4})


def test_samples_of_nemo_rl_are_grouped_by_the_tokens_of_their_prompt(tmp_path):
    """By its log_batched_dict_as_jsonl; the system prompt, which all share, must not make one group of all."""
    for step in (1, 2, 10):
        audit_dumps.nemo(tmp_path, step, np.arange(16.0).reshape(2, 8) % 5)
    (tmp_path / "val_data_step2.jsonl").write_text(json.dumps({"content": [["q", "a"]], "rewards": [1.0], "idx": 0}))
    result = audit(tmp_path)
    assert (result.kind, result.summary.group_sizes, result.summary.last_step) == ("nemo", {8: 6}, 10)
    assert result.rewards(1).tolist() == [float(k % 5) for k in range(8, 16)]
    assert (result.description.totals.unit, result.description.totals.length) == ("tokens", 3.0)


def test_traces_of_prime_rl_are_grouped_by_episode_and_rewarded_by_weighted_sum(tmp_path):
    """By its Episode.to_record; no file of a real run was at hand."""
    scores = np.random.default_rng(1).normal(size=(4, 8))
    for step in (2, 10):
        audit_dumps.prime(tmp_path, step, scores + step, first=10 * step)
        audit_dumps.prime(tmp_path, step, np.vstack([scores, scores]), subset="all")
    evaluation = tmp_path / "rollouts" / "step_10" / "eval" / "all"
    evaluation.mkdir(parents=True)
    (evaluation / "traces.jsonl").write_bytes((tmp_path / "rollouts/step_10/train/all/traces.jsonl").read_bytes())
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward": 3}\n')
    result = audit(tmp_path)
    assert (result.kind, result.summary.group_sizes, result.summary.last_step) == ("prime", {8: 8}, 10)
    np.testing.assert_allclose(result.rewards(5), scores[1] + 10, atol=1e-12)
    assert result.summary.trained_with == "dr_grpo"
    totals = result.description.totals
    assert (totals.unit, totals.length, totals.truncated) == ("tokens", 3.0, 0.25)
    assert {f.name: f.weight for f in result.description.functions} == {"rewards/exact": 1.0, "rewards/form": 0.5}


def test_failed_and_frozen_traces_are_in_no_group_and_a_group_of_two_batches_is_one(tmp_path):
    path = audit_dumps.prime(tmp_path, 3, np.arange(16.0).reshape(2, 8))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["traces"][0]["ok"] = False
    lines[1]["traces"].append(lines[1]["traces"][0] | {"agent": {"trainable": False}})
    lines.append(lines[2] | {"traces": []})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[:12] + lines[16:]))
    later = tmp_path / "rollouts" / "step_4" / "train" / "effective" / "traces.jsonl"
    later.parent.mkdir(parents=True)
    later.write_text("".join(json.dumps(line) + "\n" for line in lines[12:16]))
    result = audit(tmp_path / "rollouts")
    assert result.summary.group_sizes == {7: 1, 8: 1}
    assert result.rewards(1).tolist() == list(np.arange(8.0, 16.0))
    told = " ".join(note.sentence for note in result.notes)
    assert "1 traces failed" in told
    assert "1 traces of agents that are not trained" in told


def test_a_trace_of_prime_rl_from_before_there_were_episodes_is_read_too(tmp_path):
    path = audit_dumps.prime(tmp_path, 1, np.arange(8.0).reshape(1, 8))
    episodes = [json.loads(line) for line in path.read_text().splitlines()]
    traces = [e["traces"][0] | {"kind": "train", "env_name": "maths", "group_id": e["group"]["id"]} for e in episodes]
    path.write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    result = audit(path)
    assert (result.kind, result.rewards(0).tolist()) == ("prime", list(np.arange(8.0)))


def test_compressed_lines_are_read_as_they_would_be_unpacked(tmp_path):
    path = audit_dumps.verl(tmp_path / "plain", audit_dumps.rewards(16, 8))
    (tmp_path / "packed").mkdir()
    for file in path.glob("*.jsonl"):
        (tmp_path / "packed" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    plain, packed = audit(path), audit(tmp_path / "packed")
    assert (packed.kind, packed.summary) == ("verl", plain.summary)


def test_a_compressed_file_that_is_cut_short_is_used_as_far_as_it_goes(tmp_path):
    rows = [{"step": 1, "group": k // 8, "reward": k * 0.37 % 1} for k in range(4000)]
    whole = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (tmp_path / "run.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    result = audit(tmp_path)
    assert 100 < result.summary.responses < 4000
    assert "and no further" in result.notes[0].sentence
    (tmp_path / "run.jsonl.gz").write_bytes(b"no gzip at all")
    with pytest.raises(RovrlError, match="no rollouts found"):
        audit(tmp_path)


def test_a_compressed_file_that_never_ends_is_left_at_the_limit(tmp_path, monkeypatch):
    rows = [{"step": 1, "group": k // 8, "reward": k * 0.37 % 1} for k in range(4000)]
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    monkeypatch.setattr(texts, "MOST_BYTES", 10_000)
    result = audit(tmp_path)
    assert result.summary.responses < 400
    assert "unpacks to more than" in result.notes[0].sentence
