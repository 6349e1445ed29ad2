"""A sweep that goes on elsewhere starts from the weights its first runs started from."""

import json
from pathlib import Path

import pytest

from rovrl.output.files import read_lines
from rovrl_paper.lab.evidence import sweep
from rovrl_paper.lab.evidence.report import tables
from rovrl_paper.lab.evidence.sweep import kept_start
from rovrl_paper.lab.job import Job
from rovrl_paper.lab.models.cache import cached


def weights(text):
    return lambda draft: (draft / "model.safetensors").write_text(text)


def test_the_first_start_is_kept_and_used_where_another_would_be_made(tmp_path, monkeypatch):
    out = tmp_path / "out"
    for made in ("first", "second", "third"):
        monkeypatch.setenv("ROVRL_CACHE", str(tmp_path / made))
        monkeypatch.setattr(sweep, "starting_model", lambda job, made=made: cached("warm-up-1", weights(made)))
        if made == "third":
            cached("warm-up-1", weights(made))  # this machine has made its own before
        found = kept_start(Job(), out)
        assert (found / "model.safetensors").read_text() == "first"
        assert found == out / "starts" / "warm-up-1"


def test_a_damaged_start_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("ROVRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sweep, "starting_model", lambda job: cached("warm-up-1", weights("own")))
    kept_start(Job(), tmp_path)
    (tmp_path / "starts" / "warm-up-1" / "model.safetensors").write_text("damaged")
    assert (kept_start(Job(), tmp_path) / "model.safetensors").read_text() == "own"


@pytest.mark.slow
def test_runs_from_other_weights_are_not_put_into_one_table():
    rows = read_lines(Path(__file__).parents[4] / "results" / "embedded" / "runs.jsonl")
    stranger = next(row for row in rows if row["setting"] == "spiked" and row["job"]["method"] == "gspo")
    stranger = json.loads(json.dumps(stranger))
    stranger["evaluations"][0]["right"] = "00" * 63
    stranger["job"]["method"] = "rovr-adv"
    others = [row for row in rows if row["job"]["method"] != "rovr-adv"]
    assert tables("evidence", [*others, stranger]).splitlines()[4:] == tables("evidence", others).splitlines()[4:]
