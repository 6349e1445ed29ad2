"""Lengths, diversity, accuracy and reward functions: each number beside a slow computation of its own."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

from rovrl.audit import audit
from rovrl.audit.describe.description import quantiles, weights_of
from rovrl.audit.describe.responses import distinct_pairs, reward_parts, verdict_column
from rovrl.audit.measure.ranks import group_correlation, group_ranks

SIZE, PER_STEP, STEPS = 8, 6, 5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """TRL's dump of a run with three reward functions, and its rows."""
    generator = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("run") / "completions"
    folder.mkdir()
    every = []
    for step in range(1, STEPS + 1):
        rows = []
        for prompt in range(PER_STEP):
            texts = [" ".join(generator.choice(list("abcdefg"), generator.integers(2, 30))) for _ in range(SIZE)]
            texts[3] = texts[5] if step > 2 else texts[3]
            right = (generator.random(SIZE) < 0.5).astype(float)
            for k in range(SIZE):
                brief = None if (step, prompt, k) == (2, 1, 4) else -0.01 * len(texts[k])
                polite = float(prompt == 0)
                row = {"step": step, "prompt": f"p{step}.{prompt}", "completion": texts[k]}
                rows.append(row | {"accuracy_reward": right[k], "brief": brief, "polite": polite, "advantage": 0.0})
        pq.write_table(pa.Table.from_pylist(rows), folder / f"completions_{step:05d}.parquet")
        every += rows
    return folder, every


def groups_of(rows):
    """The rows of each prompt."""
    names = dict.fromkeys(row["prompt"] for row in rows)
    return [[row for row in rows if row["prompt"] == name] for name in names]


def total(row):
    return row["accuracy_reward"] + (row["brief"] or 0.0) + row["polite"]


def test_totals_are_what_a_slow_count_gives(run):
    folder, rows = run
    totals = audit(folder).description.totals
    lengths = [len(row["completion"]) for row in rows]
    assert (totals.unit, totals.length, totals.length_high) == (
        "characters",
        np.median(lengths),
        pytest.approx(np.quantile(lengths, 0.9)),
    )
    assert (totals.accuracy, totals.verdict) == (
        pytest.approx(np.mean([row["accuracy_reward"] for row in rows])),
        "accuracy_reward",
    )
    twice = [
        sum(other["completion"] == row["completion"] for other in group) > 1
        for group in groups_of(rows)
        for row in group
    ]
    assert totals.copies == pytest.approx(np.mean(twice))
    follows = [spearmanr([len(r["completion"]) for r in g], [total(r) for r in g]).statistic for g in groups_of(rows)]
    assert totals.length_reward == pytest.approx(np.mean(follows))
    assert totals.truncated is None


def test_each_reward_function_has_its_trend_ties_and_share_of_the_variance(run):
    folder, rows = run
    found = {f.name: f for f in audit(folder).description.functions}
    assert list(found) == ["accuracy_reward", "brief", "polite"]
    assert [f.weight for f in found.values()] == [1.0, 1.0, 1.0]
    assert sum(f.variance for f in found.values()) == pytest.approx(1.0)
    shares = []
    for group in groups_of(rows):
        reward = np.array([total(row) for row in group])
        part = np.array([row["brief"] or 0.0 for row in group])
        shares.append(np.cov(part, reward)[0, 1] / np.var(reward, ddof=1))
    assert found["brief"].variance == pytest.approx(np.mean(shares))
    assert (found["polite"].tied, found["polite"].variance, found["polite"].agreement) == (1.0, pytest.approx(0), None)
    assert found["brief"].missing == pytest.approx(1 / len(rows))
    third = [row["accuracy_reward"] for row in rows if row["step"] == 3]
    assert found["accuracy_reward"].by_step[2] == pytest.approx(np.mean(third))
    against = []
    for group in groups_of(rows):
        both = [(row["brief"], round(total(row) - row["brief"], 12)) for row in group if row["brief"] is not None]
        if len({b for _, b in both}) > 1:
            against.append(spearmanr(*zip(*both, strict=True)).statistic)
    assert found["brief"].agreement == pytest.approx(np.mean(against))
    assert found["brief"].opposed == pytest.approx(np.mean(np.array(against) < 0))


