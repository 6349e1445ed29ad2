"""What the groups of a run tolerate is one line of the audit: from its own rewards, certain, and at a bounded cost."""

import json
import time

import numpy as np
import pytest

import audit_dumps
from rovrl import RewardChannel, guarantees
from rovrl.audit import audit
from rovrl.cli import main


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return audit_dumps.table(tmp_path_factory.mktemp("dump") / "run.parquet", audit_dumps.rewards(40, 16))


def test_the_line_says_what_the_certificate_says_about_the_same_groups(dump):
    result = audit(dump)
    groups = [result.rewards(g) for g in range(40)]
    assert result.tolerated == guarantees.tolerance_of_groups(groups) + "."
    assert "1 bad: " in result.tolerated
    assert "3 bad: " in result.tolerated


def test_the_line_stands_in_the_terminal_and_in_the_page_and_a_mere_summary_does_without(dump, tmp_path, capsys):
    main(["audit", str(dump), "--out", str(tmp_path)])
    printed = " ".join(capsys.readouterr().out.split())
    told = json.loads((tmp_path / "audit.json").read_text())["tolerated"]
    assert told in printed
    assert told in (tmp_path / "audit.html").read_text()
    main(["audit", str(dump), "--no-page"])
    assert "Tolerance" not in capsys.readouterr().out
    result = audit(dump)
    assert "Tolerance" not in result.show()
    assert result.tolerated
    assert "Tolerance" in result.show()


def test_a_large_run_is_asked_in_a_sample_that_is_named(tmp_path):
    result = audit(audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(3000, 8)))
    start = time.process_time()
    assert result.tolerated.endswith(" (200 of 3,000 groups, evenly spaced).")
    assert time.process_time() - start < 20  # half a second when written


def test_a_group_of_thousands_is_asked_alone(tmp_path):
    result = audit(audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(3, 20_000, spikes=0.0)))
    assert result.tolerated.endswith(" (1 of 3 groups, evenly spaced).")
    assert "1 bad: 0.01" in result.tolerated


def test_nothing_is_said_where_nothing_can_be(tmp_path):
    pairs = audit(audit_dumps.table(tmp_path / "pairs.parquet", audit_dumps.rewards(20, 2)))
    assert pairs.tolerated is None
    tied = audit(audit_dumps.table(tmp_path / "tied.parquet", np.ones((20, 8))))
    assert tied.tolerated is None
    sixteen = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(20, 16))
    assert audit(sixteen, reward_channel=RewardChannel(faults="reject")).tolerated is None
