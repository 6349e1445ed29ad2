"""Records: what is written is what is read, whatever happens in between."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rovrl.errors import RovrlError
from rovrl.records import (
    COLUMNS,
    RecordWriter,
    is_record_set,
    read_batches,
    read_notes,
    read_settings,
    read_steps,
    steps_in,
)


def rows(count=4, **changes):
    columns = {
        "update": [0] * count,
        "group": [f"g{i // 2}" for i in range(count)],
        "response": [i % 2 for i in range(count)],
        "prompt": ["1+1="] * count,
        "completion": [f"answer {i}" for i in range(count)],
        "reward": [float(i) for i in range(count)],
        "advantage": [0.5] * count,
        "reference": [1.0] * count,
        "length": [3] * count,
        "clip_low": [3e-4] * count,
        "clip_high": [4e-4] * count,
        "log_ratios": [[0.5, -0.25, 0.0]] * count,
        "contamination": [""] * count,
        "method": ["rovr-gspo"] * count,
    }
    return columns | changes


def test_what_is_read_is_what_was_written_column_by_column(tmp_path):
    RecordWriter(tmp_path, {"seed": 3, "nested": {"a": [1, None]}}).write_step(7, rows())
    [(step, table)] = list(read_steps(tmp_path))
    assert step == 7
    assert table.column_names == list(COLUMNS)
    assert table.drop_columns(["step"]).to_pydict() == rows()
    assert table["step"].to_pylist() == [7] * 4
    assert read_settings(tmp_path) == {"seed": 3, "nested": {"a": [1, None]}}


def test_tensors_and_arrays_are_written_like_lists_and_float32_log_ratios_are_bit_exact(tmp_path):
    ratios = [torch.tensor([0.1, -1e-7]), torch.tensor([], dtype=torch.float32), None, np.array([3e-4], np.float32)]
    changes = {"reward": torch.tensor([0.0, 1.0, 2.0, 3.0]), "advantage": np.full(4, 0.5), "log_ratios": ratios}
    RecordWriter(tmp_path).write_step(1, rows(**changes))
    [(_, table)] = list(read_steps(tmp_path))
    read = table["log_ratios"].to_pylist()
    assert read == [ratios[0].tolist(), [], None, ratios[3].tolist()]
    assert table["reward"].to_pylist() == [0.0, 1.0, 2.0, 3.0]


def test_a_reward_that_is_nan_is_read_as_null_and_an_infinite_one_stays(tmp_path):
    RecordWriter(tmp_path).write_step(1, rows(reward=[float("nan"), None, float("inf"), 1.0]))
    [(_, table)] = list(read_steps(tmp_path))
    assert table["reward"].to_pylist() == [None, None, float("inf"), 1.0]


def test_notes_of_a_step_come_back_with_it(tmp_path):
    writer = RecordWriter(tmp_path, {"seed": 1})
    writer.write_step(1, rows(), notes={"blocks": [[0, 2], [1, 3]]})
    writer.write_step(2, rows())
    assert list(read_notes(tmp_path)) == [(1, {"blocks": [[0, 2], [1, 3]]}), (2, {})]
    assert read_settings(tmp_path) == {"seed": 1}


def test_optional_columns_have_their_defaults(tmp_path):
    few = {k: v for k, v in rows().items() if k not in ("log_ratios", "contamination", "method", "reference")}
    RecordWriter(tmp_path).write_step(1, few)
    [(_, table)] = list(read_steps(tmp_path))
    assert table["log_ratios"].to_pylist() == [None] * 4
    assert table["contamination"].to_pylist() == table["method"].to_pylist() == [""] * 4


def test_steps_come_in_numerical_order_also_past_a_million_and_from_the_run_directory(tmp_path):
    writer = RecordWriter(tmp_path / "records")
    for step in (1_000_000, 2, 10):
        writer.write_step(step, rows())
    assert [step for step, _ in read_steps(tmp_path, columns=["reward"])] == [2, 10, 1_000_000] == steps_in(tmp_path)


def test_only_the_columns_asked_for_are_read(tmp_path):
    RecordWriter(tmp_path).write_step(1, rows())
    [(_, table)] = list(read_steps(tmp_path, columns=["advantage", "step"]))
    assert sorted(table.column_names) == ["advantage", "step"]
    with pytest.raises(ValueError, match=r"no column rewards.*reward"):
        list(read_steps(tmp_path, columns=["rewards"]))


def test_batches_put_together_are_the_step(tmp_path):
    RecordWriter(tmp_path).write_step(1, rows(2500))
    batches = [batch for _, batch in read_batches(tmp_path, batch_size=700)]
    assert max(batch.num_rows for batch in batches) <= 700
    [(_, table)] = list(read_steps(tmp_path))
    assert pa.Table.from_batches(batches).equals(table)


def test_writing_a_step_again_replaces_it(tmp_path):
    writer = RecordWriter(tmp_path)
    writer.write_step(1, rows())
    writer.write_step(1, rows(2))
    [(_, table)] = list(read_steps(tmp_path))
    assert table.num_rows == 2


@pytest.mark.parametrize("keep", [0, 3, 60, 0.5, 0.99])
def test_a_truncated_file_is_left_out_with_a_sentence_and_the_others_are_read(tmp_path, keep):
    writer = RecordWriter(tmp_path)
    paths = [writer.write_step(step, rows()) for step in (1, 2, 3)]
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    told = []
    assert [step for step, _ in read_steps(tmp_path, report=told.append)] == [1, 3]
    assert len(told) == 1
    assert "step_000002.parquet is damaged and was left out" in told[0]
    with pytest.warns(UserWarning, match="step_000002.parquet is damaged"):
        assert [step for step, _ in read_steps(tmp_path)] == [1, 3]


def test_a_file_damaged_in_its_middle_is_left_out_too(tmp_path):
    writer = RecordWriter(tmp_path)
    path = writer.write_step(1, rows(500, completion=[f"text {i * 7919}" for i in range(500)]))
    writer.write_step(2, rows())
    whole = bytearray(path.read_bytes())
    whole[40:400] = bytes(360)
    path.write_bytes(whole)
    told = []
    assert [step for step, _ in read_steps(tmp_path, report=told.append)] == [2]
    assert "step_000001.parquet is damaged" in told[0]


def test_missing_foreign_and_newer_files_get_a_sentence(tmp_path):
    with pytest.raises(RovrlError, match="does not exist"):
        list(read_steps(tmp_path / "nowhere"))
    with pytest.raises(RovrlError, match="holds no records"):
        list(read_steps(tmp_path))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "step_000001.parquet")
    with pytest.raises(RovrlError, match="not a record of rovrl"):
        list(read_steps(tmp_path))
    path = RecordWriter(tmp_path).write_step(1, rows())
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"rovrl.format": "99", "rovrl.settings": "{}"}), path)
    with pytest.raises(RovrlError, match="record format 99"):
        list(read_steps(tmp_path))


def test_record_sets_are_told_apart_from_other_parquet(tmp_path):
    assert not is_record_set(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    assert not is_record_set(tmp_path / "other.parquet")
    path = RecordWriter(tmp_path / "run" / "records").write_step(1, rows())
    assert is_record_set(path)
    assert is_record_set(tmp_path / "run")


def test_wrong_rows_are_refused_by_name_and_leave_no_file(tmp_path):
    writer = RecordWriter(tmp_path)
    with pytest.raises(ValueError, match=r"unknown columns \['rewards'\]"):
        writer.write_step(1, rows(rewards=[1.0] * 4))
    with pytest.raises(ValueError, match="different lengths"):
        writer.write_step(1, rows(reward=[1.0]))
    with pytest.raises(ValueError, match="column advantage has 4 missing"):
        writer.write_step(1, rows(advantage=[None] * 4))
    with pytest.raises(ValueError, match="step 1"):
        writer.write_step(1, rows(length=["long"] * 4))
    with pytest.raises(ValueError, match="one list of numbers per row"):
        writer.write_step(1, rows(log_ratios=[0.5] * 4))
    assert not list(tmp_path.glob("*step*"))


def test_an_unwritable_directory_gets_a_sentence(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(RovrlError, match="cannot write the record"):
        RecordWriter(tmp_path / "file" / "records")


@pytest.mark.slow
def test_a_full_disk_gets_a_sentence_and_leaves_the_earlier_steps(tmp_path):
    """The disk is full by a real limit of the operating system on the size of a file."""
    program = f"""