def test_a_function_whose_own_values_spike_is_the_one_that_dominates(tmp_path):
    generator = np.random.default_rng(0)
    rows = []
    for group in range(40):
        for k in range(8):
            broken = float(generator.normal(0, 0.1)) + 50.0 * (group % 4 == 0 and k == 2)
            rows.append({"group": group, "reward_fine": float(generator.normal()), "reward_broken": broken, "step": 0})
            rows[-1]["reward"] = rows[-1]["reward_fine"] + 2 * rows[-1]["reward_broken"]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fine, broken = audit(path).description.functions
    assert (fine.name, fine.weight, fine.dominated) == ("reward_fine", 1.0, 0)
    assert (broken.name, broken.weight, broken.dominated) == ("reward_broken", 2.0, 10)
    assert broken.lost > 0.2


def test_columns_that_do_not_add_up_to_the_reward_have_no_weights():
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=(2, 50))
    assert weights_of(a + 0.5 * b, {"a": a, "b": b, "logged": generator.normal(size=50)}) == {
        "a": 1,
        "b": 0.5,
        "logged": 0,
    }
    assert weights_of(a * b, {"a": a, "b": b}) is None
    assert weights_of(np.full(50, 1e308), {"a": a, "b": b}) is None


def test_quantiles_of_every_step_are_numpys():
    generator = np.random.default_rng(2)
    rank, values = generator.integers(0, 7, 300), generator.normal(size=300)
    rank[rank == 4] = 5
    values[::17] = np.nan
    found = quantiles(rank, 7, values)
    for step in (0, 1, 2, 3, 5, 6):
        mine = values[(rank == step) & ~np.isnan(values)]
        for name, level in (("low", 0.1), ("middle", 0.5), ("high", 0.9)):
            assert found[name][step] == pytest.approx(np.quantile(mine, level))
    assert math.isnan(found["low"][4])


def test_the_correlation_within_groups_is_scipys_and_silent_where_nothing_varies():
    generator = np.random.default_rng(4)
    group = np.repeat(np.arange(30), 9)
    x, y = generator.integers(0, 4, (2, 270)).astype(float)
    x[:9], y[9:18], x[20:26] = 1.0, 2.0, np.nan
    found = group_correlation(group, 31, x, y)
    assert np.isnan(found[[0, 1, 30]]).all()
    for g in range(2, 30):
        mine = (group == g) & ~np.isnan(x)
        assert found[g] == pytest.approx(spearmanr(x[mine], y[mine]).statistic, nan_ok=True)
    assert group_ranks(np.array([1, 0, 1, 1]), np.array([5.0, 9.0, 5.0, 1.0])).tolist() == [2.5, 1.0, 2.5, 1.0]


def test_distinct_pairs_are_one_without_repetition_and_an_nth_for_n_equal_texts():
    assert distinct_pairs(["a b c", "d e f"]) == 1.0
    assert distinct_pairs(["a b c d"] * 5) == pytest.approx(1 / 5)
    assert distinct_pairs(["1+2=3"]) == 1.0
    assert math.isnan(distinct_pairs(["word", ""]))


def test_truncation_comes_from_the_dump_or_from_a_pile_at_the_longest_length(tmp_path):
    rows = [{"group": k // 4, "reward": k % 3, "length": min(10 + 7 * k, 100), "response": "x"} for k in range(40)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    totals = audit(path).description.totals
    assert (totals.unit, totals.truncated) == ("tokens", pytest.approx(np.mean([row["length"] == 100 for row in rows])))
    assert "exactly 100 tokens" in totals.truncated_by
    rows = [row | {"finish_reason": "length" if k % 5 == 0 else "stop"} for k, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert audit(path).description.totals.truncated == pytest.approx(0.2)


def test_the_longest_of_a_few_common_lengths_is_no_limit(tmp_path):
    rows = [{"group": k // 4, "reward": k % 3, "length": 3 + k % 3, "response": "x"} for k in range(60)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert audit(path).description.totals.truncated is None


def test_columns_are_known_by_their_names_in_any_case():
    assert verdict_column(["Step", "Is_Correct"]) == "Is_Correct"
    assert verdict_column(["rewards/accuracy", "x"]) == "rewards/accuracy"
    assert verdict_column(["reward", "format_reward"]) is None
    assert reward_parts(["reward", "format_reward", "rewards/b", "note", "Step"], every_number=False) == [
        "format_reward",
        "rewards/b",
    ]
    assert reward_parts(["score", "step", "acc", "format"], every_number=True) == ["acc", "format"]
