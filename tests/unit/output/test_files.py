"""Whole files or none."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from rovrl.errors import RovrlError
from rovrl.output.files import append_lines, read_lines, replacing, write_json, write_lines, write_text


def test_a_written_file_holds_what_was_asked_and_nothing_is_left_beside_it(tmp_path):
    write_text(tmp_path / "a.txt", "ä\n")
    write_json(tmp_path / "b.json", {"x": [1, 2]})
    write_lines(tmp_path / "c.jsonl", [{"x": 1}, {"x": 2}])
    assert (tmp_path / "a.txt").read_bytes() == "ä\n".encode()
    assert json.loads((tmp_path / "b.json").read_text()) == {"x": [1, 2]}
    assert (tmp_path / "c.jsonl").read_text() == '{"x": 1}\n{"x": 2}\n'
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.json", "c.jsonl"]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")
    with suppress(ZeroDivisionError), replacing(path) as file:
        file.write(b"half of the ne")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")
    script = (
        "import os, signal, sys; from pathlib import Path; from rovrl.output.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("write", [lambda p: write_text(p, "x"), lambda p: append_lines(p, [{}])])
def test_a_symbolic_link_is_refused_and_what_it_points_to_is_untouched(tmp_path, write):
    victim = write_text(tmp_path / "victim", "precious")
    link = tmp_path / "out.txt"
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        write(link)
    assert victim.read_text() == "precious"
    assert link.is_symlink()


def test_a_link_planted_at_the_draft_is_not_followed(tmp_path, monkeypatch):
    """Even one that appears between the look and the opening: the opening itself refuses."""
    victim = write_text(tmp_path / "victim", "precious")
    draft = tmp_path / f".out.txt.{os.getpid()}-{threading.get_ident()}.tmp"
    monkeypatch.setattr("pathlib.Path.unlink", lambda self, missing_ok=False: draft.symlink_to(victim))
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "out.txt", "x")
    assert victim.read_text() == "precious"


def test_a_device_and_a_directory_are_refused(tmp_path):
    with pytest.raises(OSError, match="not a file"):
        write_text(tmp_path, "x")
    if os.path.exists("/dev/null"):
        with pytest.raises(OSError, match="not a file"):
            write_text(Path("/dev/null"), "x")


def test_a_last_line_cut_short_is_left_out_and_a_damaged_one_in_the_middle_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert read_lines(path) == []
    append_lines(path, [{"step": 1}])
    append_lines(path, [{"step": 2}, {"step": 3}])
    with path.open("ab") as file:
        file.write('{"text": "ä'.encode()[:-1])
    assert [row["step"] for row in read_lines(path)] == [1, 2, 3]
    path.write_text('{"step": 1}\n{"ste\n{"step": 3}\n')
    with pytest.raises(RovrlError, match=r"rows.jsonl, line 2 is damaged: try again"):
        read_lines(path, "try again")
