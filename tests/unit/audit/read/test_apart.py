"""Tables side by side are told apart: several runs, or pieces of one; what an audit wrote among them is neither."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import audit_dumps
from rovrl.audit import audit, audit_all
from rovrl.audit.read.table import FLAGGED
from rovrl.audit.show.export import COLUMNS
from rovrl.cli import main


@pytest.mark.parametrize("names", [("run_a.parquet", "run_b.parquet"), ("0/t.parquet", "1/t.parquet")])
def test_tables_that_hold_the_same_groups_of_the_same_steps_are_runs(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        audit_dumps.table(tmp_path / name, audit_dumps.rewards(16, 8))
    results = audit_all(tmp_path)
    assert list(results) == [name.removesuffix("/t.parquet") for name in names]
    assert all(result.summary.group_sizes == {8: 16} for result in results.values())


def test_tables_of_other_groups_side_by_side_are_pieces_of_one_run(tmp_path):
    for name, first in (("early.parquet", 0), ("late.parquet", 8), ("last/t.parquet", 16)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        part = {"group": np.repeat(np.arange(first, first + 8), 8), "reward": audit_dumps.rewards(8, 8).ravel()}
        pq.write_table(pa.table(part), tmp_path / name)
    assert audit(tmp_path).summary.group_sizes == {8: 24}


@pytest.mark.parametrize(("name", "told"), [("rank{}.parquet", False), ("{}.parquet", True)])
def test_of_numbered_tables_with_the_same_groups_it_is_said_that_they_were_joined(tmp_path, name, told):
    for number in (0, 1):
        audit_dumps.table(tmp_path / name.format(number), audit_dumps.rewards(16, 8))
    result = audit(tmp_path)
    assert result.summary.group_sizes == {16: 16}
    assert ("groups_over_files" in {note.code for note in result.notes}) is told


def test_a_loose_table_beside_the_folders_of_runs_does_not_join_them(tmp_path):
    for name in ("run_a/t.parquet", "run_b/t.parquet", "notes.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        audit_dumps.table(tmp_path / name, audit_dumps.rewards(16, 8))
    assert list(audit_all(tmp_path)) == ["notes.csv", "run_a", "run_b"]
    main(["audit", str(tmp_path)])
    assert (tmp_path / "audit" / "notes.csv" / "audit.html").exists()


@pytest.mark.parametrize("name", ["flagged.csv", "flagged.parquet"])
def test_flagged_responses_that_were_written_beside_the_dump_are_not_read_back(tmp_path, name):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(32, 16, spikes=0.05))
    before = audit(path)
    before.write_flagged(tmp_path / name)
    assert audit(tmp_path).summary == before.summary
    assert FLAGGED == COLUMNS
