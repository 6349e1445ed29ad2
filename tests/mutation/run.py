"""Plants one mutant at a time in a copy of the sources, and runs the tests that should see it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from mutation.mutant import Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LONGEST = 120
"""Seconds of CPU; a mutant whose tests take longer is killed: a loop that never ends is seen too."""
KILLED, SURVIVED = "killed", "survived"
WORKERS = get_context("forkserver")
PRELOADED = ["conftest", "torch._dynamo", "numba", "scipy.stats", "scipy.integrate", "mpmath"]
ENGINES = ["trl.trainer.grpo_trainer", "ray", "tensordict", "hydra"]
"""Each mutant has a process of its own, which does not import these again: that would take longer than most tests.

verl itself is not among them: it imports its plugins, and rovrl is one.
"""

FAILED, NOT_RUN = 1, 9
"""Exit codes: pytest's where a test failed, and that of a process in which pytest did not come to its end."""
OUT_OF_TIME = -signal.SIGXCPU


class Broken(Exception):
    """The tests did not run, or fail on the sources as they are."""


class Verdict(NamedTuple):
    """Whether a mutant was seen, and by which test."""

    word: str
    by: str = ""


class Copy:
    """A copy of src/, and tests that import rovrl from it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        shutil.copytree(SOURCE, home / "src")  # compiled kernels come along, with the times that make them valid

    def try_out(self, mutant: Mutant) -> Verdict:
        """What the tests say of it; afterwards the copy is as it was."""
        with self._with(mutant):
            code, output = self._pytest(mutant.tests, LONGEST)
        if code == OUT_OF_TIME:
            return Verdict(KILLED, f"no end within {LONGEST} s")
        if code == FAILED:
            return Verdict(KILLED, _first_failure(output))
        if code:
            raise Broken(f"pytest ended with {code} on {mutant.name}\n{output[-2000:]}")
        return Verdict(SURVIVED)

    def check(self, mutants: Sequence[Mutant]) -> None:
        """Refuses to go on if the tests fail without any mutant."""
        code, output = self._pytest(
            sorted({test for mutant in mutants for test in mutant.tests}), resource.RLIM_INFINITY
        )
        if code:
            raise Broken(f"the tests fail without a mutant, so that nothing can be said\n{output[-2000:]}")

    @contextmanager
    def _with(self, mutant: Mutant) -> Iterator[None]:
        """The mutant planted; then the file and what was compiled beside it as they were, with the times that kernels go by."""
        path = mutant.path(self.home / "src")
        kept = [path, *path.parent.glob("__pycache__/*.nb?")]
        before = [(file, file.read_bytes(), file.stat()) for file in kept]
        path.write_text(mutant.planted(path.read_text()))
        try:
            yield
        finally:
            for file, content, stat in before:
                file.write_bytes(content)
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def _pytest(self, tests: Sequence[str], seconds: int) -> tuple[int, str]:
        marked = [] if all("::" in test for test in tests) else ["-m", "not slow"]
        log = self.home / "log"
        process = WORKERS.Process(target=_tests, args=(self.home, log, [*marked, *tests], seconds))
        process.start()
        process.join()
        return process.exitcode or 0, log.read_text()


def _first_failure(output: str) -> str:
    """The name of the test that failed, from pytest's short summary."""
    lines = (line.split() for line in output.splitlines())
    return next((words[1] for words in lines if len(words) > 1 and words[0] in ("FAILED", "ERROR")), "")


def _tests(home: Path, log: Path, arguments: list[str], seconds: int) -> None:
    """Runs pytest on the copy in `home`, in a process of its own, and ends with its exit code."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(home / "src")
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(home / "hypothesis")  # what kills one is not tried on the next
    sys.path.insert(0, str(home / "src"))
    code = NOT_RUN
    try:
        import pytest

        quiet = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")  # it is preloaded
        code = int(pytest.main(["-x", "-q", *quiet, *arguments]))
        if not str(sys.modules["rovrl"].__file__).startswith(str(home)):
            code = NOT_RUN  # another rovrl was tested
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def copied(engines: bool = False) -> Iterator[Copy]:
    """A copy in a temporary directory; `engines` if TRL's and verl's tests are to run often."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}  # before anything is preloaded
    WORKERS.set_forkserver_preload([*PRELOADED, *(ENGINES if engines else [])])
    with tempfile.TemporaryDirectory() as home:
        yield Copy(Path(home))
