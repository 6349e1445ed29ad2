"""The steps of the rows are those of the dump, or a note says that they are not."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rovrl.audit import audit


def notes(result) -> dict[str, str]:
    return {note.code: note.sentence for note in result.notes}


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_steps_beyond_two_to_the_53_stay_apart(tmp_path, kind):
    steps = [2**62 + k // 8 for k in range(32)]
    rows = [{"step": s, "group": k // 4, "reward": k % 4} for k, s in enumerate(steps)]
    path = tmp_path / f"run.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("step,group,reward\n" + "".join(f"{r['step']},{r['group']},{r['reward']}\n" for r in rows))
    assert np.unique(audit(path).rollouts.step).tolist() == sorted(set(steps))


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        (pa.array([2**63 + k // 8 for k in range(32)], pa.uint64()), "steps_too_large"),
        (pa.array([float(2**60)] * 32), "steps_too_large"),
        ([2**64 + k // 8 for k in range(32)], "steps_too_large"),
        ([None, *range(31)], "no_step"),
        ([0.5 * k for k in range(32)], "steps_cut"),
    ],
    ids=["beyond 2^63", "floats beyond 2^53", "beyond 2^64", "none", "halves"],
)
def test_a_step_that_cannot_be_told_is_noted_and_never_another_number(tmp_path, steps, code):
    if isinstance(steps, list):
        rows = [{"step": step, "group": k // 4, "reward": k % 4} for k, step in enumerate(steps)]
        path = tmp_path / "run.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path = tmp_path / "run.parquet"
        pq.write_table(pa.table({"step": steps, "group": np.arange(32) // 4, "reward": np.arange(32) % 4}), path)
    result = audit(path)
    assert code in notes(result)
    assert result.rollouts.step.min() == 0
    assert "{" not in notes(result)[code]
