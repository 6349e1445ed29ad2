"""A dump is untrusted: links, pipes, bombs, cut files, strange names and full disks end in a sentence, not in harm."""

import base64
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.judge.certificate import _frontier
from rovrl.audit.read import rollouts, tables, texts
from rovrl.audit.read.notes import Notes
from rovrl.audit.show import details
from rovrl.cli import main
from rovrl.errors import RovrlError
from rovrl.guarantees import resolution
from rovrl.output.terminal import visible


def command(*words, **options):
    words = [sys.executable, "-m", "rovrl", "audit", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **options)


def test_links_in_the_dump_do_not_lead_the_output_elsewhere(tmp_path, capsys):
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    run = audit_dumps.verl(tmp_path / "run", audit_dumps.rewards(8, 8))
    (run / "audit").mkdir()
    (run / "audit" / "audit.json").symlink_to(precious)
    assert main(["audit", str(run)]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert precious.read_text() == "precious"
    (run / "audit" / "audit.json").unlink()
    (run / "audit").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (run / "audit").symlink_to(tmp_path / "elsewhere")
    assert main(["audit", str(run)]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_tokenizer_that_is_a_pipe_or_far_too_large_is_never_opened(tmp_path, monkeypatch):
    opened = []
    stub = types.SimpleNamespace(Tokenizer=types.SimpleNamespace(from_file=opened.append))
    monkeypatch.setitem(sys.modules, "tokenizers", stub)
    place = tmp_path / "tokenizer.json"
    os.mkfifo(place)
    assert details.TokenTexts.beside(tmp_path)("ab", 2) == ["a", "b"]
    place.unlink()
    place.write_text("{}")
    monkeypatch.setattr(details, "MOST_BYTES", 1)
    assert details.TokenTexts.beside(tmp_path)("ab", 2) == ["a", "b"]
    assert opened == []
    monkeypatch.setattr(details, "MOST_BYTES", 2)
    details.TokenTexts.beside(tmp_path)
    assert opened == [str(place)]


@pytest.fixture
def impatient():
    """Fails the test after some seconds: opening a pipe that nobody writes into would wait for ever."""

    def stop(*_):
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["3.jsonl", "completions_00003.parquet", "step_00003.parquet", "3.csv"])
def test_a_pipe_or_an_endless_device_among_the_files_is_left_out(tmp_path, name, impatient):
    run = audit_dumps.verl(tmp_path / "run", audit_dumps.rewards(16, 8, spikes=0.0), per_step=8)
    os.mkfifo(run / name)
    (run / f"4{name}").symlink_to("/dev/zero")
    assert main(["audit", str(run), "--no-page", "--format", "verl"]) == 0
    for kind in ("trl", "records", "table", "auto"):
        assert main(["audit", str(run), "--no-page", "--format", kind, "--reward-column", "score"]) in (0, 1, 2)
    assert main(["audit", str(run / name), "--no-page"]) == 2


def test_the_certificate_of_a_large_group_takes_no_time():
    for group in range(1, 200):
        budgets = resolution(group)
        largest = [(q, s) for q, s in budgets if not any(a >= q and b >= s and (a, b) != (q, s) for a, b in budgets)]
        assert sorted(_frontier(group)) == sorted(largest)
    start = time.process_time()
    _frontier(1_000_000)
    assert time.process_time() - start < 2


def test_a_group_column_that_names_everything_one_group_is_audited_in_seconds(tmp_path):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(1, 40_000))
    start = time.process_time()
    result = audit(path)
    assert result.summary.group_sizes == {40_000: 1}
    assert len(result.certificate.sentence) < 1000
    assert time.process_time() - start < 20


def test_of_two_columns_with_one_name_the_first_is_used_and_it_is_said(tmp_path):
    columns = [np.repeat(np.arange(4), 4), np.tile([0.0, 1.0], 8), np.full(16, 7.0)]
    table = pa.Table.from_arrays([pa.array(c) for c in columns], names=["group", "reward", "reward"])
    pq.write_table(table, tmp_path / "run.parquet")
    rows = "\n".join(f"{g},{r},{x}" for g, r, x in zip(*columns, strict=True))
    (tmp_path / "run.csv").write_text("group,reward,reward\n" + rows)
    for name in ("run.parquet", "run.csv"):
        result = audit(tmp_path / name)
        assert result.summary.mean_reward == 0.5
        assert "several columns named reward" in next(n.sentence for n in result.notes if n.code == "double_columns")


def test_a_crash_has_another_status_than_findings(tmp_path, monkeypatch, capsys):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(8, 8))

    def fail(error):
        def findings(*_):
            raise error

        return findings

    for error, words in ((MemoryError(), "not enough memory"), (ZeroDivisionError("x"), "the audit crashed")):
        monkeypatch.setattr("rovrl.audit.run.findings", fail(error))
        assert main(["audit", str(path), "--no-page"]) == 3
        assert words in capsys.readouterr().err


