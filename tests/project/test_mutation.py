"""The table of mutants fits the sources, and the run tells a formula that the tests see from one that they do not."""

import random

import pytest

from mutation.__main__ import main
from mutation.mutant import Mutant
from mutation.results import Results, page, summary, unexplained
from mutation.run import KILLED, ROOT, SOURCE, SURVIVED, Broken, Verdict, copied
from mutation.table import TABLE

LOSS_TESTS = ("tests/unit/test_loss.py::test_the_default_band_is_gspos",)
CHEAP = {
    Mutant("config.py", "CLIP_LOW, CLIP_HIGH = 3e-4, 4e-4", "CLIP_LOW, CLIP_HIGH = 4e-4, 3e-4", LOSS_TESTS): KILLED,
    Mutant("config.py", "4e-4\n", "5e-4\n", LOSS_TESTS): KILLED,
    Mutant("loss.py", "WIDE_CLIP = 0.05", "WIDE_CLIP = 0.06", LOSS_TESTS): SURVIVED,
}


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in TABLE}))
def test_every_fragment_occurs_exactly_once_and_its_tests_exist(file):
    for mutant in (mutant for mutant in TABLE if mutant.file == file):
        compile(mutant.planted(mutant.path(SOURCE).read_text()), file, "exec")
        assert all((ROOT / test.partition("::")[0]).is_file() for test in mutant.tests)


def test_every_mutant_is_another_one_and_every_room_has_some():
    assert len({(mutant.file, mutant.fragment, mutant.replacement) for mutant in TABLE}) == len(TABLE) >= 60
    rooms = ("robust/", "guarantees/", "integrations/trl/", "integrations/verl/", "credit.py", "weight.py", "loss.py")
    assert all(any(mutant.file.startswith(room) for mutant in TABLE) for room in rooms)


def test_a_fragment_that_is_gone_is_refused_by_name():
    with pytest.raises(ValueError, match=r"loss\.py holds 'no such line' 0 times, not once"):
        Mutant("loss.py", "no such line", "", ()).planted("x = 1")


@pytest.fixture(scope="module")
def copy():
    with copied() as copy:
        yield copy


@pytest.mark.slow
def test_wrong_constants_are_killed_by_a_test_that_knows_them_and_survive_one_that_does_not(copy):
    assert {mutant: copy.try_out(mutant).word for mutant in CHEAP} == CHEAP


@pytest.mark.slow
def test_tests_that_do_not_run_are_an_error_and_not_a_kill(copy):
    with pytest.raises(Broken, match="pytest ended with 4"):
        copy.try_out(Mutant("loss.py", "WIDE_CLIP = 0.05", "WIDE_CLIP = 0.06", ("tests/unit/no_such_test.py::test",)))


def test_verdicts_are_remembered_and_a_line_cut_short_is_not(tmp_path):
    first, second = random.Random(0).sample(TABLE, 2)
    results = Results(tmp_path / "results")
    results.add(first, Verdict(KILLED, "a test"))
    with results.path.open("a") as file:
        file.write('\n["cut sh')
    again = Results(results.path)
    assert (again[first], again[second]) == (Verdict(KILLED, "a test"), None)
    again.add(second, Verdict(SURVIVED))
    assert Results(results.path)[second] == Verdict(SURVIVED)


def test_the_page_tells_the_killed_the_survivors_with_their_reason_and_those_not_run(tmp_path):
    tests = ("tests/unit/test_loss.py",)
    killed, explained, left = (
        Mutant("loss.py", word, "", tests, why) for word, why in (("a", ""), ("b", "It is b."), ("c", ""))
    )
    results = Results(tmp_path / "results")
    results.add(killed, Verdict(KILLED, "tests/unit/test_loss.py::test_it[1]"))
    results.add(explained, Verdict(SURVIVED))
    chosen = [killed, explained, left]
    assert unexplained(chosen, results) == []
    assert "| loss.py | 1 | 1 | 1 |" in summary(chosen, results)
    assert "1 of 2 killed (50.0%), 1 not run." in summary(chosen, results)
    told = page("# Title\n\n## Result\n\nold", chosen, results)
    assert "old" not in told
    assert told.startswith("# Title\n\n## Result\n\n| where")
    assert "Survived: `loss.py: b ->`. It is b." in told
    assert "| loss.py | `a` | (nothing) | killed | test_loss.py test_it |" in told
    assert "| loss.py | `c` | (nothing) | not run |  |" in told
    results.add(left, Verdict(SURVIVED))
    assert unexplained(chosen, results) == [left]
    assert "Survived: `loss.py: c ->`. Not explained." in summary(chosen, results)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-such-option"], "unrecognized arguments"),
        (["--write", "--sample", "3"], "--write is about the whole table"),
    ],
)
def test_an_option_that_cannot_be_met_is_refused(options, said, capsys):
    with pytest.raises(SystemExit):
        main(options)
    assert said in capsys.readouterr().err
