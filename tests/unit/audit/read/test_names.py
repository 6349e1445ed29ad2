"""Dumps are found under names in any case, also in folders named almost like those of logs, and once, whatever links say."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import audit_dumps
from rovrl.audit import audit, audit_all

SCORES = audit_dumps.rewards(4, 8, spikes=0.0)


def trl(folder):
    rows = {"step": [1] * 32, "prompt": np.repeat(list("abcd"), 8), "completion": [str(k) for k in range(32)]}
    pq.write_table(
        pa.table(rows | {"score": SCORES.ravel(), "advantage": np.zeros(32)}), folder / "completions_1.parquet"
    )


def swift(folder):
    (folder / "completions.jsonl").write_text(json.dumps(audit_dumps.swift_line(1, SCORES)) + "\n")


@pytest.mark.parametrize("kind", ["trl", "swift", "nemo"])
def test_the_files_of_a_program_are_known_by_names_in_any_case(tmp_path, kind):
    write = {"trl": trl, "swift": swift, "nemo": lambda folder: audit_dumps.nemo(folder, 1, SCORES)}
    write[kind](tmp_path)
    (file,) = tmp_path.iterdir()
    file.rename(tmp_path / file.name.upper())
    for path in (tmp_path, tmp_path / file.name.upper()):
        result = audit(path)
        assert result.kind == kind
        assert result.rollouts.step.tolist() == [1] * 4


@pytest.mark.parametrize(
    "write", [audit_dumps.verl, lambda folder, scores: table(folder, scores)], ids=["verl", "table"]
)
def test_a_folder_is_left_out_by_its_whole_name(tmp_path, write):
    for name in ("runs_lr1", "auditing", "runs", "checkpoint-20", ".hidden", "wandb"):
        write(tmp_path / name, SCORES)
    assert set(audit_all(tmp_path)) == {"runs_lr1", "auditing"}


@pytest.mark.parametrize(
    "write", [audit_dumps.verl, lambda folder, scores: table(folder, scores)], ids=["verl", "table"]
)
def test_a_run_counts_once_however_many_links_lead_to_it(tmp_path, write):
    for name in ("all/b", "all/c", "elsewhere"):
        write(tmp_path / name, SCORES)
    links = {"a": "b", "self": ".", "up": "..", "far": "../elsewhere", "farther": "../elsewhere", "loop": "loop"}
    for name, target in links.items():
        (tmp_path / "all" / name).symlink_to(target)
    results = audit_all(tmp_path / "all")
    assert list(results) == ["b", "c", "far"]
    assert all(result.summary.group_sizes == {8: 4} for result in results.values())


def table(folder, scores):
    folder.mkdir(parents=True)
    audit_dumps.table(folder / "t.parquet", scores)
