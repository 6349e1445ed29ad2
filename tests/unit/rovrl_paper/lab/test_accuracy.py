"""Intervals and comparisons of runs."""

import json

import numpy as np
import pytest

from rovrl.errors import RovrlError
from rovrl.output.intervals import Estimate
from rovrl_paper.lab.accuracy import (
    as_json,
    as_row,
    from_row,
    pack,
    paired_difference,
    pairs,
    percent,
    points,
    table,
    unpack,
)


def result(method, seed, before, after):
    rows = [(0, before), (40, after)]
    curve = [
        {"step": 4 * g, "generation": g, "accuracy": float(r.mean()), "problems": r.size, "right": pack(r)}
        for g, r in rows
    ]
    return {"job": {"method": method, "seed": seed}, "evaluations": curve, "averages": {}}


def runs(seeds=(1, 2, 3), problems=500, gain=0.2):
    rng, out = np.random.default_rng(0), []
    for seed in seeds:
        easy = rng.random(problems)
        out.append(result("gspo", seed, easy < 0.35, easy < 0.5))
        out.append(result("rovr-gspo", seed, easy < 0.35, easy < 0.5 + gain))
    return out


def test_packed_verdicts_come_back():
    right = np.random.default_rng(0).random(501) < 0.3
    assert np.array_equal(unpack(pack(right), 501), right)


def test_verdicts_and_scores_come_back_from_a_line_of_json():
    rng = np.random.default_rng(0)
    for values in (rng.random(501) < 0.3, rng.integers(0, 5, 100) / 4):
        row = json.loads(json.dumps(as_row(values)))
        assert np.array_equal(from_row(row), values)
        assert from_row(row).dtype == values.dtype
        assert row["accuracy"] == values.mean()


def test_scores_are_compared_as_verdicts_are():
    rng, out = np.random.default_rng(0), []
    for seed in (1, 2, 3):
        first = rng.integers(0, 3, 100) / 4
        for method, last in (("gspo", first), ("rovr-gspo", first + 0.25)):
            curve = [{"step": s, "generation": s, **as_row(values)} for s, values in ((0, first), (60, last))]
            out.append({"job": {"method": method, "seed": seed}, "evaluations": curve})
    rows = table(out, ["gspo", "rovr-gspo"])
    assert rows[1].difference == pytest.approx(Estimate(0.25, 0.25, 0.25))
    assert rows[0].before.low < rows[0].before.value == first_mean(out) < rows[0].before.high


def first_mean(results):
    return from_row(results[0]["evaluations"][0]).mean()


def test_unpaired_shapes_are_refused():
    with pytest.raises(ValueError, match="paired"):
        paired_difference(np.ones((2, 5)), np.ones((3, 5)))


def test_the_table_has_before_after_and_the_difference_to_the_first_method():
    rows = table(runs(), ["gspo", "rovr-gspo"])
    assert [row.method for row in rows] == ["gspo", "rovr-gspo"]
    assert rows[0].difference is None
    assert rows[1].difference is not None
    assert rows[1].difference.value == pytest.approx(rows[1].after.value - rows[0].after.value)
    assert rows[1].difference.low > 0
    assert rows[1].sd == pytest.approx(np.std([0.692, 0.714, 0.712], ddof=1), abs=0.02)


def test_no_gain_is_not_told_as_one():
    difference = table(runs(gain=0.0), ["gspo", "rovr-gspo"])[1].difference
    assert difference == Estimate(0.0, 0.0, 0.0)


def test_methods_with_different_seeds_are_refused():
    with pytest.raises(RovrlError, match="different seeds"):
        table([*runs(), result("gspo", 9, np.ones(5, bool), np.ones(5, bool))], ["gspo", "rovr-gspo"])


def test_every_pair_of_methods_is_compared_once():
    assert [(c.ours, c.theirs) for c in pairs(runs(), ["gspo", "rovr-gspo"])] == [("rovr-gspo", "gspo")]


def test_numbers_are_told_with_their_intervals():
    assert percent(Estimate(0.646, 0.6034, 0.687)) == "64.6 [60.3, 68.7]"
    assert points(Estimate(0.228, -0.01, 0.274)) == "+22.8 [-1.0, +27.4]"


def test_the_comparison_is_plain_json_also_with_one_seed():
    import json

    results = runs(seeds=(1,))
    text = json.dumps(as_json(table(results, ["gspo", "rovr-gspo"]), pairs(results, ["gspo"])), allow_nan=False)
    assert json.loads(text)["table"][0]["sd"] is None
