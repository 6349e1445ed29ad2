"""What leaves the audit: flagged rows, a data frame, a notebook cell; and the audit of a run that goes on."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.live import LiveAudit, fingerprint, follow
from rovrl.cli import main
from rovrl.errors import RovrlError


@pytest.fixture
def run(tmp_path):
    scores = audit_dumps.rewards(24, 8, spikes=0.0)
    scores[3, 2], scores[5, 1] = 500.0, np.nan
    return audit_dumps.verl(tmp_path / "run", scores, texts=["=SUM(A1)", "plain", "-2+3", "@cmd", "ok\n=1"])


def test_flagged_rows_are_those_that_dominate_are_missing_or_change_sign(run, tmp_path):
    result = audit(run)
    rows = result.flagged().to_pylist()
    whys = [row["why"] for row in rows]
    assert sum("dominates" in why for why in whys) == int(result.groups.dominating.sum()) >= 1
    assert sum("no finite" in why for why in whys) == 1
    assert sum("opposite" in why for why in whys) == int(result.groups.flips.sum())
    spike = next(row for row in rows if row["reward"] == 500.0)
    assert (spike["response"], spike["prompt"], spike["completion"]) == (3, "user\nprompt 3", "-2+3")
    assert result.write_flagged(tmp_path / "f.parquet") == tmp_path / "f.parquet"
    assert pq.read_table(tmp_path / "f.parquet").num_rows == len(rows)


def test_every_reward_that_a_finding_counts_is_flagged_and_its_groups_are_named_in_the_document(tmp_path):
    scores = audit_dumps.rewards(96, 16, spikes=0.1)
    result = audit(audit_dumps.verl(tmp_path / "spiked", scores))
    whys = [row["why"] for row in result.flagged().to_pylist()]
    assert "faulty_rewards" in {finding.code for finding in result.findings}
    faults = result.evidence.rejected
    assert sum("shown to be a fault" in why for why in whys) == len(faults.row) > 0
    groups = result.to_dict()["groups"]
    assert {g["id"] for g in groups if "faulty_rewards" in g["codes"]} == set(faults.group.tolist())
    assert sum(len(g["named"].get("shown to be a fault", [])) for g in groups) == len(faults.row)


def test_rewards_outside_the_declared_range_are_flagged(tmp_path):
    scores = np.tile([0.0, 1.0, 0.0, 1.0], (24, 1))
    scores[3] = [0.0, 1.5, 0.0, 1.5]
    result = audit(audit_dumps.verl(tmp_path / "run", scores), expect=["range=0:1"])
    assert result.findings[0].code == "out_of_range"
    rows = [row for row in result.flagged().to_pylist() if "outside the declared range" in row["why"]]
    assert [(row["reward"], row["response"]) for row in rows] == [(1.5, 2), (1.5, 4)]
    assert [g["named"] for g in result.to_dict()["groups"] if "out_of_range" in g["codes"]] == [
        {"outside the declared range": [1, 3]}
    ]


def test_no_cell_of_the_csv_is_a_formula(run, tmp_path):
    assert main(["audit", str(run), "--no-page", "--flagged", str(tmp_path / "f.csv")]) in (0, 1)
    with open(tmp_path / "f.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = {row["completion"] for row in rows}
    assert texts & {"'=SUM(A1)", "'-2+3", "'@cmd"}
    assert not any(
        row[name].startswith(("=", "+", "-", "@")) for row in rows for name in ("prompt", "completion", "group")
    )
    with pytest.raises(RovrlError, match=r"\.csv or \.parquet"):
        audit(run).write_flagged(tmp_path / "f.xlsx")


def test_a_carriage_return_in_a_text_starts_no_cell_of_its_own(tmp_path):
    scores = audit_dumps.rewards(8, 8, spikes=0.0)
    scores[3, 2] = 500.0
    run = audit_dumps.verl(tmp_path / "run", scores, texts=["hello\r=1+1", "a\r\n=2", "\r=3"])
    result = audit(run)
    assert main(["audit", str(run), "--no-page", "--flagged", str(tmp_path / "f.csv")]) in (0, 1)
    bare = re.sub(r'"(?:[^"]|"")*"', "", (tmp_path / "f.csv").read_bytes().decode())  # what stands outside of quotes
    assert "\r" not in bare
    assert bare.count("\n") == 1 + result.flagged().num_rows


def test_the_data_frame_has_every_group_and_the_notebook_cell_escapes(run, tmp_path):
    result = audit(run)
    frame = result.to_pandas()
    assert len(frame) == 24
    assert frame["mean"].to_numpy() == pytest.approx(result.groups.mean)
    odd = audit_dumps.verl(tmp_path / "<script>alert(1)<", audit_dumps.rewards(8, 8))
    assert "<script>" not in audit(odd)._repr_html_()
    assert "&lt;script&gt;" in audit(odd)._repr_html_()


def test_following_audits_again_when_the_run_has_grown_and_stops_at_a_named_finding(tmp_path):
    path, said = tmp_path / "run.jsonl", []
    good, bad = audit_dumps.rewards(16, 8, spikes=0.0), np.ones((60, 8))
    rounds = iter([None, good, None, np.concatenate([good, bad])])

    def sleep(seconds):
        scores = next(rounds)
        if scores is not None:
            audit_dumps.table(path, scores)

    path.write_text("")
    assert follow(LiveAudit(path, tmp_path / "out", ["stuck_grader"]), say=said.append, sleep=sleep) == 1
    assert [line.split(":")[0] for line in said if not line.startswith("  ")] == [
        "nothing to audit yet",
        "step 2",
        "step 10",
        "stopped",
    ]
    assert any(line.startswith("  new: [stuck_grader]") for line in said)
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["summary"]["groups"] == 76


def interrupt(seconds):
    raise KeyboardInterrupt


def test_ctrl_c_ends_following_with_the_status_of_the_last_audit(tmp_path):
    path = audit_dumps.table(tmp_path / "run.jsonl", audit_dumps.rewards(40, 8, spikes=0.2))
    assert follow(LiveAudit(path, None), say=lambda line: None, sleep=interrupt) == audit(path).status == 1


def test_following_does_not_take_its_own_pages_for_news_however_they_are_spelled(tmp_path, monkeypatch):
    run = audit_dumps.verl(tmp_path / "run", audit_dumps.rewards(16, 8))
    monkeypatch.chdir(tmp_path)
    before = fingerprint(run, None)
    audit(run).write(run / "pages")
    for out in (run / "pages", Path("run/pages"), tmp_path / "run" / ".." / "run" / "pages"):
        assert fingerprint(run, out) == fingerprint(Path("run"), out) == before
    audit(run).write(run)
    (run / "pages" / "audit.html").unlink()
    (run / "pages" / "audit.json").unlink()
    assert fingerprint(run, Path("run")) == before  # and the rollouts beside the pages are still seen


def test_what_following_says_cannot_steer_the_terminal(tmp_path, capsys, monkeypatch):
    path = audit_dumps.table(tmp_path / "\x1b[31mrun.jsonl", audit_dumps.rewards(16, 8))
    monkeypatch.setitem(follow.__kwdefaults__, "sleep", interrupt)
    assert main(["audit", str(path), "--follow", "--out", str(tmp_path / "\x1b[2Jout")]) in (0, 1)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\\x1b[2Jout" in printed


def test_following_several_runs_is_refused_and_not_waited_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(follow.__kwdefaults__, "sleep", interrupt)
    for name in ("a", "b", "c"):
        audit_dumps.verl(tmp_path / name, audit_dumps.rewards(8, 8))
    assert main(["audit", str(tmp_path), "--follow"]) == 2
    assert "holds 3 runs (a, b, c), and --follow follows one: name it" in capsys.readouterr().err


def test_following_what_cannot_be_is_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(follow.__kwdefaults__, "sleep", interrupt)
    assert main(["audit", str(tmp_path), "--follow", "--json"]) == 2
    assert "read the audit.json beside its page" in capsys.readouterr().err
    assert main(["audit", str(tmp_path / "none"), "--follow"]) == 2
    assert main(["audit", str(tmp_path), "--follow", "5", "--stop-on", "sleep"]) == 2
    assert "names no finding: sleep" in capsys.readouterr().err