def test_a_file_that_is_cut_short_while_it_is_read_is_damage_and_no_bus_error(tmp_path):
    path = tmp_path / "run.parquet"
    rewards = np.random.default_rng(0).normal(size=600_000)
    table = pa.table({"group": np.arange(600_000) // 16, "reward": rewards})
    pq.write_table(table, path, row_group_size=100_000, compression="none", use_dictionary=False)
    script = """
import sys, os
from pathlib import Path
from rovrl.audit.read import tables
from rovrl.audit.read.notes import Notes
from rovrl.audit.show import details
path, notes, rows = Path(sys.argv[1]), Notes(), 0
for batch in tables.batches(path, ["reward"], notes, 1000):
    rows += len(batch.numbers("reward"))
    if rows == 1000:
        os.truncate(path, 8192)
print(rows, [note.code for note in notes.all()])
"""
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "damaged_file" in done.stdout


def test_a_file_that_claims_more_than_can_be_held_is_refused_with_a_sentence(tmp_path, monkeypatch):
    pq.write_table(pa.table({"group": np.zeros(50_000, int), "reward": np.zeros(50_000)}), tmp_path / "run.parquet")
    monkeypatch.setattr(texts, "LEAST_UNPACKED", 2**10)
    with pytest.raises(RovrlError, match="unpacks to"):
        audit(tmp_path / "run.parquet")


def repeating(path: Path, rows: int, longest: int, **options) -> Path:
    """A file whose prompts are a few long texts, each kept once and repeated by number; its size says nothing of that."""
    texts = pa.array([str(k) * longest for k in range(4)])
    prompt = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) // 4 % 4, pa.int32()), texts)
    columns = {"group": np.arange(rows) // 4, "reward": np.arange(rows) * 0.37 % 1, "prompt": prompt}
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"store_schema": False}], ids=["as numbers", "as text"])
def test_texts_that_are_stored_once_and_repeated_by_every_row_do_not_fill_the_memory(tmp_path, options):
    path = repeating(tmp_path / "run.parquet", rows=40_000, longest=200_000, **options)  # 8 GB of prompts
    assert path.stat().st_size < 2**20
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))  # noqa: E731
    done = command(path, "--no-page", "--group-column", "group", preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    assert "10,000 groups of 4" in done.stdout
    named = command(path, "--no-page", "--group-column", "prompt", preexec_fn=limit)
    assert named.returncode in (0, 2), named.stderr
    assert "Traceback" not in named.stderr


def test_what_texts_unpack_to_is_counted_and_has_a_limit(tmp_path, monkeypatch):
    path = repeating(tmp_path / "run.parquet", rows=4_000, longest=20_000, store_schema=False)  # 80 MB
    monkeypatch.setattr(tables, "MOST_BYTES", 2**24)
    notes = Notes()
    rows = sum(len(batch) for batch in tables.batches(path, ["prompt"], notes, size=64))
    assert 0 < rows < 4_000
    assert "unpacks to more than 0.0156 GB" in notes.all()[0].sentence


def test_names_of_groups_that_no_memory_holds_are_refused_with_a_sentence(tmp_path, monkeypatch):
    path = repeating(tmp_path / "run.parquet", rows=4_000, longest=2_000)
    monkeypatch.setattr(rollouts, "MOST_LABELS", 2**20)
    with pytest.raises(RovrlError, match="names of the groups take more than"):
        audit(path, columns={"group": "prompt"})


def test_lists_or_texts_of_far_more_than_what_is_stored_are_refused(tmp_path, monkeypatch):
    many = pa.ListArray.from_arrays(pa.array([0, 10**6, 2 * 10**6], pa.int32()), pa.array(np.zeros(2 * 10**6)))
    columns = {"group": [1, 1], "reward": [0.0, 1.0], "log_ratios": many, "prompt": ["x" * 10**7, "y" * 10**7]}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet", use_dictionary=["log_ratios"], compression="zstd")
    assert audit(tmp_path).summary.groups == 1
    monkeypatch.setattr(texts, "LEAST_UNPACKED", 2**20)
    for column in ("log_ratios", "prompt"):
        notes = Notes()
        assert list(tables.batches(tmp_path / "run.parquet", [column], notes)) == []
        assert "unpacks to more than 0.00" in notes.all()[0].sentence


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_no_half_written_audit(tmp_path):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(60, 16))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
    done = command(path, "--out", tmp_path / "out", preexec_fn=limit)
    assert done.returncode == 2
    assert "cannot write the audit" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_escape_sequences_of_names_are_not_obeyed_by_the_terminal(tmp_path, capsys):
    odd = tmp_path / "run\x1b]0;owned\x07\u202e.csv"
    odd.write_text("group,re\x1b[31mward\n1,2\n")
    main(["audit", str(odd), "--no-page"])
    main(["audit", str(odd), "--no-page", "--reward-column", "re\x1b[31mward"])
    shown = capsys.readouterr()
    assert "owned" in shown.out + shown.err
    assert not set("\x1b\x07\u202e") & set(shown.out + shown.err)


def test_ordinary_text_is_shown_as_it_is():
    for text in ("plain", "two\nlines\tand a tab", "é ü 中文 → ± 🙂"):
        assert visible(text) == text
    assert visible("a\x1b[2Jb\x9bc\u2028") == "a\\x1b[2Jb\\x9bc\\u2028"


def test_the_page_allows_its_own_script_and_style_and_a_hostile_text_stays_data(tmp_path):
    texts = ["</script><script>alert(1)</script>", "<!-- ]]> {{ data }} {% raw %}", "'; alert(2); '"]
    result = audit(audit_dumps.verl(tmp_path / "run", audit_dumps.rewards(8, 8), texts=texts))
    page = result.write(tmp_path / "out")[0].read_text("ascii")
    parts = {tag: re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", page, re.DOTALL) for tag in ("style", "script")}
    (style,), (data, script) = parts["style"], parts["script"]
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page
    shown = json.loads(data)["groups"][0]["completions"]
    assert set(texts) <= set(shown)
    assert page.count("<script") == 2
