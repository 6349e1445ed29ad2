"""`rovrl paper` and what it stores: sentences for wrong words, tables for papers, nothing lost on the way."""

import json
import shutil
from pathlib import Path

import pytest

from rovrl.cli import main
from rovrl_paper.lab.accuracy import pack
from rovrl_paper.paper.checking import reproduce_page, result, verdict
from rovrl_paper.paper.experiments.placement import PAPER, _rows, checks, findings, tables
from rovrl_paper.paper.item import Check, Table, expected, relative, within
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import experiment, latex, load, make, markdown, write_rows


def said(capsys, *words: str) -> str:
    assert main(["paper", *words]) == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The cheapest experiment in its smoke setting."""
    out = tmp_path_factory.mktemp("made")
    make("sim_sweeps", out, True, lambda done, total: None)
    return out


@pytest.fixture
def smoke(made, tmp_path):
    """A copy of it to spoil."""
    return shutil.copytree(made, tmp_path / "copy")


def test_wrong_words_are_answered_with_a_sentence(tmp_path, capsys):
    assert "not a table or figure of the paper" in said(capsys, "run", "nonsense")
    assert "not a table or figure of the paper" in said(capsys, "check", "tab:nonsense")
    assert "which one?" in said(capsys, "run")
    assert "which one?" in said(capsys, "draw")
    assert "needs GPUs" in said(capsys, "run", "tab:math_main")
    assert "make them first: rovrl paper run" in said(capsys, "draw", "tab:sim_rmse", "--out", str(tmp_path))


def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(experiment("sim_sweeps"), "run", lambda *_: pytest.fail("the work was begun"))
    assert "cannot write the results" in said(capsys, "run", "sim_sweeps", "--out", str(tmp_path / "file"))


def test_a_smoke_run_leaves_the_full_results_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "run", "sim_outer_factor", "--smoke"]) == 0
    assert not (tmp_path / "results" / "paper").exists()
    assert (tmp_path / "results" / "paper-smoke" / "sim_outer_factor" / "rows.csv").exists()
    capsys.readouterr()
    assert main(["paper", "check", "tab:sim_outer_factor", "--smoke", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["results"][0]["status"] == "smoke setting"


def test_list_shows_every_label_and_what_it_needs(capsys):
    assert main(["paper", "list"]) == 0
    text = capsys.readouterr().out
    assert all(label in text for label in ITEMS)
    assert text.count("needs GPUs") == sum(item.experiment is None for item in ITEMS.values()) == 4
    assert main(["paper", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["label"] for entry in listed] == list(ITEMS)
    assert all(entry["available"] or entry["recipe"] for entry in listed)


def test_every_table_and_figure_of_the_paper_is_listed():
    """The labels of the paper's tables and figures of results; the schema fig:frame and the method tables are not results."""
    wanted = {
        "tab:math_main", "tab:govreport_rouge", "fig:govreport_curves", "tab:placement_ablation", "fig:placement_ablation",
        "fig:softrovr_spike_burst", "tab:softrovr_local_stress", "fig:reward_contamination", "tab:reward_contamination",
        "fig:softrovr_negative_stress", "fig:softrovr_cross_step", "tab:sim_outer_factor", "fig:sim_outer_factor",
        "fig:sim_variance", "tab:sim_variance", "tab:sim_rmse", "fig:sim_contamination_rmse", "fig:sim_dispersed_sweep",
        "fig:sim_block_sweep",
    }  # fmt: skip
    assert wanted <= set(ITEMS)


def test_rows_come_back_as_they_were_written(smoke):
    rows, meta = load("sim_sweeps", smoke)
    again = experiment("sim_sweeps").run(experiment("sim_sweeps").SMOKE, lambda done, total: None)
    assert rows == again
    assert meta["setting"]["seed"] == 0


