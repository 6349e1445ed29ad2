"""The evidence sweep: what is planned, in which order, and what of it counts as finished."""

import argparse
import json
from pathlib import Path

import pytest

from rovrl.output.files import read_lines
from rovrl_paper.lab import embedded_command
from rovrl_paper.lab.evidence import plan as evidence_plan
from rovrl_paper.lab.evidence import sweep
from rovrl_paper.lab.evidence.plan import QUESTIONS
from rovrl_paper.lab.job import Job


def arguments(*words):
    parser = argparse.ArgumentParser()
    embedded_command.add_arguments(parser)
    return parser.parse_args(words)


COMMITTED = Path(__file__).parents[4] / "results" / "embedded" / "runs.jsonl"


def test_the_evidence_runs_first_what_its_claims_rest_on_seed_by_seed():
    planned = list(sweep.planned("evidence"))
    assert len(planned) == len({place for place, _ in planned})
    main = {(t.setting.name, m, s) for t in evidence_plan.MAIN for m in t.methods for s in range(1, t.seeds + 1)}
    first = planned[: len(main)]
    assert {(place.split("/")[0], job.method, job.seed) for place, job in first} == main
    assert [job.seed for _, job in first] == sorted(job.seed for _, job in first)


def test_each_setting_is_one_world():
    names: dict[str, set[Job]] = {}
    for place, job in (*sweep.planned("evidence"), *sweep.planned("smollm2")):
        names.setdefault(place.split("/")[0], set()).add(job.with_(method="gspo", seed=1))
    assert all(len(worlds) == 1 for worlds in names.values())
    assert len({next(iter(worlds)) for worlds in names.values()}) == len(names)


def test_tables_have_figures_of_their_own_and_pairs_that_they_show():
    tables = [table for plan in evidence_plan.SWEEPS.values() for table in plan.tables]
    assert len({table.figure for table in tables}) == len(tables)
    for table in tables:
        assert {method for pair in table.pairs for method in pair} <= set(table.methods), table.title


def test_every_question_asks_for_runs_that_are_planned():
    planned = {(place.split("/")[0], job.method) for place, job in sweep.planned("evidence")}
    for question in QUESTIONS:
        for ours, (theirs, method) in question.answers:
            assert (ours.name, evidence_plan.GUARDED) in planned, question.asked
            assert (theirs.name, method) in planned, question.asked


def test_every_committed_run_is_still_planned_as_it_was_made():
    planned = dict(sweep.planned("evidence"))
    for row in read_lines(COMMITTED):
        job = Job.from_dict(row["job"])
        assert planned[f"{row['setting']}/{job.label}"] == job


@pytest.mark.slow
def test_a_sweep_keeps_the_runs_of_its_jsonl_file_where_their_directories_are_gone(tmp_path, capsys, monkeypatch):
    """As in a fresh clone: nothing that is there is trained again, and no line is lost."""
    asked = []
    monkeypatch.setattr(sweep, "run_all", lambda orders, *_, **__: asked.extend(orders))
    monkeypatch.setattr(sweep, "kept_start", lambda job, out: tmp_path)
    (tmp_path / "runs.jsonl").write_text(COMMITTED.read_text())
    assert sweep.run(arguments("--sweep", "evidence", "--out", str(tmp_path))) == 0
    kept, planned = len(read_lines(COMMITTED)), len(list(sweep.planned("evidence")))
    assert f"{kept} of {planned} runs are finished" in capsys.readouterr().out
    assert len(asked) == planned - kept
    assert sorted((tmp_path / "runs.jsonl").read_text().splitlines()) == sorted(COMMITTED.read_text().splitlines())
    assert (tmp_path / "README.md").read_text() == (COMMITTED.parent / "README.md").read_text()


def test_lines_that_a_sweep_does_not_know_are_put_aside_before_it_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "planned", lambda _: iter(()))
    (tmp_path / "runs.jsonl").write_text('{"x": 1}\n')
    assert sweep.run(arguments("--sweep", "evidence", "--out", str(tmp_path))) == 0
    assert "holds lines of other runs" in capsys.readouterr().out
    assert (tmp_path / "runs.before.jsonl").read_text() == '{"x": 1}\n'


def test_a_line_of_another_job_is_no_finished_run(tmp_path):
    (place, job), *_ = sweep.planned("evidence")
    order = sweep.Order(job, tmp_path / "runs" / place)
    line = {"setting": place.split("/")[0], "job": job.to_dict()}
    (tmp_path / "runs.jsonl").write_text(json.dumps(line) + "\n" + '{"cut off')
    assert list(sweep._kept(tmp_path, [order])) == [order.directory]
    (tmp_path / "runs.jsonl").write_text(json.dumps(line | {"job": job.with_(prompts=8).to_dict()}) + "\n")
    assert not sweep._kept(tmp_path, [order])
    (tmp_path / "runs.jsonl").write_text(json.dumps(line | {"job": job.to_dict() | {"unheard_of": 1}}) + "\n")
    assert not sweep._kept(tmp_path, [order])
