"""Runs side by side: who is clearly worse, in text, JSON, page and exit status."""

import json

import numpy as np
import pytest

import audit_dumps
from rovrl.audit import compare
from rovrl.cli import main
from rovrl.errors import RovrlError


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs on the same prompts: one, one like it, one with lower rewards and spikes."""
    folder = tmp_path_factory.mktemp("runs")
    generator = np.random.default_rng(0)
    first = audit_dumps.rewards(40, 8, spikes=0.0, seed=5)
    audit_dumps.verl(folder / "a", first)
    audit_dumps.verl(folder / "b", first + generator.normal(0, 0.01, first.shape))
    worse = first - 0.5
    worse[::2, 3] += 40.0
    audit_dumps.verl(folder / "c", worse, texts=audit_dumps.HOSTILE)
    return folder


def test_a_run_that_is_clearly_worse_gives_status_1_and_one_like_the_first_gives_0(runs, tmp_path, capsys):
    assert main(["audit", "--compare", str(runs / "a"), str(runs / "b")]) == 0
    assert "exit status 1" not in capsys.readouterr().out
    assert main(["audit", "--compare", str(runs / "a"), str(runs / "c"), "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "groups with dominating rewards" in printed
    assert "clearly worse than A: exit status 1" in printed
    assert {file.name for file in tmp_path.iterdir()} == {"compare.html", "compare.json"}


def test_every_run_is_compared_with_the_first_and_prompts_that_differ_most_come_first(runs, tmp_path):
    result = compare(runs / "a", runs / "b", runs / "c")
    assert {d.run for d in result.differences} == {1, 2}
    assert {d.run for d in result.differences if d.worse} == {2}
    html, data = result.write(tmp_path)
    document = json.loads(data.read_text())
    assert [run["letter"] for run in document["runs"]] == ["A", "B", "C"]
    apart = [max(abs(mean - pair["means"][0]) for mean in pair["means"]) for pair in document["pairs"]]
    assert apart == sorted(apart, reverse=True)
    assert len(apart) == 40
    first = document["pairs"][0]
    assert [len(side["completions"]) for side in first["runs"]] == [8, 8, 8]
    assert "<script>window.hacked" not in html.read_text()


def test_the_curve_of_a_step_is_the_mean_over_its_groups_with_its_standard_error(runs, tmp_path):
    result = compare(runs / "a", runs / "c")
    document = json.loads(result.write(tmp_path)[1].read_text())
    curve = document["runs"][0]["curves"]
    mine = result.runs[0].groups.mean[result.runs[0].rollouts.step == curve["step"][1]]
    half = 1.959964 * mine.std(ddof=1) / np.sqrt(len(mine))
    assert curve["mean_reward"]["mean"][1] == pytest.approx(mine.mean())
    assert curve["mean_reward"]["high"][1] == pytest.approx(mine.mean() + half)


def test_one_run_alone_is_refused_with_a_sentence(runs, capsys):
    with pytest.raises(RovrlError, match="2 to 26 runs, not 1"):
        compare(runs / "a")
    assert main(["audit", "--compare", str(runs / "a")]) == 2
    assert "compare takes" in capsys.readouterr().err


def test_the_path_before_compare_is_the_first_run(runs, capsys):
    assert main(["audit", str(runs / "a"), "--compare", str(runs / "b"), str(runs / "c"), "--json"]) == 1
    compared = json.loads(capsys.readouterr().out)["runs"]
    assert [run["path"] for run in compared] == [str(runs / name) for name in "abc"]


def test_a_folder_of_runs_is_refused_in_words_of_the_command_line(runs, capsys):
    assert main(["audit", "--compare", str(runs), str(runs / "a")]) == 2
    said = capsys.readouterr().err
    assert "holds 3 runs (a, b, c), and --compare compares single runs: name them" in said
    assert "audit_all" not in said
