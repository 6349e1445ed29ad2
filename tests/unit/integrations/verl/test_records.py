"""What the loss keeps of a verl run, and the join of it with the driver's part."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rovrl.errors import RovrlError
from rovrl.integrations.verl import records as verl_records
from rovrl.integrations.verl.records import fingerprint, record
from rovrl.records import join as verl_join
from rovrl.records import read_settings, read_steps

CLIP = (3e-4, 4e-4)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A recorded step 1 with three responses of two groups, one of them split over two micro-batches, on a fresh rank."""
    monkeypatch.setattr(verl_records, "_Rank", type("_Rank", (), dict(vars(verl_records._Rank))))
    monkeypatch.setenv("RANK", "0")
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(3, 6, generator=generator)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0]], dtype=torch.bool)
    old = torch.where(torch.tensor([6, 4, 3])[:, None] > torch.arange(6), old, 0.0)  # verl pads with 0
    batch = SimpleNamespace(
        directory=tmp_path / "recorded",
        old=old,
        mask=mask,
        ratios=torch.where(mask, torch.randn(3, 6, generator=generator), 0.0),
        advantages=torch.tensor([0.5, -0.25, 1.0])[:, None] * mask,
        keys=["a_0_0", "a_1_0", "b_0_0"],
    )
    _publish(batch, step=1)
    return batch


def _publish(batch, step, rewards=(1.0, float("nan"), 3.0)):
    rows = {
        "step": step,
        "settings": {"engine": "verl"},
        "notes": {"scale_source": "local"},
        "references": {"a": 0.75},
        "responses": [
            {"key": key, "reward": reward, "fingerprint": fingerprint(old.numpy())}
            for key, reward, old in zip(batch.keys, rewards, batch.old, strict=True)
        ],
    }
    verl_records._write(batch.directory / f"step_{step:06d}" / "rows.json", json.dumps(rows))
    verl_records._write(batch.directory / "current", str(step))


def _loss(batch, rows, megabytes=1.0, width=6):
    """What the loss does with a micro-batch; verl pads each one to its own longest response."""
    config = SimpleNamespace(
        policy_loss={"record_dir": str(batch.directory), "record_megabytes": megabytes},
        global_batch_info={"global_batch_size": 2, "dp_size": 1},
    )
    part = [x[rows][:, :width] for x in (batch.ratios, batch.mask, batch.old, batch.advantages)]
    record(config, *part, CLIP)


def _rows(batch, tmp_path, **arguments):
    counts = verl_join.join(batch.directory, tmp_path / "records", **arguments)
    return counts, [row for _, table in read_steps(tmp_path / "records") for row in table.to_pylist()]


def test_joined_rows_hold_each_response_with_its_reward_tokens_and_update(run, tmp_path):
    _loss(run, [2, 0])
    _loss(run, [1], width=4)
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts/1.jsonl").write_text(json.dumps({"uid": "b_0_0", "input": "2+2?", "output": "4"}) + "\n")
    counts, rows = _rows(run, tmp_path, rollouts=tmp_path / "rollouts")
    assert counts == {"steps": 1, "rows": 3, "unmatched": 0}
    assert read_settings(tmp_path / "records") == {"engine": "verl"}
    found = {(row["group"], row["response"]): row for row in rows}
    for i, key in enumerate([("a", 0), ("a", 1), ("b", 0)]):
        row = found[key]
        np.testing.assert_array_equal(row["log_ratios"], run.ratios[i][run.mask[i]].numpy())
        assert row["length"] == len(row["log_ratios"])
        assert row["advantage"] == [0.5, -0.25, 1.0][i]
        assert (row["clip_low"], row["clip_high"]) == CLIP
    assert [found["a", 0]["update"], found["b", 0]["update"], found["a", 1]["update"]] == [0, 0, 1]
    assert [found["a", 0]["reward"], found["a", 1]["reward"], found["b", 0]["reward"]] == [1.0, None, 3.0]
    assert [found["a", 0]["reference"], found["b", 0]["reference"]] == [0.75, None]
    assert [found["b", 0]["completion"], found["a", 0]["completion"]] == ["4", ""]


def test_rows_of_padding_are_not_kept(run, tmp_path):
    run.mask[1] = False
    _loss(run, [0, 1, 2])
    counts, _ = _rows(run, tmp_path)
    assert counts["rows"] == 2


