"""The page and its charts: whole, escaped, and without a request to anywhere."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from rovrl.output.chart import Series, line_chart, smoothed, ticks
from rovrl.output.files import read_lines, write_json
from rovrl.records import RecordWriter
from rovrl_paper.lab.accuracy import final_verdicts, pack, pairs, table, unpack
from rovrl_paper.lab.evidence.plan import SWEEPS
from rovrl_paper.lab.evidence.report import answers, main, paired, tables, update_page, update_rollouts, write_report
from rovrl_paper.lab.job import Job, versions
from rovrl_paper.lab.page import credit_for_being_right, write_page
from rovrl_paper.lab.pool import Order

NASTY = "<script>alert('x')</script>&"


def fake_run(order: Order, gain: float) -> dict:
    rng = np.random.default_rng(order.job.seed)
    easy, curve = rng.random(500), []
    for g in (0, 10, 20):
        right = easy < 0.35 + gain * g / 20 if g else np.random.default_rng(0).random(500) < 0.35  # the warmed-up model
        row = {"step": 4 * g, "generation": g, "accuracy": float(right.mean())}
        curve.append(row | {"problems": 500, "right": pack(right)})
    result = {"job": order.job.to_dict(), "evaluations": curve, "averages": {"grad_norm": 0.3}, "cpu_seconds": 1.0}
    order.directory.mkdir(parents=True)
    write_json(order.directory / "result.json", result)
    lines = [f'{{"step": {s}, "clip_ratio/region_mean": 0.2, "grad_norm": 0.3}}' for s in range(1, 81)]
    (order.directory / "metrics.jsonl").write_text("\n".join(lines))
    completions = ["#00003", NASTY, "#00003", "#00004"]
    RecordWriter(order.directory / "records").write_step(
        1,
        {
            "update": [0] * 4,
            "group": ["1.0"] * 4,
            "response": range(4),
            "prompt": ["0001+0002="] * 4,
            "completion": completions,
            "reward": [1.0, None, 17.0, 0.0],
            "advantage": [0.5, -0.5, 3.0, -0.7],
            "length": [6] * 4,
            "clip_low": [3e-4] * 4,
            "clip_high": [4e-4] * 4,
            "contamination": ["", "", "spike+", ""],
        },
    )
    return result


@pytest.fixture
def page(tmp_path):
    orders = [Order(Job(method=m, seed=s), tmp_path / f"{m}-seed{s}") for s in (1, 2) for m in ("gspo", "rovr-gspo")]
    results = [fake_run(order, 0.3 if order.job.method == "rovr-gspo" else 0.1) for order in orders]
    names = ["gspo", "rovr-gspo"]
    return write_page(tmp_path, orders, table(results, names), pairs(results, names)).read_text(), orders


def test_the_page_asks_nothing_of_the_network_and_runs_no_script(page):
    text, _ = page
    assert not re.search(r"(src|href)\s*=|url\(|@import|<script", text)


def test_what_a_model_wrote_is_escaped(page):
    text, _ = page
    assert NASTY not in text
    assert "&lt;script&gt;" in text


def test_the_page_says_what_is_planted_and_holds_every_part(page):
    text, _ = page
    for words in (
        "misprints 24 of the 100",
        "spikes:rate=0.1",
        "Accuracy",
        "Learning",
        "Contrast",
        "Clipping",
        "Sample responses",
    ):
        assert words in text
    assert text.count("<svg") == 4  # accuracy, contrast, clipping, gradient; the runs have no weight disagreement
    assert "Weight: no values." in text


def test_contrast_leaves_planted_responses_out(page):
    _, orders = page
    steps, contrast = credit_for_being_right(orders[:1])
    assert steps == [1.0]
    assert contrast == [pytest.approx(0.5 - (-0.5 - 0.7) / 2)]


def test_a_chart_is_well_formed_and_keeps_every_line_inside_its_frame():
    rng = np.random.default_rng(0)
    lines = [Series(f"<{i}>", range(20), rng.normal(size=20).tolist()) for i in range(7)]
    root = ET.fromstring(line_chart(lines, "a & b", "x", "y"))
    points = [p.split(",") for line in root.iter("polyline") for p in line.attrib["points"].split()]
    assert len(points) == 140
    assert all(0 <= float(x) <= 640 and 0 <= float(y) <= 300 for x, y in points)


def test_names_at_the_line_ends_do_not_cover_each_other():
    lines = [Series(f"m{i}", [0, 1], [0.0, 0.5]) for i in range(5)]
    root = ET.fromstring(line_chart(lines, "l", "x", "y"))
    places = sorted(float(t.attrib["y"]) for t in root.iter("text") if t.get("class") == "name")
    assert min(np.diff(places)) >= 13.9


def test_values_that_are_no_numbers_are_left_out_of_a_chart():
    chart = line_chart([Series("a", [0, 1, 2], [1.0, float("nan"), 2.0])], "l", "x", "y")
    assert "nan" not in chart
    assert "no values" in line_chart([Series("a", [0], [float("nan")])], "l", "x", "y")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.35, 0.82), (-3, 17), (1e-5, 3e-4), (5, 5), (0, 0)])
def test_ticks_cover_the_range_with_round_numbers(low, high):
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 8


def test_smoothing_is_the_mean_of_the_last_values():
    assert smoothed([1.0, 2.0, 6.0], 2) == [1.0, 1.5, 4.0]


def test_the_evidence_says_what_is_missing(tmp_path):
    rows = []
    for method, gain in (("gspo", 0.1), ("rovr-gspo", 0.3)):
        order = Order(Job(method=method, seed=1), tmp_path / "runs" / f"{method}-seed1")
        rows.append({"setting": "spiked", "versions": versions()} | fake_run(order, gain))
    text = write_report("evidence", tmp_path, rows).read_text()
    assert "| RoVR-GSPO (1 of 5 seeds) |" in text
    assert "Not run yet: RoVR-Adv; SoftRoVR; RoVR-GSPO, adaptive" in text
    ET.fromstring((tmp_path / "spiked.svg").read_text())


def test_a_question_is_answered_over_the_seeds_that_both_sides_share_also_across_settings(tmp_path):
    def row(setting, method, seed, gain):
        order = Order(Job(method=method, seed=seed), tmp_path / setting / f"{method}-seed{seed}")
        return {"setting": setting, "versions": versions()} | fake_run(order, gain)

    rows = [row("spiked", "rovr-gspo-guarded", s, 0.3) for s in (1, 2)] + [row("clean", "gspo", 1, 0.2)]
    lines = [line for line in answers(rows).splitlines() if "| GSPO on clean score rewards |" in line]
    shared = 100 * (final_verdicts(rows[:1]).mean() - final_verdicts(rows[2:]).mean())
    assert f"| {shared:+.1f} [" in lines[0]
    assert lines[0].endswith("(1 of 2 seeds) |")
    assert lines[1].endswith("| not run yet |")  # under 30 %


def test_a_difference_between_runs_from_other_first_weights_says_so(tmp_path):
    runs = [fake_run(Order(Job(method="gspo", seed=1), tmp_path / name), 0.2) for name in ("one", "two")]
    assert "(" not in paired(runs[:1], runs[1:])
    runs[1]["evaluations"][0]["right"] = pack(np.zeros(500, bool))
    assert paired(runs[:1], runs[1:]).endswith("(from other first weights)")


def test_the_share_that_was_rejected_is_a_column_where_something_could_be(tmp_path):
    rows = []
    for method, averages in (("gspo", {}), ("rovr-gspo-guarded", {"rovr/rejected": 0.097})):
        run = fake_run(Order(Job(method=method), tmp_path / method), 0.2)
        rows.append({"setting": "spiked", "versions": versions()} | run | {"averages": averages})
    spiked, clean = (
        tables("evidence", rows).split(f"### {title}")[1] for title in ("10 % spikes, score", "clean score")
    )
    assert spiked.splitlines()[2].endswith("| disagreement | rejected |")
    assert "| 0.10 |" in next(line for line in spiked.splitlines() if line.startswith("| RoVR-GSPO, guarded†"))
    assert "rejected" not in clean.split("###")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SWEEPS))
def test_the_tables_of_the_evidence_page_are_those_of_the_runs(name):
    root = Path(__file__).parents[4]
    page, results = root / "docs" / "evidence.md", root / SWEEPS[name].results
    rows = read_lines(results / "runs.jsonl")
    assert update_page(name, page, rows) == page.read_text()
    if rows:
        assert (results / "README.md").read_text().endswith(tables(name, rows))


def test_the_tables_of_the_rollouts_page_are_those_of_the_runs():
    root = Path(__file__).parents[4]
    page = root / "docs" / "rollouts.md"
    assert update_rollouts(page, read_lines(root / "results" / "embedded" / "runs.jsonl")) == page.read_text()


def test_every_row_of_the_evidence_has_its_settings_seed_versions_and_verdicts():
    for row in read_lines(Path(__file__).parents[4] / "results" / "embedded" / "runs.jsonl"):
        job = Job.from_dict(row["job"])
        assert row["versions"]["trl"]
        assert [e["generation"] for e in row["evaluations"]] == [0, 10, 20, 30, 40]
        last = row["evaluations"][-1]
        assert unpack(last["right"], last["problems"]).mean() == pytest.approx(last["accuracy"])
        assert job.generations == 40


@pytest.mark.parametrize("words", [[], ["--help"], ["evidence"], ["unheard-of", "results", "page.md"]])
def test_words_that_name_no_report_get_the_usage_and_status_two(words, capsys):
    assert main(words) == 2
    assert "usage:" in capsys.readouterr().err
