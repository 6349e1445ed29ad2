"""`rovrl stress` on records that RecordWriter wrote, and on what is not a record."""

import json

import numpy as np
import pytest
import torch

from rovrl.cli import main
from rovrl.records import RecordWriter
from rovrl_paper.stress.recorded import recorded_steps, reward_groups


def write(directory, steps=3, groups=3, size=8, ratios=True, reward=None, ratio=0.02):
    """A record set of a made-up run; returns the log-ratios of its last step."""
    rng = np.random.default_rng(0)
    writer, columns = RecordWriter(directory), {}
    for step in range(1, steps + 1):
        n = groups * size
        columns = {
            "update": [k % 4 for k in range(n)],
            "group": [f"g{k // size}" for k in range(n)],
            "response": [k % size for k in range(n)],
            "prompt": ["1+1="] * n,
            "completion": ["2"] * n,
            "reward": rng.normal(size=n) if reward is None else np.broadcast_to(reward, n).tolist(),
            "advantage": rng.normal(size=n),
            "length": [20 + k % 7 for k in range(n)],
            "clip_low": [3e-4] * n,
            "clip_high": [4e-4] * n,
        }
        if ratios:
            columns["log_ratios"] = [ratio * rng.normal(size=20 + k % 7) for k in range(n)]
        writer.write_step(step, columns)
    return columns


def said(capsys, *words: str) -> str:
    assert main(["stress", *words]) == 2
    return capsys.readouterr().err


