"""Intervals and comparisons of runs."""

import numpy as np
import pytest

from rovrl.errors import RovrlError
from rovrl.lab.accuracy import Estimate, bootstrap, pack, paired_difference, proportion, unpack
from rovrl.lab.compare import as_json, pairs, percent, points, table


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


def test_wilsons_interval_is_the_published_one():
    """Newcombe (1998), Stat. Med. 17:857, table I: 81 of 263 gives 0.2553 to 0.3662."""
    estimate = proportion(np.arange(263) < 81)
    assert estimate.low == pytest.approx(0.2553, abs=5e-5)
    assert estimate.high == pytest.approx(0.3662, abs=5e-5)


def test_wilsons_interval_stays_inside_the_unit_interval():
    assert proportion(np.zeros(50, bool)).low == pytest.approx(0.0, abs=1e-12)
    assert proportion(np.ones(50, bool)).high == pytest.approx(1.0, abs=1e-12)


def test_the_bootstrap_interval_of_one_seed_is_about_two_standard_errors_of_the_problems():
    values = (np.random.default_rng(1).random((1, 500)) < 0.5).astype(float)
    estimate = bootstrap(values)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(1.96 * values.std() / 500**0.5, rel=0.06)


def test_the_bootstrap_interval_holds_the_spread_between_seeds():
    calm = np.repeat(np.arange(500) < 250, 4).reshape(500, 4).T.astype(float)
    wild = calm.copy()
    wild[:2], wild[2:] = 1.0, 0.0
    widths = [e.high - e.low for e in (bootstrap(calm), bootstrap(wild))]
    assert widths[1] > 3 * widths[0]


def test_pairing_makes_the_interval_of_a_steady_gain_narrow():
    shared = np.random.default_rng(2).random((3, 500))
    ours, theirs = shared < 0.55, shared < 0.5
    paired = paired_difference(ours, theirs)
    assert paired.low > 0
    apart = bootstrap(ours.astype(float))
    assert paired.high - paired.low < apart.high - apart.low


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
