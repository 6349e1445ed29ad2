"""What a user or a script hands over by mistake ends in one sentence with status 2, soon, and nothing is written elsewhere."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.read import texts
from rovrl.cli import main

NOBODY = 65534


@pytest.fixture
def table(tmp_path):
    return audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(8, 8, spikes=0.0))


def said(capsys, *words):
    """The sentence with which `rovrl audit` refuses these words."""
    assert main(["audit", *map(str, words)]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert error.count("\n") == 1
    return error


def test_an_empty_path_is_not_the_current_directory(table, monkeypatch, capsys):
    monkeypatch.chdir(table.parent)
    assert "name what to audit" in said(capsys, "", "--no-page")


def test_a_place_that_cannot_be_written_is_known_before_the_dump_is_read(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rovrl.audit.run.load", lambda *_: pytest.fail("it was read"))
    (tmp_path / "folder.csv").mkdir()
    assert "it is a file; name a folder" in said(capsys, table, "--out", table)
    assert "not as flagged.xlsx" in said(capsys, table, "--flagged", tmp_path / "flagged.xlsx")
    assert "not as a folder" in said(capsys, table, "--flagged", tmp_path / "folder.csv")


def test_weights_that_are_no_numbers_or_would_do_nothing_are_refused(table, capsys):
    assert "a finite number, not reward=nan" in said(capsys, table, "--reward-weight", "reward=nan")
    assert "this is a table of rollouts" in said(capsys, table, "--reward-weight", "reward=2")


def test_a_link_among_the_pages_of_several_runs_does_not_lead_the_output_elsewhere(tmp_path, capsys):
    for name in ("a", "b"):
        audit_dumps.verl(tmp_path / "runs" / name, audit_dumps.rewards(8, 8))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "runs" / "audit").mkdir()
    (tmp_path / "runs" / "audit" / "b").symlink_to(elsewhere)
    assert "symbolic link" in said(capsys, tmp_path / "runs")
    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "runs" / "audit" / "a").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("run.jsonl", "", "the file is empty; a table has one row per response"),
        ("run.csv", "step,group,reward\n", "the file holds no rows"),
        (
            "run.json",
            '{\n "rows": [\n  1\n ]\n}',
            "5 lines are not JSON objects and were left out, the first of them line 1",
        ),
        (
            "run.jsonl",
            '{"group": 1, "points": 2}\n',
            "its columns are group, points: name the reward with --reward-column",
        ),
        ("run.parquet", "PAR1 nothing", "is damaged and was left out"),
        ("notes/readme.txt", "no rollouts", "looked for records"),
        ("weights.safetensors", "weights", "expected a .parquet"),
    ],
)
def test_what_holds_no_rollouts_is_told_apart_and_says_what_to_do(tmp_path, capsys, name, content, sentence):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert sentence in said(capsys, path.parent if name.startswith("notes") else path, "--no-page")


def test_a_line_that_is_no_json_is_named_by_its_number_and_the_others_are_read(tmp_path):
    rows = [json.dumps({"group": k // 4, "reward": k % 3}) for k in range(16)]
    (tmp_path / "middle.jsonl").write_text("\n".join([*rows[:7], "", rows[7][:9], *rows[8:]]))
    (tmp_path / "end.jsonl").write_text("\n".join(rows)[:-5])
    for name, where in (
        ("middle.jsonl", "line 9 is not a JSON object"),
        ("end.jsonl", "line 16, the last, is cut off"),
    ):
        result = audit(tmp_path / name)
        assert result.summary.responses == 15
        assert where in next(note.sentence for note in result.notes if note.code == "unreadable_rows")


def test_a_column_that_is_almost_named_is_offered_before_any_list(table, capsys):
    assert said(capsys, table, "--reward-column", "rewrd").endswith("did you mean reward?\n")
    assert said(capsys, table, "--group-column", "grup").endswith("did you mean group?\n")


def test_a_kind_of_dump_that_is_not_there_is_named(table, capsys):
    assert "holds no TRL completions; leave out --format" in said(capsys, table, "--format", "trl")


def test_a_pipe_by_itself_is_refused_as_one(tmp_path, capsys):
    os.mkfifo(tmp_path / "run.jsonl")
    assert "neither a file nor a folder" in said(capsys, tmp_path / "run.jsonl")


@pytest.fixture
def unreadable(monkeypatch):
    """A folder that others may enter, as seen by someone who may not do everything."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    table = audit_dumps.table(folder / "run.parquet", audit_dumps.rewards(8, 8))
    audit(table)  # what is imported later may lie where nobody else reads
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(before)
    shutil.rmtree(folder)


def test_a_file_or_a_folder_that_may_not_be_read_is_named(unreadable, capsys):
    before = os.geteuid()
    if before == NOBODY:
        os.seteuid(0)
    (unreadable / "run.jsonl").write_text('{"group": 1, "reward": 1}\n')
    (unreadable / "locked").mkdir()
    for path in (unreadable / "run.jsonl", unreadable / "locked", unreadable / "run.parquet"):
        path.chmod(0)
    os.seteuid(before)
    for name in ("run.jsonl", "run.parquet"):
        assert f"{name} was left out: permission denied" in said(capsys, unreadable / name, "--no-page")
    assert "cannot be read: Permission denied" in said(capsys, unreadable / "locked", "--no-page")


def packed(path, *parts):
    with gzip.open(path, "wb") as file:
        file.write(b'{"group": 1, "reward": 1}\n{"group": 1, "reward": 2}\n')
        for part in parts:
            file.write(part)
    return path


def test_a_packed_line_without_an_end_is_unpacked_up_to_the_limit_and_once_per_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "LINE_LIMIT", 2**20)
    path = packed(tmp_path / "run.jsonl.gz", *[b"0" * 2**20] * 200)
    start = time.process_time()
    result = audit(path)
    assert time.process_time() - start < 10
    (note,) = [note for note in result.notes if note.code == "too_large"]
    assert note.sentence.endswith("was used up to line 2 and no further: the next line is longer than 1 MB")
    assert result.summary.responses == 2


@pytest.mark.slow
def test_a_packed_file_that_grows_a_thousandfold_is_used_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "LEAST_UNPACKED", 2**20)
    path = packed(tmp_path / "run.jsonl.gz", *[b'{"group": 1, "reward": 1}\n' * 10_000] * 100)
    result = audit(path)
    assert 10_000 < result.summary.responses < 1_000_000
    assert "unpacks to more than" in next(note.sentence for note in result.notes if note.code == "too_large")


def _written_to(output, *words):
    words = [sys.executable, "-m", "rovrl", "audit", *map(str, words)]
    return subprocess.run(words, stdout=output, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


def test_a_reader_who_leaves_does_not_change_the_verdict(tmp_path):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(40, 8, spikes=0.2))
    gone, pipe = os.pipe()
    os.close(gone)  # as head does after its first line
    ended = _written_to(pipe, path, "--no-page")
    os.close(pipe)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_an_output_that_is_full_is_a_sentence(tmp_path):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(40, 8, spikes=0.2))
    with open("/dev/full", "w") as full:
        ended = _written_to(full, path, "--no-page")
    assert (ended.returncode, ended.stderr) == (2, "rovrl: cannot write the output: No space left on device\n")