def test_a_row_that_belongs_to_no_response_of_its_step_is_counted_and_left_out(run, tmp_path):
    run.old[0] -= 1.0
    _loss(run, [0, 2])
    counts, rows = _rows(run, tmp_path)
    assert counts == {"steps": 1, "rows": 1, "unmatched": 1}
    assert rows[0]["group"] == "b"


def test_rows_that_two_tensor_parallel_ranks_wrote_count_once(run, tmp_path, monkeypatch):
    _loss(run, [0, 1, 2])
    verl_records._Rank.step = ""
    monkeypatch.setenv("RANK", "1")
    _loss(run, [0, 1, 2])
    counts, _ = _rows(run, tmp_path)
    assert counts == {"steps": 1, "rows": 3, "unmatched": 0}


def test_two_responses_that_are_the_same_token_for_token_stay_two(run, tmp_path):
    run.old[1], run.mask[1] = run.old[0], run.mask[0]
    _publish(run, step=1)
    _loss(run, [0, 1])
    _, rows = _rows(run, tmp_path)
    assert [(row["group"], row["response"]) for row in rows] == [("a", 0), ("a", 1)]


def test_records_that_cannot_be_written_are_told_once_and_do_not_stop_the_run(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    publisher = verl_records.Publisher.of({"record_dir": str(tmp_path / "file/below"), "record_every": 2})
    for step in (2, 3, 4):
        publisher.publish(step, None, [])
    assert caplog.text.count("end before step 2") == 1


def test_the_space_that_was_granted_is_a_bound(run):
    for _ in range(50):
        _loss(run, [0, 1, 2], megabytes=0.01)
    size = sum(file.stat().st_size for file in run.directory.glob("step_*/rank_*.npz"))
    largest = max(file.stat().st_size for file in run.directory.glob("step_*/rank_*.npz"))
    assert size <= 0.01 * verl_records.MEGABYTE + largest
    assert len(list(run.directory.glob("step_*/rank_*.npz"))) < 50


def test_nothing_is_kept_while_no_step_is_open_or_without_a_directory(run, tmp_path):
    verl_records._write(run.directory / "current", "")
    _loss(run, [0, 1, 2])
    (run.directory / "current").unlink()
    _loss(run, [0, 1, 2])
    config = SimpleNamespace(policy_loss={}, global_batch_info={})
    record(config, run.ratios, run.mask, run.old, run.advantages, CLIP)
    assert not list(run.directory.glob("step_*/rank_*.npz"))


def test_a_new_step_starts_its_updates_from_zero(run, tmp_path):
    _loss(run, [0, 1, 2])
    _publish(run, step=2)
    _loss(run, [0, 1, 2])
    counts, rows = _rows(run, tmp_path)
    assert counts == {"steps": 2, "rows": 6, "unmatched": 0}
    assert [row["update"] for row in rows] == [0, 0, 1] * 2


def test_a_damaged_file_is_left_out_and_told(run, tmp_path, capsys):
    _loss(run, [0])
    _loss(run, [2])
    broken = run.directory / "step_000001/rank_0_000.npz"
    broken.write_bytes(broken.read_bytes()[:40])
    counts, _ = _rows(run, tmp_path)
    assert counts["rows"] == 1
    assert "rank_0_000.npz is damaged and was left out" in capsys.readouterr().err


def test_a_damaged_line_of_verls_dump_is_named_by_its_number(run, tmp_path):
    _loss(run, [0])
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts/1.jsonl").write_text(
        '{"uid": "a_0_0", "input": "p", "output": "x"}\n{"uid": \n{"uid": "b"}\n'
    )
    with pytest.raises(RovrlError, match=r"1\.jsonl, line 2 is damaged: delete that line"):
        _rows(run, tmp_path, rollouts=tmp_path / "rollouts")


def test_a_directory_without_records_is_a_sentence(tmp_path, capsys):
    with pytest.raises(RovrlError, match="holds no recorded step"):
        verl_join.join(tmp_path, tmp_path / "out")
    assert verl_join.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "holds no recorded step" in capsys.readouterr().err


def test_a_fingerprint_ignores_padding_and_nothing_else():
    row = np.array([-0.5, 0.0, -0.25])
    assert fingerprint(row) == fingerprint(np.append(row, [0.0, 0.0]))
    assert fingerprint(row) != fingerprint(np.array([-0.5, -0.25]))
    assert fingerprint(row) != fingerprint(-row)
