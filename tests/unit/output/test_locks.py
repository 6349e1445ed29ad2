"""One writer per directory: the second is told who the first is, and a dead one is not in the way."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from rovrl.errors import RovrlError
from rovrl.evaluate.results import Store
from rovrl.output.locks import DirectoryLock
from rovrl.records import RecordWriter

SETTINGS = {"models": ["m"], "decoding": {}, "data": {}}


@pytest.fixture
def other(tmp_path):
    """Another process that holds the directory."""
    program = f"""
        from pathlib import Path
        from rovrl.output.locks import DirectoryLock
        lock = DirectoryLock(Path({str(tmp_path)!r}), "an experiment")
        print("held", flush=True)
        input()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("open_it", [RecordWriter, lambda path: Store(path, SETTINGS)], ids=["records", "evaluation"])
def test_a_second_writer_is_told_who_the_first_is(tmp_path, other, open_it):
    with pytest.raises(RovrlError, match=rf"is being written by process {other.pid} on .*an experiment, since"):
        open_it(tmp_path)


def test_a_killed_writer_is_no_obstacle(tmp_path, other):
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    RecordWriter(tmp_path).close()


def test_one_process_may_hold_a_directory_twice_and_lets_go_with_the_last(tmp_path):
    first, second = DirectoryLock(tmp_path, "a"), DirectoryLock(tmp_path, "b")
    first.release()
    first.release()
    with pytest.raises(subprocess.CalledProcessError):
        _take(tmp_path)
    second.release()
    _take(tmp_path)


def test_a_forked_copy_that_ends_does_not_take_the_lock_with_it(tmp_path):
    lock = DirectoryLock(tmp_path, "a")
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(subprocess.CalledProcessError):
        _take(tmp_path)


def test_a_lock_that_outlives_its_module_ends_without_a_word(tmp_path):
    program = f"""
        from pathlib import Path
        from rovrl.output import locks
        lock = locks.DirectoryLock(Path({str(tmp_path)!r}), "x")
        for name in ("os", "contextlib", "_holding", "_held"):  # what the end of the interpreter does
            vars(locks)[name] = None
        del lock
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def _take(path):
    program = f"from pathlib import Path; from rovrl.output.locks import DirectoryLock; DirectoryLock(Path({str(path)!r}), 'x')"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=120)
