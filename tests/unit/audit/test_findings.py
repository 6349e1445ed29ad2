"""Planted faults are found by their reason codes, clean runs are not accused, and the command says so by its exit status."""

import json
from pathlib import Path

import numpy as np
import pytest

import audit_dumps
from rovrl.audit import audit, compare
from rovrl.audit.judge.checks import unlikely_stretches
from rovrl.audit.judge.findings import CODES
from rovrl.cli import main
from rovrl.errors import RovrlError
from rovrl_paper.fault_matrix import matrix as faults
from rovrl_paper.fault_matrix.matrix import codes, reported
from rovrl_paper.fault_matrix.runs import HONEST, SimulatedRun

HARD = {("spikes of 4 sd, 1 %", "graded"), ("single groups repeated, 5 %", "rule")}
"""Below what can be told: four standard deviations of marks are 1.4; equal 0/1 groups happen by chance."""


def honest_run(world, seed, shape) -> SimulatedRun:
    return SimulatedRun(HONEST[world](np.random.default_rng((seed, 1)), shape))


@pytest.mark.parametrize("world", HONEST)
def test_honest_runs_are_accused_at_most_one_time_in_twenty(world):
    shapes = [(24, 8, 4), (24, 8, 8), (24, 8, 16), (120, 2, 8), (4, 128, 16)]
    found = [codes(honest_run(world, seed, shape)) for shape in shapes for seed in range(4)]
    assert sum(map(bool, found)) <= 1, found


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_planted_fault_is_reported_by_its_code(fault):
    plant, expected = faults.FAULTS[fault]
    for world in ("score", "rule", "graded"):
        if (fault, world) in HARD:
            continue
        run = plant(honest_run(world, 3, (24, 8, 16)), np.random.default_rng((3, 2)))
        assert codes(run) & expected, world


def test_a_run_that_solves_everything_late_is_no_stuck_grader(tmp_path):
    generator = np.random.default_rng(0)
    chance = np.clip(np.linspace(0.2, 1.3, 300), 0, 1)[:, None]
    scores = (generator.random((300, 16)) < chance**0.05).astype(float)
    result = audit(audit_dumps.table(tmp_path / "run.parquet", scores))
    assert unlikely_stretches(result.rollouts, result.groups) == []


def equal_rewards(scores, first, last, value) -> SimulatedRun:
    scores[first:last] = value
    return SimulatedRun(scores.reshape(24, 8, 16))


@pytest.mark.parametrize("early_hits", [0, 1])
def test_equal_rewards_before_the_first_discovery_are_asked_about_and_no_stuck_grader(early_hits):
    scores = (np.random.default_rng(0).random((192, 16)) < 0.5).astype(float)
    scores[:12] = 0.0
    scores[0, :early_hits] = 1.0
    said = reported(equal_rewards(scores, 12, 80, 0.0))
    assert (said.findings, "equal_at_start" in said.notes) == (set(), True)


def test_full_marks_up_to_the_end_are_asked_about_and_any_other_number_is_a_stuck_grader():
    scores = (np.random.default_rng(0).random((192, 16)) < 0.5).astype(float)
    solved = reported(equal_rewards(scores.copy(), 150, 192, 1.0))
    assert (solved.findings, "equal_at_end" in solved.notes) == (set(), True)
    assert "stuck_grader" in reported(equal_rewards(scores, 150, 192, 0.0)).findings


def test_a_number_at_the_start_that_never_comes_again_is_a_stuck_grader():
    scores = np.random.default_rng(0).normal(0, 1, (192, 1)) + np.random.default_rng(1).normal(0, 1, (192, 16))
    assert "stuck_grader" in reported(equal_rewards(scores, 0, 16, 0.0)).findings


def test_a_stuck_grader_is_found_beside_a_start_without_any_discovery():
    scores = (np.random.default_rng(0).random((192, 16)) < 0.5).astype(float)
    scores[100:124] = 0.0
    said = reported(equal_rewards(scores, 0, 60, 0.0))
    assert "stuck_grader" in said.findings
    assert "equal_at_start" in said.notes


