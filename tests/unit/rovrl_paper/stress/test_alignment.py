"""`rovrl stress alignment`: worlds with known truth, and the numbers that docs/faults.md shows."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rovrl.cli import main
from rovrl_paper.stress.alignment import CONTENDERS, alignment, measure
from rovrl_paper.worlds import SIMULATED, Knobs, draw

PAGE = Path(__file__).parents[4] / "docs" / "faults.md"


def test_the_truth_is_aligned_with_itself_and_its_opposite_is_not():
    truth = draw("clean", 1)
    verdicts = torch.from_numpy(truth.verdicts)
    centred = verdicts - verdicts.mean(-1, keepdim=True)
    assert alignment(centred, truth.verdicts) == pytest.approx(1)
    assert alignment(-centred, truth.verdicts) == pytest.approx(-1)
    assert alignment(torch.zeros_like(verdicts), truth.verdicts) == 0


@pytest.mark.parametrize("name", SIMULATED)
def test_a_world_is_the_same_for_the_same_seed_and_labels_every_fault(name):
    knobs = Knobs(prompts=64, rate=0.2)
    one, again, other = draw(name, 3, knobs), draw(name, 3, knobs), draw(name, 4, knobs)
    np.testing.assert_array_equal(one.rewards, again.rewards)
    assert (one.rewards != other.rewards).any()
    assert one.rewards.shape == one.verdicts.shape == one.faults.shape == (64, 16)
    if name == "tail":  # what it costs is what it is worth
        np.testing.assert_array_equal(one.verdicts, one.rewards)
        return
    parts = {"quarters": 4, "judged": 4, "verdicts10": 10, "verdicts100": 100}.get(name, 1)
    assert set(np.unique(one.verdicts)) <= {k / parts for k in range(parts + 1)}
    assert {one.verdicts.min(), one.verdicts.max()} == {0.0, 1.0}


@pytest.mark.parametrize(("name", "rate"), [("spikes5", 0.05), ("spikes30", 0.3), ("spikes", 0.15), ("varied", 0.15)])
def test_faults_are_as_frequent_and_as_large_as_told(name, rate):
    truth = draw(name, 1, Knobs(prompts=2000, rate=0.15))
    assert truth.faults.mean() == pytest.approx(rate, abs=0.01)
    honest = np.where(truth.faults, np.nan, truth.rewards)
    distance = np.abs(truth.rewards - np.nanmedian(honest, -1, keepdims=True))[truth.faults]
    low, high = (1.5, 190) if name == "varied" else (18, 19.5)
    assert low < distance.min() < distance.max() < high


def test_a_crash_inside_the_range_is_labelled_and_shows_nothing():
    (row,) = measure(["inside"], ["adaptive", "guarded"], 1, Knobs(prompts=64))
    truth = draw("inside", 1, Knobs(prompts=64))
    assert (truth.rewards[truth.faults] == 0).all()
    assert row.faults_rejected == row.honest_rejected == 0
    assert row.alignment["guarded"].value >= row.alignment["adaptive"].value  # nor do they widen the bound


@pytest.mark.slow
def test_the_table_of_the_page_is_what_the_command_prints():
    rows = measure(["spikes10", "units", "verdicts100", "crash", "quarters", "luck"], list(CONTENDERS), 5, Knobs())
    page = PAGE.read_text()
    for row in rows:
        line = next(line for line in page.splitlines() if line.startswith(f"| {SIMULATED[row.world].title} |"))
        shown = [float(cell.strip(" *")) for cell in line.split("|")[2 : 2 + len(CONTENDERS)]]
        assert shown == [round(row.alignment[name].value, 2) for name in CONTENDERS]


def test_the_command_prints_a_table_json_and_a_picture(tmp_path, capsys):
    options = [
        "stress",
        "alignment",
        "--world",
        "clean,spikes",
        "--methods",
        "grpo,guarded",
        "--seeds",
        "2",
        "--prompts",
        "64",
    ]
    assert main([*options, "--rate", "0.2", "--png", str(tmp_path / "a.png")]) == 0
    assert "| spikes at --rate |" in capsys.readouterr().out
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert main([*options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["world"] for row in rows] == ["clean", "spikes"]
    assert rows[0]["faults_rejected"] is None


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--world", "mars"], "choose from clean"),
        (["--methods", ""], "choose from grpo"),
        (["--rate", "2"], "between 0 and 1"),
        (["--group", "1"], "--group"),
        (["--noise", "nan"], "finite"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_wrong_options_are_sentences(options, word, capsys):
    assert main(["stress", "alignment", *options]) == 2
    assert word in capsys.readouterr().err
