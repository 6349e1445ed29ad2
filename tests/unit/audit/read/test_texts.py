"""CSV as spreadsheets write it is read, and long rows of text do not fill the memory."""

import json

import numpy as np
import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.read import texts
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.tables import batches

SCORES = audit_dumps.rewards(8, 8)


def written(path, delimiter, header, number=str):
    rows = [f"{k // 8}{delimiter}{number(value)}{delimiter}x" for k, value in enumerate(SCORES.ravel().tolist())]
    path.write_text("\n".join([header, *rows]))
    return path


@pytest.mark.parametrize(
    ("delimiter", "header", "number"),
    [
        (";", "group;reward;note", lambda value: str(value).replace(".", ",")),
        (";", "group;reward;note", str),
        (";", 'group;reward;"note, if any, or none"', str),
        (",", 'group,reward,"a;b;c;d"', str),
        ("\t", "group\treward\tnote", str),
    ],
    ids=["decimal commas", "points", "commas in a quoted name", "semicolons in a quoted name", "tabs"],
)
def test_a_csv_file_is_read_by_what_stands_between_its_cells(tmp_path, delimiter, header, number):
    result = audit(written(tmp_path / "run.csv", delimiter, header, number))
    np.testing.assert_array_equal(result.rollouts.reward.reshape(8, 8), SCORES)


def test_only_a_single_comma_between_semicolons_is_that_of_a_decimal(tmp_path):
    cells = ["1,5", "-1.234,5", "2,5e-1", "1,2,3", "a,b", "7"]
    (tmp_path / "run.csv").write_text("group;reward\n" + "".join(f"1;{cell}\n" for cell in cells))
    (batch,) = batches(tmp_path / "run.csv", None, Notes())
    np.testing.assert_array_equal(batch.numbers("reward"), [1.5, -1234.5, 0.25, np.nan, np.nan, 7.0])
    assert batch.texts("reward")[0].as_py() == "1,5"


@pytest.mark.parametrize("name", ["run.jsonl", "run.csv"])
def test_a_batch_of_text_ends_where_its_rows_have_so_many_letters(tmp_path, monkeypatch, name):
    monkeypatch.setattr(texts, "AT_ONCE", 10_000)
    rows = [{"group": k // 4, "reward": float(k), "completion": "x" * 3000} for k in range(32)]
    if name.endswith(".csv"):
        lines = ["group,reward,completion", *(",".join(map(str, row.values())) for row in rows)]
    else:
        lines = [json.dumps(row) for row in rows]
    (tmp_path / name).write_text("\n".join(lines))
    found = list(batches(tmp_path / name, None, Notes()))
    assert [len(batch) for batch in found] == [4] * 8
    assert np.concatenate([np.asarray(batch.rows) for batch in found]).tolist() == list(range(32))
