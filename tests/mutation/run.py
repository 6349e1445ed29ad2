"""Plants one mutant at a time in a copy of the sources, and runs the tests that should see it."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mutation.mutant import Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LONGEST = 600.0
"""Seconds; a mutant whose tests take longer is killed: a loop that never ends is seen too."""
KILLED, SURVIVED = "killed", "survived"
VERDICTS = {0: SURVIVED, 1: KILLED}
"""pytest's exit code -> verdict. Any other means that the tests did not run, which says nothing about a mutant."""
WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["torch", "numba", "scipy.stats"])
"""Each mutant has a process of its own, which does not import these again: that would take longer than most tests."""

NOT_RUN = 9
"""Ends a process in which pytest did not come to its end."""


class Broken(Exception):
    """The tests did not run, or fail on the sources as they are."""


class Copy:
    """A copy of src/, and tests that import rovrl from it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        shutil.copytree(SOURCE, home / "src")  # compiled kernels come along, with the times that make them valid

    def try_out(self, mutant: Mutant) -> str:
        """ "killed" or "survived"; afterwards the copy is as it was."""
        path = self.home / "src" / "rovrl" / mutant.file
        source = path.read_text()
        path.write_text(mutant.planted(source))
        try:
            code, output = self._pytest(mutant.tests)
        finally:
            path.write_text(source)
        if code not in VERDICTS:
            raise Broken(f"pytest ended with {code} on {mutant.name}\n{output[-2000:]}")
        return VERDICTS[code]

    def check(self, mutants: Sequence[Mutant]) -> None:
        """Refuses to go on if the tests fail without any mutant."""
        code, output = self._pytest(sorted({test for mutant in mutants for test in mutant.tests}))
        if code:
            raise Broken(f"the tests fail without a mutant, so that nothing can be said\n{output[-2000:]}")

    def _pytest(self, tests: Sequence[str]) -> tuple[int, str]:
        marked = [] if all("::" in test for test in tests) else ["-m", "not slow"]
        log = self.home / "log"
        process = WORKERS.Process(target=_tests, args=(self.home, log, [*marked, *tests]))
        process.start()
        process.join(LONGEST)
        if process.is_alive():
            process.kill()
            process.join()
            return 1, f"more than {LONGEST:g} s"
        return process.exitcode or 0, log.read_text()


def _tests(home: Path, log: Path, arguments: list[str]) -> None:
    """Runs pytest on the copy in `home`, in a process of its own, and ends with its exit code."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(home / "src")
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(home / "hypothesis")  # what kills one is not tried on the next
    sys.path.insert(0, str(home / "src"))
    code = NOT_RUN
    try:
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *arguments]))
        if not str(sys.modules["rovrl"].__file__).startswith(str(home)):
            code = NOT_RUN  # another rovrl was tested
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def copied() -> Iterator[Copy]:
    """A copy in a temporary directory."""
    with tempfile.TemporaryDirectory() as home:
        yield Copy(Path(home))


class Results:
    """Verdicts by mutant, kept in a file as they come; those about other sources or other tests do not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._known: dict[str, str] = dict(json.loads(line) for line in lines if line.endswith("]"))
        self._source = _digest(sorted((SOURCE / "rovrl").rglob("*.py")))

    def __getitem__(self, mutant: Mutant) -> str | None:
        return self._known.get(self._key(mutant))

    def add(self, mutant: Mutant, verdict: str) -> None:
        """Remembers a verdict, also if the run is interrupted afterwards."""
        self._known[self._key(mutant)] = verdict
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write("\n" + json.dumps([self._key(mutant), verdict]))  # a line that was cut short ends here

    def _key(self, mutant: Mutant) -> str:
        tests = _digest([ROOT / test.partition("::")[0] for test in mutant.tests])
        return hashlib.sha256(repr((mutant, self._source, tests)).encode()).hexdigest()


def _digest(paths: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