def test_wrong_group_ids_show_in_the_prompts(tmp_path):
    scores = audit_dumps.rewards(20, 8, spikes=0.0)
    prompts = [f"prompt {(k + 3) // 8}" for k in range(160)]
    result = audit(audit_dumps.table(tmp_path / "run.parquet", scores, prompt=prompts))
    assert "mixed_prompts" in {finding.code for finding in result.findings}


def test_every_threshold_decides_about_its_finding(tmp_path):
    scores = audit_dumps.rewards(60, 16, spikes=0.05)
    scores[0, 0] = np.nan
    path = audit_dumps.table(tmp_path / "run.parquet", scores)
    strict = audit(path, threshold=dict.fromkeys(("dominating_rewards", "tied_groups", "nonfinite_rewards"), -1.0))
    assert {"dominating_rewards", "tied_groups", "nonfinite_rewards"} <= {f.code for f in strict.findings}
    loose = audit(path, threshold=dict.fromkeys(CODES, 1e9))
    assert loose.findings == []
    assert loose.status == 0
    with pytest.raises(RovrlError, match="no threshold nonsense; the codes are"):
        audit(path, threshold={"nonsense": 1.0})


def test_the_command_ends_with_0_for_healthy_1_for_findings_and_2_for_unusable(tmp_path, capsys):
    healthy = audit_dumps.table(tmp_path / "healthy.parquet", audit_dumps.rewards(60, 16, spikes=0.0))
    spiked = audit_dumps.table(tmp_path / "spiked.parquet", audit_dumps.rewards(60, 16, spikes=0.1))
    assert main(["audit", str(healthy), "--out", str(tmp_path / "a")]) == 0
    assert "Verdict: Healthy" in capsys.readouterr().out
    assert main(["audit", str(spiked), "--out", str(tmp_path / "b")]) == 1
    shown = capsys.readouterr().out
    assert "[contrast_lost]" in shown
    assert str(tmp_path / "b" / "audit.html") in shown
    assert main(["audit", str(tmp_path / "nowhere")]) == 2
    assert main(["audit"]) == 2
    for wrong in (
        ["--threshold", "x"],
        ["--reward", "nonsense=1"],
        ["--clip", "1"],
        ["--group-size", "1"],
        ["--groups", "0"],
    ):
        assert main(["audit", str(healthy), *wrong]) == 2
        assert capsys.readouterr().err.startswith("rovrl: ")


def test_an_output_place_that_cannot_be_written_is_a_sentence(tmp_path, capsys):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(10, 8))
    (tmp_path / "file").write_text("")
    assert main(["audit", str(path), "--out", str(tmp_path / "file" / "deeper")]) == 2
    assert "cannot write the audit" in capsys.readouterr().err


def test_json_on_standard_output_is_strict_and_is_what_the_file_holds(tmp_path, capsys):
    scores = audit_dumps.rewards(30, 16)
    scores[0, 0], scores[1] = np.nan, 3.0
    path = audit_dumps.table(tmp_path / "run.parquet", scores)
    main(["audit", str(path), "--json", "--out", str(tmp_path / "out")])
    printed = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert printed == json.loads((tmp_path / "out" / "audit.json").read_text())
    assert printed == audit(path).to_dict()
    assert {group["id"] for group in printed["groups"]} == set(range(30))
    first = next(group for group in printed["groups"] if group["id"] == 0)
    assert first["rewards"][0] is None
    assert main(["audit", str(path), "--json", "--no-page"]) == 1
    assert len(json.loads(capsys.readouterr().out)["groups"]) == 30


def test_only_the_worst_groups_are_written_and_the_total_is_said(tmp_path):
    result = audit(audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(60, 16, spikes=0.02)))
    document = result.to_dict(groups=7)
    assert (len(document["groups"]), document["groups_total"]) == (7, 60)
    lost = [group["lost"] for group in document["groups"]]
    assert lost == sorted(result.groups.lost, reverse=True)[:7]