def test_what_was_written_is_what_is_stressed(tmp_path):
    columns = write(tmp_path)
    steps = list(recorded_steps(tmp_path))
    assert [step for step, _ in steps] == [1, 2, 3]
    last = steps[-1][1]
    assert last.length.tolist() == columns["length"]
    assert (last.clip_low, last.clip_high) == (3e-4, 4e-4)
    assert last.prompt.tolist() == [k // 8 for k in range(24)]
    for row, length, wrote in zip(last.log_ratios, last.length, columns["log_ratios"], strict=True):
        assert torch.equal(row[:length], torch.from_numpy(wrote.astype(np.float32)).double())
        assert row[length:].abs().sum() == 0
    np.testing.assert_allclose(last.advantage.numpy(), columns["advantage"])


def test_rows_without_log_ratios_are_left_out_and_the_others_keep_their_own(tmp_path):
    columns = write(tmp_path)
    columns["log_ratios"][3] = None
    RecordWriter(tmp_path).write_step(4, columns)
    _, found = list(recorded_steps(tmp_path))[-1]
    assert len(found.length) == 23
    assert torch.equal(found.log_ratios[3, :24], torch.from_numpy(columns["log_ratios"][4].astype(np.float32)).double())


def test_a_response_counts_once_and_groups_of_another_size_or_without_a_number_are_left_out(tmp_path):
    columns = write(tmp_path, steps=1)
    columns["reward"][0] = float("nan")
    columns = {name: list(column) for name, column in columns.items()}
    for name, column in columns.items():
        column.append("lonely" if name == "group" else column[0])
    columns["reward"][-1] = 1.0
    for column in columns.values():  # the second group's first response again, at another update
        column.append(column[8])
    RecordWriter(tmp_path).write_step(1, columns)
    found = reward_groups(tmp_path)
    assert found.rewards.shape == (2, 8)
    assert found.left_out == 2
    np.testing.assert_allclose(found.rewards[0], columns["reward"][8:16])


def test_rewards_prints_every_estimator_and_its_json_holds_the_same(tmp_path, capsys):
    write(tmp_path)
    assert main(["stress", "rewards", str(tmp_path), "--replicates", "5"]) == 0
    text = capsys.readouterr().out
    assert "9 groups of 8" in text
    assert main(["stress", "rewards", str(tmp_path), "--replicates", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [row["estimator"] for row in found["rows"]]
    assert {"GRPO/GSPO", "A^credit", "winsor"} <= set(names)
    assert all(name in text for name in names)
    kept = {row["estimator"]: row["contrast_retention"][0] for row in found["rows"]}
    assert kept["GRPO/GSPO"] < kept["A^credit, adaptive"]


def test_suggest_names_a_bound_for_these_rewards(tmp_path, capsys):
    write(tmp_path)
    assert main(["stress", "rewards", str(tmp_path), "--suggest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    bounds = [s["credit_bound"] / found["spread"] for s in found["suggestions"]]
    assert bounds == pytest.approx([0.5, 1, 2, 3, 4, 6, 10])
    assert main(["stress", "rewards", str(tmp_path), "--suggest"]) == 0
    assert "credit_bound=" in capsys.readouterr().out


def test_suggest_asks_about_rare_right_answers_where_a_few_stand_apart(tmp_path, capsys):
    write(tmp_path / "usual")
    assert main(["stress", "rewards", str(tmp_path / "usual"), "--suggest"]) == 0
    assert "right answers that are rare" not in capsys.readouterr().out
    rewards = np.tile(0.01 * np.arange(8), 3)
    rewards[8] = 1.0
    write(tmp_path / "rare", reward=rewards)
    assert main(["stress", "rewards", str(tmp_path / "rare"), "--suggest"]) == 0
    assert "In 3 of 9 groups a few responses lie far from all others" in capsys.readouterr().out


@pytest.mark.parametrize(("ratio", "nothing"), [(2e-5, True), (0.5, False)])
def test_ratios_says_when_the_ratio_channel_does_nothing(tmp_path, capsys, ratio, nothing):
    write(tmp_path, steps=1, ratio=ratio)
    assert main(["stress", "ratios", str(tmp_path), "--replicates", "5"]) == 0
    assert ("the ratio channel does\nnothing" in capsys.readouterr().out) is nothing
    assert main(["stress", "ratios", str(tmp_path), "--replicates", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratio_channel_does_nothing"] is nothing


@pytest.mark.parametrize(
    ("mode", "has", "has_not"),
    [
        ("rewards", "--suggest", "--step"),
        ("ratios", "--step", "--alpha"),
        ("alignment", "--world", "--step"),
        ("rollouts", "--seed", "--world"),
    ],
)
def test_each_mode_has_a_help_of_its_own(capsys, mode, has, has_not):
    with pytest.raises(SystemExit, match="0"):
        main(["stress", mode, "--help"])
    said = capsys.readouterr().out
    assert has in said
    assert has_not not in said


def test_rewards_that_are_all_equal_are_told_as_such(tmp_path, capsys):
    write(tmp_path, reward=1.0)
    assert main(["stress", "rewards", str(tmp_path), "--suggest"]) == 0
    assert "No group has any contrast" in capsys.readouterr().out


@pytest.mark.slow
def test_ratios_takes_the_middle_step_or_the_one_asked_for(tmp_path, capsys):
    write(tmp_path)
    assert main(["stress", "ratios", str(tmp_path), "--replicates", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["step"], found["prompts"], found["responses"]) == (2, 3, 24)
    burst = [r for r in found["rows"] if (r["perturbation"], r["severity"], r["metric"]) == ("burst", 0.2, "D_q")]
    assert all(r["softrovr"] < r["gspo"] for r in burst)
    assert main(["stress", "ratios", str(tmp_path), "--replicates", "5", "--step", "3"]) == 0
    assert "step 3: 24 responses of 3 prompts" in capsys.readouterr().out


def test_what_cannot_be_stressed_is_a_sentence(tmp_path, capsys):
    assert "does not exist" in said(capsys, "rewards", str(tmp_path / "missing"))
    (tmp_path / "empty").mkdir()
    assert "holds no records" in said(capsys, "rewards", str(tmp_path / "empty"))
    assert "holds no records" in said(capsys, "ratios", str(tmp_path / "empty"))
    write(tmp_path / "plain", ratios=False)
    assert "no token log-ratios" in said(capsys, "ratios", str(tmp_path / "plain"))
    write(tmp_path / "whole")
    assert "recorded steps are 1 to 3" in said(capsys, "ratios", str(tmp_path / "whole"), "--step", "9")
    assert "--replicates must be at least 1" in said(capsys, "ratios", str(tmp_path / "whole"), "--replicates", "0")
    write(tmp_path / "none", reward=float("nan"))
    assert "only finite rewards" in said(capsys, "rewards", str(tmp_path / "none"))
    write(tmp_path / "pairs", size=2)
    assert "at least 3" in said(capsys, "rewards", str(tmp_path / "pairs"))
