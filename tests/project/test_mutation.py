"""The table of mutants fits the sources, and the run tells a formula that the tests see from one that they do not."""

import random

import pytest

from mutation.__main__ import main
from mutation.mutant import Mutant
from mutation.run import KILLED, ROOT, SOURCE, SURVIVED, Broken, Results, copied
from mutation.table import TABLE

LOSS_TESTS = ("tests/unit/test_loss.py::test_the_default_band_is_gspos",)
CHEAP = {
    Mutant("loss.py", "CLIP_LOW, CLIP_HIGH = 3e-4, 4e-4", "CLIP_LOW, CLIP_HIGH = 4e-4, 3e-4", LOSS_TESTS): KILLED,
    Mutant("loss.py", "4e-4\n", "5e-4\n", LOSS_TESTS): KILLED,
    Mutant("loss.py", "WIDE_CLIP = 0.05", "WIDE_CLIP = 0.06", LOSS_TESTS): SURVIVED,
}


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in TABLE}))
def test_every_fragment_occurs_exactly_once_and_its_tests_exist(file):
    source = (SOURCE / "rovrl" / file).read_text()
    for mutant in (mutant for mutant in TABLE if mutant.file == file):
        compile(mutant.planted(source), file, "exec")
        assert all((ROOT / test.partition("::")[0]).is_file() for test in mutant.tests)


def test_every_mutant_is_another_one_and_every_room_has_some():
    assert len({(mutant.file, mutant.fragment, mutant.replacement) for mutant in TABLE}) == len(TABLE) >= 60
    rooms = ("robust/", "guarantees/", "integrations/trl/", "integrations/verl/", "credit.py", "weight.py", "loss.py")
    assert all(any(mutant.file.startswith(room) for mutant in TABLE) for room in rooms)


def test_a_fragment_that_is_gone_is_refused_by_name():
    with pytest.raises(ValueError, match=r"loss\.py holds 'no such line' 0 times, not once"):
        Mutant("loss.py", "no such line", "", ()).planted("x = 1")


def test_wrong_constants_are_killed_by_a_test_that_knows_them_and_survive_one_that_does_not():
    with copied() as copy:
        assert {mutant: copy.try_out(mutant) for mutant in CHEAP} == CHEAP


def test_tests_that_do_not_run_are_an_error_and_not_a_kill():
    with copied() as copy, pytest.raises(Broken, match="pytest ended with 4"):
        copy.try_out(Mutant("loss.py", "WIDE_CLIP = 0.05", "WIDE_CLIP = 0.06", ("tests/unit/no_such_test.py::test",)))


def test_verdicts_are_remembered_and_a_line_cut_short_is_not(tmp_path):
    first, second = random.Random(0).sample(TABLE, 2)
    results = Results(tmp_path / "results")
    results.add(first, KILLED)
    with results.path.open("a") as file:
        file.write('\n["cut sh')
    again = Results(results.path)
    assert (again[first], again[second]) == (KILLED, None)
    again.add(second, SURVIVED)
    assert Results(results.path)[second] == SURVIVED


def test_an_unknown_option_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--no-such-option"])
    assert "unrecognized arguments" in capsys.readouterr().err
