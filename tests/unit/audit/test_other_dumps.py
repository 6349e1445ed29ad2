"""Tables with other names, other separators, and the dumps of other programs."""

import json

import numpy as np
import pytest

from rovrl.audit import audit


def test_columns_are_found_in_any_case_and_cells_by_tabs_or_semicolons(tmp_path):
    rows = [(1 + k // 16, f"p{k // 8}", k % 5) for k in range(64)]
    for name, mark in (("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t")):
        lines = [mark.join(("Step", "Prompt_ID", "Reward")), *(mark.join(map(str, row)) for row in rows)]
        (tmp_path / name).write_text("\n".join(lines))
        result = audit(tmp_path / name)
        assert (result.summary.groups, result.summary.steps) == (8, 4)
        assert result.summary.mean_reward == pytest.approx(np.mean([row[2] for row in rows]))


def test_rollouts_of_open_instruct_are_grouped_by_step_and_prompt(tmp_path):
    """By the schema of its RolloutRecord; no file of a real run was at hand."""
    rows = [
        {
            "step": 1 + k // 16,
            "sample_idx": k % 16,
            "prompt_idx": (k % 16) // 8,
            "prompt_tokens": [1, 2],
            "reward": k % 3,
        }
        | {"response_tokens": [5] * (3 + k % 4), "advantage": 0.0, "finish_reason": "length" if k % 4 == 3 else "stop"}
        for k in range(64)
    ]
    path = tmp_path / "run_rollouts_000000.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = audit(path)
    totals = result.description.totals
    assert (result.summary.groups, result.summary.group_sizes) == (8, {8: 8})
    assert (totals.unit, totals.length, totals.truncated) == ("tokens", 4.5, 0.25)
