"""Small seeded runs give exactly the numbers they gave when they were compared with the paper.

`python tests/reproduction/test_golden.py` writes golden.json anew; do it only after a change that is meant.
"""

import json
from pathlib import Path

import pytest

from rovrl import REFERENCES
from rovrl_paper.paper.experiments import (
    reward_contamination,
    sim_estimators,
    sim_outer_factor,
    sim_sweeps,
    token_stress,
)

GOLDEN = Path(__file__).with_name("golden.json")
RUNS = {
    "sim_estimators": lambda: sim_estimators.run(sim_estimators.Setting(trials=40, replicates=4), _silent),
    "sim_sweeps": lambda: sim_sweeps.run(sim_sweeps.Setting(trials=20, shifts=(2.0, 8.0), replicates=4), _silent),
    "sim_outer_factor": lambda: sim_outer_factor.run(sim_outer_factor.Setting(trials=40, replicates=4), _silent),
    "reward_contamination": lambda: reward_contamination.run(
        reward_contamination.Setting(groups=6, replicates=4), _silent
    ),
    "token_stress": lambda: token_stress.run(
        token_stress.Setting(prompts=2, group=4, replicates=4, spikes=(16.0,), bursts=(0.2,)), _silent
    ),
}


def _silent(done: int, total: int) -> None:
    pass


def _plain(rows):
    return [{k: v if isinstance(v, str) else (None if v != v else float(v)) for k, v in row.items()} for row in rows]


@pytest.mark.parametrize("name", RUNS)
def test_a_small_run_is_what_it_was(name):
    """1e-9: far above rounding, far below the effect of any changed constant."""
    golden, found = json.loads(GOLDEN.read_text())[name], _plain(RUNS[name]())
    assert len(found) == len(golden)
    for ours, wanted in zip(found, golden, strict=True):
        assert ours.keys() == wanted.keys()
        for key, value in wanted.items():
            same = ours[key] == value if value is None or isinstance(value, str) else None
            assert same if same is not None else ours[key] == pytest.approx(value, rel=1e-9, abs=1e-12), (ours, key)


@pytest.mark.parametrize("name", list(REFERENCES))
def test_a_change_of_any_estimator_is_noticed(name, monkeypatch):
    """Each in turn is moved by a millionth: the golden rows of that estimator, and no others, differ."""
    original = REFERENCES[name]
    monkeypatch.setitem(REFERENCES, name, lambda x, blocks, channel: original(x, blocks, channel) * (1 + 1e-6))
    golden = json.loads(GOLDEN.read_text())["sim_estimators"]
    found = _plain(RUNS["sim_estimators"]())
    moved = {r["estimator"] for r, g in zip(found, golden, strict=True) if abs(r["rmse"] / g["rmse"] - 1) > 1e-9}
    assert moved == {name}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: _plain(run()) for name, run in RUNS.items()}, indent=0) + "\n")