import resource, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_records import rows
from rovrl.records import RecordWriter
from rovrl.errors import RovrlError
writer = RecordWriter({str(tmp_path)!r})
writer.write_step(1, rows())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    writer.write_step(2, rows(4000))
except RovrlError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "cannot write the record" in done.stdout, done.stderr
    assert [step for step, _ in read_steps(tmp_path)] == [1]
    assert [path.name for path in tmp_path.iterdir() if "step" in path.name] == ["step_000001.parquet"]


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_every_finished_step_readable(tmp_path):
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_records import rows
from rovrl.records import RecordWriter
writer, step = RecordWriter({str(tmp_path)!r}), 0
while True:
    step += 1
    writer.write_step(step, rows(1000))
    print(step, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        finished = 0
        for line in process.stdout:
            finished = int(line)
            if finished == 5:
                time.sleep(0.013)  # somewhere inside a later step
                process.send_signal(signal.SIGKILL)
    told = []
    sizes = {step: table.num_rows for step, table in read_steps(tmp_path, report=told.append)}
    assert told == []
    assert set(range(1, finished + 1)) <= set(sizes)
    assert set(sizes.values()) == {1000}
    RecordWriter(tmp_path)  # the next run removes what was half written
    assert not list(tmp_path.glob(".*.tmp"))


def test_reading_never_holds_more_than_one_step(tmp_path):
    """Peak Arrow memory over 20 steps stays within that of 3 steps: the reader streams."""
    writer = RecordWriter(tmp_path)
    for step in range(1, 21):
        writer.write_step(step, rows(500, log_ratios=[[float(step)] * 100] * 500))
    [size] = {table.nbytes for _, table in read_steps(tmp_path)}
    before = pa.total_allocated_bytes()
    held = []
    for _, table in read_steps(tmp_path):
        del table
        held.append(pa.total_allocated_bytes() - before)
    assert max(held) < 3 * size


def damaged_in_the_middle(path):
    """Three row groups; the bytes of the second are overwritten, the end of the file is whole."""
    count = 3 * 1024
    written = RecordWriter(path).write_step(1, rows(count, completion=[f"{i * 7919 % 1000003}" for i in range(count)]))
    with pq.ParquetFile(written) as file:
        column = file.metadata.row_group(1).column(COLUMNS.index("completion"))
        start = min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    content = bytearray(written.read_bytes())
    content[start + 40 : start + 400] = b"\xff" * 360
    written.write_bytes(bytes(content))


def test_batches_of_a_step_that_is_damaged_in_the_middle_end_there_and_the_next_step_is_read(tmp_path):
    damaged_in_the_middle(tmp_path)
    RecordWriter(tmp_path).write_step(2, rows())
    told = []
    found = [(step, len(batch)) for step, batch in read_batches(tmp_path, batch_size=1024, report=told.append)]
    assert found[-1] == (2, 4)
    assert sum(count for step, count in found if step == 1) < 3 * 1024
    assert len(told) == 1
    assert "step_000001.parquet is damaged and was left out" in told[0]


def test_a_lone_surrogate_in_a_completion_does_not_stop_the_writer(tmp_path):
    RecordWriter(tmp_path).write_step(1, rows(completion=["fine", "\ud83d", "naïve \udfff end", "\U0001f600"]))
    [(_, table)] = list(read_steps(tmp_path))
    assert table["completion"].to_pylist() == ["fine", "?", "naïve ? end", "\U0001f600"]