def test_draw_makes_the_files_anew_from_the_rows_alone(smoke, capsys):
    folder = smoke / "sim_sweeps"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        if path.suffix in (".svg", ".png", ".md", ".tex"):
            path.unlink()
    assert main(["paper", "draw", "fig:sim_block_sweep", "--out", str(smoke)]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_results_of_another_version_or_damaged_ones_are_not_checked(smoke, capsys):
    item = ITEMS["fig:sim_block_sweep"]
    assert result(item, smoke)["status"] == "smoke setting"
    write_rows(smoke / "sim_sweeps" / "rows.csv", [{"other": 1}])
    found = result(item, smoke)
    assert found["agrees"] is None
    assert "not those of this version" in found["status"]
    (smoke / "sim_sweeps" / "meta.json").write_text("{")
    assert "cannot be read" in result(item, smoke)["status"]


def test_check_has_status_one_for_a_disagreement_and_marks_it(smoke, capsys):
    rows, _ = load("sim_sweeps", smoke)
    write_rows(smoke / "sim_sweeps" / "rows.csv", [r | {"rmse": 3 * r["rmse"]} for r in rows])
    assert main(["paper", "check", "fig:sim_block_sweep", "--out", str(smoke)]) == 1
    assert "fig:sim_block_sweep: DISAGREES" in (text := capsys.readouterr().out)
    assert "\n! shift 8, rovr" in text
    assert main(["paper", "check", "tab:math_main", "--out", str(smoke)]) == 0


def test_tolerances_are_closed_intervals():
    assert within("c", 1.5, 1.0, 0.5, "why").agrees
    assert not within("c", 1.51, 1.0, 0.5, "why").agrees
    assert relative("c", -0.9, -1.0, 0.1, "why").agrees
    assert not relative("c", 0.0, -1.0, 0.1, "why").agrees


def test_tables_are_markdown_and_latex_that_compile():
    table = Table(["a_b", "50 %"], [["x & y", "1 ± 2"]], "100 % of #1")
    assert markdown(table).splitlines()[2:] == ["| a_b | 50 % |", "| --- | --- |", "| x & y | 1 ± 2 |"]
    text = latex(table, "tab:x")
    assert r"a\_b & 50 \%" in text
    assert r"x \& y & 1 $\pm$ 2 \\" in text
    assert r"\caption{100 \% of \#1}" in text
    assert r"\label{tab:x}" in text


def test_the_published_numbers_are_typed_as_in_the_paper():
    """A few, chosen over all files; the simulations' are compared cell by cell with ours elsewhere."""
    table = expected("reward_contamination")["tab:reward_contamination"]
    assert (table["grpo"], table["center"], table["credit"]) == (
        [27.4, 0.036, 0.982],
        [28.194, 0.035, 0.98],
        [1.911, 0.52, 0.543],
    )
    ablation = expected("training")["tab:placement_ablation"]
    means = {m: sum(mean for mean, _ in ablation[m]) / 5 for m in ("GSPO", "RoVR-Adv", "SoftRoVR", "RoVR-GSPO")}
    for method, gain in ablation["macro_gain"].items():
        assert means[method] - means["GSPO"] == pytest.approx(gain, abs=0.006)  # rounding of the printed cells
    assert len(expected("simulation")["tab:sim_variance"]["gaussian"]) == 6


def test_verdicts_in_words():
    cell = {"agrees": True}
    assert verdict({"agrees": True, "status": "full setting", "cells": [cell]}) == "yes, 1 of 1"
    assert verdict({"agrees": False, "status": "full setting", "cells": [cell, {"agrees": False}]}) == "**no**, 1 of 2"
    assert verdict({"agrees": True, "status": "smoke setting", "cells": [cell]}) == "yes, 1 of 1 (smoke setting)"
    assert verdict({"agrees": None, "status": "needs GPUs", "cells": []}) == "needs GPUs"
    assert verdict({"agrees": None, "status": "no results", "cells": []}) == "not run"


def test_the_page_tells_disagreements_notes_and_stand_ins(tmp_path):
    results = [result(item, tmp_path) for item in ITEMS.values()]
    bad = Check("one cell", 1.0, 2.0, "± 0", agrees=False, note="because")
    results[0] |= {"agrees": False, "status": "full setting", "cells": [vars(bad)]}
    text = reproduce_page(results, tmp_path)
    assert "one cell: ours 1, published 2: **disagrees**" in text
    assert "one cell: because." in text
    assert text.count("| not run |") == sum(i.experiment is not None for i in ITEMS.values()) - 1
    assert all(label in text for label in ITEMS)


def embedded(method: str, seed: int, right: list[int], where) -> dict:
    """A finished run as result.json has it, with these verdicts on four problems."""
    import numpy as np

    ends = [{"accuracy": sum(r) / 4, "problems": 4, "right": pack(np.array(r, bool))} for r in ([0] * 4, right)]
    return {
        "world": "spiked", "title": "spikes", "where": where, "evaluations": ends,
        "job": {"method": method, "seed": seed, "updates": 2, "generations": 2},
    }  # fmt: skip


def test_the_placement_table_counts_the_seeds_that_all_methods_share(tmp_path):
    lines = [{"step": s, "true_accuracy": 0.5, "entropy": 0.1, "grad_norm": float(s)} for s in (1, 2, 3, 4)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    right = {"gspo": [1, 0, 0, 0], "rovr-adv": [1, 1, 0, 0], "softrovr": [1, 0, 0, 0], "rovr-gspo": [1, 1, 1, 0]}
    runs = [embedded(m, seed, right[m], tmp_path) for m in PAPER for seed in (1, 2)]
    runs.append(embedded("gspo", 3, [1, 1, 1, 1], tmp_path))  # no partner yet
    runs.append(embedded("rovr-gspo-adaptive", 1, [1, 1, 1, 1], tmp_path))  # not all seeds yet
    rows = list(_rows(runs, "spiked"))
    finals = [r for r in rows if r["kind"] == "final"]
    assert {(r["method"], r["seed"]) for r in finals} == {(m, s) for m in PAPER for s in (1, 2)}
    (line,) = [line for line in tables(rows)["tab:placement_ablation"].body if line[0] == "RoVR-GSPO"]
    assert line[1:] == ["75.00 ± 0.00", "+50.00"]
    assert [c.ours for c in checks(rows)["tab:placement_ablation"]] == [50.0, 25.0, 50.0]
    assert all(c.agrees for c in checks(rows)["tab:placement_ablation"])
    (curve,) = [r for r in rows if r["kind"] == "curve" and r["method"] == "gspo"]
    assert (curve["generation"], curve["grad_norm"], curve["sampled_accuracy"]) == (2, 2.5, 0.5)


def test_a_method_that_beats_both_channels_is_a_disagreement(tmp_path):
    right = {"gspo": [1, 0, 0, 0], "rovr-adv": [1, 1, 1, 1], "softrovr": [1, 0, 0, 0], "rovr-gspo": [1, 1, 1, 0]}
    rows = list(_rows([embedded(m, 1, right[m], tmp_path) for m in PAPER], "spiked"))
    found = checks([r for r in rows if r["kind"] != "curve"])["fig:placement_ablation"]
    assert [c.agrees for c in found] == [True, False, True]


def placement_rows(difference: float, low: float, high: float, entropy: dict[str, float]) -> list[dict]:
    """Rows of a clean world: one difference, and a late curve for each method."""
    rows = [
        {"kind": "final", "world": "clean", "title": "clean", "method": m, "seed": 1, "accuracy": 0.5} for m in PAPER
    ]
    rows += [
        {
            "kind": "difference",
            "world": "clean",
            "method": "softrovr",
            "difference": difference,
            "low": low,
            "high": high,
        }
    ]
    return rows + [
        {"kind": "curve", "world": "clean", "method": m, "generation": g, "entropy": e}
        for m, e in entropy.items()
        for g in range(2, 22, 2)
    ]


def test_the_clean_world_decides_and_its_disagreement_with_the_paper_is_said():
    rows = placement_rows(-1.52, -2.8, -0.32, dict.fromkeys(PAPER, 0.03))
    (check,) = checks(rows)["tab:placement_ablation"]
    assert (check.published, check.agrees) == (1.77, False)
    (sentence,) = findings(rows)["tab:placement_ablation"]
    assert "-1.52 [-2.80, -0.32] against the published +1.77: it disagrees with the paper" in sentence
    undecided = findings(placement_rows(0.4, -1.0, 2.0, {}))["tab:placement_ablation"][0]
    assert "it cannot decide about the paper" in undecided


def test_the_claim_of_lower_late_entropy_is_checked_against_gspo():
    entropy = {"gspo": 0.034, "rovr-adv": 0.033, "softrovr": 0.035, "rovr-gspo": 0.030}
    found = [c for c in checks(placement_rows(1.0, 0.5, 1.5, entropy))["fig:placement_ablation"] if "entropy" in c.cell]
    assert [c.agrees for c in found] == [True, False, True]


def test_the_standard_deviations_of_the_main_table_are_typed_with_its_means():
    table = expected("training")["tab:math_main"]
    cells = [
        cell
        for m in ("Qwen3-4B-Base", "OLMo-3-7B-Instruct")
        for r in table[m].values()
        for line in r.values()
        for cell in line
    ]
    assert len(cells) == 40
    # three runs on few problems: the printed sd follow from counts of right answers, e.g. one of 30 apart: 100/30·√2/3
    assert sum(sd == 1.57 for _, sd in cells) == 7
    for model, gains in table["mean_gain"].items():
        for reward, gain in gains.items():
            ours, base = ([mean for mean, _ in table[model][reward][m]] for m in ("RoVR-GSPO", "GSPO"))
            assert all(o > b for o, b in zip(ours, base, strict=True))
            assert (sum(ours) - sum(base)) / 5 == pytest.approx(gain, abs=0.011)  # rounding of the printed cells


def committed(label):
    name = ITEMS[label].experiment
    return experiment(name), load(name, Path(__file__).parents[4] / "results" / "paper")[0]


@pytest.mark.parametrize("number", ["gspo", "softrovr", "difference"])
def test_every_published_number_of_the_token_stress_table_is_checked(number):
    """Each of its eight rows, one at a time, moved beyond what is allowed: a check of that row says so."""
    module, rows = committed("tab:softrovr_local_stress")
    assert all(check.agrees for check in module.checks(rows)["tab:softrovr_local_stress"])
    for p in expected("token_stress")["tab:softrovr_local_stress"]:
        moved = []
        for row in rows:
            hit = all(row[k] == p[k] for k in ("perturbation", "severity", "sign", "metric"))
            ends = ["difference_low", "difference_high"] if number == "difference" else [number]
            moved.append(row | {end: row[end] * 1.3 + 0.1 * (number == "difference") for end in ends} if hit else row)
        failed = [c.cell for c in module.checks(moved)["tab:softrovr_local_stress"] if not c.agrees]
        assert len(failed) == 1, p


def test_no_check_of_a_calibrated_stream_allows_more_than_ten_per_cent():
    for label in ("sec:robust_scale_exp", "tab:reward_contamination", "tab:softrovr_local_stress"):
        module, rows = committed(label)
        allowed = {c.tolerance.split(" (")[0] for c in module.checks(rows)[label] if c.tolerance.startswith("±")}
        assert allowed == {"± 10%"}, label