def test_texts_beyond_the_budget_are_left_out_and_a_long_one_is_cut(tmp_path, monkeypatch):
    from rovrl.audit.show import details

    monkeypatch.setattr(details, "TEXT_BUDGET", 20_000)
    more = {
        "completion": ["x" * 9_000 + "y" * 1_000 if k == 0 else "short" for k in range(160)],
        "prompt": [f"p{k // 16}" for k in range(160)],
    }
    groups = audit(audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(10, 16), **more)).to_dict()["groups"]
    first = next(group for group in groups if group["id"] == 0)
    assert first["completions"][0] == "x" * 4_000 + " … [4,000 characters were cut here] … " + "x" * 1_000 + "y" * 1_000
    monkeypatch.setattr(details, "TEXT_BUDGET", 100)
    groups = audit(tmp_path / "run.parquet").to_dict()["groups"]
    assert "completions" in groups[0]
    assert all("completions" not in group for group in groups[2:])


def test_two_runs_are_paired_by_their_prompts_and_the_difference_is_found(tmp_path, capsys):
    better = audit_dumps.rewards(40, 8, spikes=0.0, seed=5)
    audit_dumps.verl(tmp_path / "a", better, per_step=8)
    audit_dumps.verl(tmp_path / "b", better + 0.5, per_step=8)
    result = compare(tmp_path / "a", tmp_path / "b")
    reward = next(d for d in result.differences if d.measure == "mean_reward")
    assert (reward.paired, reward.units, result.matched) == (True, 40, 40)
    assert reward.difference == pytest.approx(0.5)
    assert reward.low == pytest.approx(0.5)  # paired: the prompts' own spread is gone
    assert main(["audit", "--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "40 prompts are in both runs" in capsys.readouterr().out
    assert main(["audit", "--json", "--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert json.loads(capsys.readouterr().out)["matched"] == 40


def test_runs_without_common_prompts_are_compared_group_by_group(tmp_path):
    one = audit_dumps.table(tmp_path / "a.parquet", audit_dumps.rewards(40, 8, spikes=0.0))
    two = audit_dumps.table(tmp_path / "b.parquet", audit_dumps.rewards(60, 8, spikes=0.1))
    result = compare(one, two)
    dominated = next(d for d in result.differences if d.measure == "dominated")
    assert not dominated.paired
    assert dominated.low > 0
    assert result.matched == 0


def test_the_intervals_cover_the_truth_about_as_often_as_they_say():
    from rovrl.audit.comparing.comparison import paired

    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        x = generator.normal(0, 1, 50)
        found = paired("mean_reward", x, x + generator.normal(0.3, 0.5, 50))
        hits += found.low <= 0.3 <= found.high
    assert 0.88 <= hits / 200 <= 0.99  # 95 % ± 3 standard errors, less a little for the bootstrap at 50


def test_logged_advantages_are_recognised(tmp_path):
    scores = audit_dumps.rewards(20, 8, spikes=0.0)
    mean, spread = scores.mean(1, keepdims=True), scores.std(1, ddof=1, keepdims=True)
    for name, advantage in (
        ("grpo", (scores - mean) / (spread + 1e-4)),
        ("dr_grpo", scores - mean),
        ("other", scores**3),
    ):
        path = audit_dumps.table(tmp_path / f"{name}.parquet", scores, advantage=advantage.ravel().tolist())
        assert audit(path).summary.trained_with == name


def test_the_documentation_names_every_code_with_its_threshold_and_every_planted_fault():
    docs = Path(__file__).parents[3] / "docs"
    text = (docs / "audit.md").read_text()
    for name, code in CODES.items():
        assert f"| `{name}` | {code.threshold:g} |" in text
    table = (docs / "audit-faults.md").read_text()
    for fault, (_, expected) in faults.FAULTS.items():
        assert f"| {fault} | {' or '.join(f'`{code}`' for code in sorted(expected))} |" in table
    assert all(f"| {world} |" in table for world in HONEST)
