"""One short run of the embedded job per method and per planted trouble, on the real trainer."""

import json

import pytest
import torch
from safetensors.torch import load_file

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines
from rovrl.records import read_steps
from rovrl_paper.lab.job import Job, prepare
from rovrl_paper.lab.methods import METHODS
from rovrl_paper.lab.models.warmup import WarmUp, warmed_up

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # TRL and accelerate warn in several ways

SMALL = Job(
    generations=2, prompts=2, group=9, updates=2, evaluate_every=2, checkpoint_every=2, learning_rate=1e-3,
    warm_up=WarmUp(steps=40, hidden=48),
)  # fmt: skip


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    return warmed_up(SMALL.warm_up, tmp_path_factory.mktemp("cache"))


@pytest.fixture
def few_problems(monkeypatch):
    from rovrl_paper.lab.models import worlds as world
    from rovrl_paper.tasks import arithmetic

    few = arithmetic.held_out()[:20]
    monkeypatch.setitem(world.WORLDS, "tiny", world.WORLDS["tiny"].__class__(
        **vars(world.WORLDS["tiny"]) | {"held_out": lambda: few}
    ))  # fmt: skip


def train(job, place, warm):
    from rovrl_paper.lab.run import run

    prepare(job, place, resume=False)
    return run(job, place, warm)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_trains_and_moves_the_weights(method, warm, tmp_path, few_problems):
    rollout = "bfloat16" if METHODS[method].recomputes else None
    result = train(SMALL.with_(method=method, rollout=rollout, record=False), tmp_path / "run", warm)
    after = load_file(tmp_path / "run" / "checkpoints" / "checkpoint-4" / "model.safetensors")
    before = load_file(warm / "model.safetensors")
    assert all(torch.isfinite(weight).all() for weight in after.values())
    assert any(not torch.equal(after[name], before[name]) for name in before)
    assert [row["step"] for row in read_lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4]
    assert [row["generation"] for row in result["evaluations"]] == [0, 2]


@pytest.mark.parametrize(
    "contamination",
    ["heavy_tails", "failures:rate=0.3", "failures:rate=0.3,value=inf", "shift:rate=1", "flips:rate=0.5"],
)
def test_what_was_planted_is_in_the_records_and_the_run_survives_it(contamination, warm, tmp_path, few_problems):
    job = SMALL.with_(contamination=(contamination,))
    train(job, tmp_path / "run", warm)
    labels = [label for _, rows in read_steps(tmp_path / "run", ["contamination"]) for label in rows["contamination"]]
    assert len(labels) == 2 * 2 * 9
    assert any(label.as_py() for label in labels)
    rows = [row for _, table in read_steps(tmp_path / "run") for row in table.to_pylist()]
    assert all(row["advantage"] == 0 for row in rows if row["contamination"] == "failure")


@pytest.mark.parametrize("reward", ["rule", "bonus", "units"])
def test_the_second_task_trains_on_every_kind_of_reward_with_faults_rejected(reward, tmp_path_factory, tmp_path):
    from rovrl_paper.tasks import dispatch

    warm = warmed_up(SMALL.warm_up, tmp_path_factory.getbasetemp() / "tools", book=dispatch)
    job = SMALL.with_(model="tools", reward=reward, method="rovr-gspo-guarded", prompts=4)
    result = train(job, tmp_path / "run", warm)
    assert result["averages"]["rovr/rejected"] >= 0
    rows = [row for _, table in read_steps(tmp_path / "run") for row in table.to_pylist()]
    assert len(rows) == 2 * 4 * 9
    if reward == "rule":
        clean = [row for row in rows if not row["contamination"]]
        assert all(row["reward"] == dispatch.score(row["prompt"], row["completion"]) for row in clean)


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_responses_of_a_degraded_copy_have_log_ratios_before_any_update(precision, warm, tmp_path, few_problems):
    first_update = {}
    for name, rollout in (("same", None), ("copy", precision)):
        train(SMALL.with_(method="gspo", contamination=(), rollout=rollout), tmp_path / name, warm)
        _, rows = next(iter(read_steps(tmp_path / name, ["update", "log_ratios"])))
        first = [row["log_ratios"] for row in rows.to_pylist() if row["update"] == 0]
        first_update[name] = max(abs(value) for ratios in first for value in ratios)
    assert first_update["same"] < 1e-5  # float32 rounding of two forward passes
    assert first_update["copy"] > 1e-4


@pytest.mark.parametrize("method", ["gspo-recomputed", "gspo-soft-rovr", "gspo-mis"])
def test_a_policy_that_recomputes_has_no_log_ratios_at_first_and_corrects_what_the_copy_did(
    method, warm, tmp_path, few_problems
):
    result = train(SMALL.with_(method=method, contamination=(), rollout="int4"), tmp_path / "run", warm)
    _, rows = next(iter(read_steps(tmp_path / "run", ["update", "log_ratios"])))
    first = [row["log_ratios"] for row in rows.to_pylist() if row["update"] == 0]
    assert max(abs(value) for ratios in first for value in ratios) < 1e-5  # float32 rounding of two forward passes
    found = {name: value for name, value in result["averages"].items() if "rollout" in name}
    if method == "gspo-recomputed":
        assert found == {}
    else:
        assert found["rovr/rollout_gap"] > 1e-3  # the copy's rounding, which the log-ratios no longer hold
        assert found["rovr/rollout_weight"] != 1.0


def test_a_correction_without_a_copy_to_correct_is_refused():
    with pytest.raises(RovrlError, match="gspo-tis is for responses of a copy in another precision: add --rollout"):
        SMALL.with_(method="gspo-tis", rollout=None)


def test_both_methods_meet_the_same_prompts_and_the_same_spikes(warm, tmp_path, few_problems):
    seen = {}
    for method in ("gspo", "rovr-gspo"):
        train(SMALL.with_(method=method, contamination=("spikes:rate=0.3",)), tmp_path / method, warm)
        rows = [row for _, table in read_steps(tmp_path / method) for row in table.to_pylist()]
        seen[method] = sorted(
            (row["step"], row["group"], row["response"], row["prompt"], row["contamination"]) for row in rows
        )
    assert seen["gspo"] == seen["rovr-gspo"]
    assert any(row[-1] for row in seen["gspo"])


def test_a_disk_that_fills_up_in_the_middle_is_told_and_the_run_goes_on_later(
    warm, tmp_path, monkeypatch, few_problems
):
    from rovrl.errors import RovrlError
    from rovrl_paper.lab import run as runner

    append, job = runner.append_lines, SMALL.with_(checkpoint_every=1)

    def full(path, rows):
        if rows[0]["step"] == 3:
            raise OSError(28, "No space left on device")
        append(path, rows)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "append_lines", full)
        with pytest.raises(RovrlError, match=r"the disk is full.*finished steps are kept.*--resume"):
            train(job, tmp_path / "run", warm)
    assert [row["step"] for row in read_lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2]
    result = runner.run(job, tmp_path / "run", warm)
    assert result["from_step"] == 2
    assert [row["step"] for row in read_lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4]
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
