"""Two processes over gloo: the advantages of one, and to rounding its update; one of three groups lies on both."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tiny
from rovrl.records import read_steps

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "trl_ranks.py"
ROUNDING = 1e-5  # float32 gradients summed in another order, over six steps of Adam; a step moves parameters by 1e-3


def run(directory, ranks):
    directory.mkdir()
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parent), "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, *launch, str(SCRIPT), str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-12000:]
    return [json.loads((directory / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def advantages(ranks):
    pairs = sorted((row, value) for rank in ranks for row, value in zip(rank["rows"], rank["advantages"], strict=True))
    assert [row for row, _ in pairs] == list(range(48))
    return [value for _, value in pairs]


def parameters(directory):
    return torch.cat([p.flatten() for p in torch.load(directory / "parameters.pt", weights_only=True)])


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    directory = tmp_path_factory.mktemp("one") / "run"
    return directory, run(directory, 1)


def test_two_processes_train_on_the_advantages_of_one_and_make_its_update(one, tmp_path):
    directory, alone = one
    several = run(tmp_path / "run", 2)
    assert [len(rank["rows"]) for rank in several] == [24, 24]
    assert advantages(several) == advantages(alone)  # exactly: the same gathered numbers in float64
    assert all(rank["lagged"] == alone[0]["lagged"] for rank in several)
    ours, theirs = parameters(tmp_path / "run"), parameters(directory)
    assert (ours - theirs).abs().max() < ROUNDING
    for mine, other in zip(several[0]["log"], alone[0]["log"], strict=True):
        shared = [name for name in mine if name.startswith("rovr/")]
        assert shared == [name for name in other if name.startswith("rovr/")]
        for name in shared:
            assert mine[name] == pytest.approx(other[name], rel=1e-3, abs=1e-5), name
    recorded, expected = dict(read_steps(tmp_path / "run")), dict(read_steps(directory))
    assert sorted(recorded) == sorted(expected) == [1, 2, 3]
    for step, table in recorded.items():
        mine, other = table.to_pylist(), expected[step].to_pylist()
        assert [row["contamination"] for row in mine] == [row["contamination"] for row in other]
        for row, twin in zip(mine, other, strict=True):
            assert row | {"log_ratios": 0} == twin | {"log_ratios": 0}
            assert row["log_ratios"] == pytest.approx(twin["log_ratios"], abs=1e-4)


def test_the_update_did_something(one):
    directory, alone = one
    start = torch.cat([p.detach().flatten() for p in tiny.model().parameters()])
    assert (parameters(directory) - start).abs().max() > 100 * ROUNDING
    assert max(abs(value) for value in alone[0]["advantages"]) > 0.5
