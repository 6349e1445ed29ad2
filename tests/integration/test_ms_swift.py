"""ms-swift in an environment of its own, which `.ci/ms-swift` makes once: the contract, and trainings by its own command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rovrl import cli
from rovrl.integrations import environment
from rovrl.integrations.ms_swift import check_ms_swift

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_check_passes_in_an_environment_with_ms_swift():
    made = subprocess.run(
        [ROOT / ".ci/ms-swift"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    inside = ROOT / "tests/engines/ms_swift"
    outcome = subprocess.run(
        [
            f"{made.stdout.strip()}/bin/python",
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"),
            *("-c", os.devnull, "--rootdir", inside, "--confcutdir", inside),
            *(inside / name for name in ("checks.py", "dumps.py")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert outcome.returncode == 0, outcome.stdout[-8000:]


def test_without_ms_swift_the_plugin_command_says_how_to_get_it(capsys):
    assert cli.main(["plugin", "ms-swift"]) == 2
    assert (
        "ms-swift is not installed in this environment: pip install 'ms-swift>=4.6,<4.7' msgspec"
        in capsys.readouterr().err
    )


def test_a_version_that_was_not_tested_is_refused_with_the_fix(monkeypatch):
    monkeypatch.setattr(environment, "version", lambda _: "5.0.1")
    with pytest.raises(Exception, match=r"ms-swift 5.0.1 is installed.*pip install 'ms-swift>=4.6,<4.7'"):
        check_ms_swift()
