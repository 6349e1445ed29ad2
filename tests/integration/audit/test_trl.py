"""The audit of what a real GRPOTrainer writes: repeated batches, evaluation rows, groups without ids; and the callback."""

import logging

import numpy as np
import pytest

import tiny
from rovrl.audit import audit
from rovrl.audit.callback import AuditCallback

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Eight updates of TRL's own trainer, two generations, evaluation every second update, spikes in the reward."""
    from trl import GRPOConfig, GRPOTrainer

    place = tmp_path_factory.mktemp("run")
    calls = {"train": 0}

    def spiked(completions, trainer_state=None, **_):
        calls["train"] += 1
        scores = [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]
        scores[3] = 50.0
        return scores

    settings = {
        "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 8,
        "num_generations": 8,
        "steps_per_generation": 4,
        "max_completion_length": 8,
        "max_steps": 8,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "logging_steps": 1,
        "log_completions": True,
        "num_completions_to_print": 0,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "beta": 0.0,
    }
    callback = AuditCallback(every=4)
    data = tiny.addition(64)
    trainer = GRPOTrainer(
        tiny.model(),
        spiked,
        GRPOConfig(str(place), **settings),
        train_dataset=data.select(range(48)),
        eval_dataset=data.select(range(48, 52)),
        processing_class=tiny.tokenizer(),
        callbacks=[callback],
    )
    callback.trainer = trainer
    trainer.train()
    callback.history = trainer.state.log_history
    return place, callback


def test_batches_logged_again_count_once_and_evaluation_rows_are_left_out(run):
    place, _ = run
    files = sorted((place / "completions").glob("*.parquet"))
    assert len(files) == 8
    result = audit(place, group_size=8)
    codes = {note.code for note in result.notes}
    assert result.kind == "trl"
    assert {"logged_twice", "evaluation_rows"} <= codes
    assert result.summary.group_sizes == {8: result.summary.groups}
    # files 4 and 8 hold evaluation rows alone and are left out; 2 and 6 begin with rows of training, and are kept
    assert set(result.rollouts.step.tolist()) == {1, 2, 5, 6}
    kept = audit(place, group_size=8, keep_evaluation=True)
    assert kept.summary.groups > result.summary.groups


def test_the_advantages_that_trl_logs_are_recognised_and_the_spikes_found(run):
    place, _ = run
    result = audit(place)
    assert result.summary.trained_with == "grpo"
    assert "dominating_rewards" in {finding.code for finding in result.findings}
    assert np.nanmax(result.rollouts.reward) == 50.0
    document = result.to_dict()
    assert all(len(group["completions"]) == group["size"] for group in document["groups"])


def test_the_callback_writes_the_audit_at_the_end_of_training(run):
    place, callback = run
    assert (place / "audit" / "audit.html").stat().st_size > 10_000
    assert (place / "audit" / "audit.json").exists()
    assert callback.result.status == 1
    assert callback.result.summary == audit(place, group_size=8).summary


def test_the_numbers_of_every_audit_are_logged_where_the_run_logs_its_own(run):
    _, callback = run
    logged = [entry for entry in callback.history if "audit/findings" in entry]
    assert [entry["step"] for entry in logged] == [4, 8, 8]  # every 4 steps, and at the end
    assert logged[-1]["audit/finding/contrast_lost"] == callback.result.summary.contrast_lost_own
    assert (
        sum("reward" in entry for entry in callback.history) == 2
    )  # once per generation: TRL's own averages are its own


def test_a_finding_that_is_named_ends_the_training_and_another_does_not(run, tmp_path):
    place, _ = run

    class State:
        is_world_process_zero = True
        global_step = 4

    class Arguments:
        output_dir = str(place)
        num_generations = 8

    class Control:
        should_training_stop = False

    for code, ends in (("contrast_lost", True), ("nonfinite_rewards", False)):
        control = Control()
        AuditCallback(out=tmp_path, every=2, stop_on=code).on_step_end(Arguments, State, control)
        assert control.should_training_stop is ends
    with pytest.raises(ValueError, match="names no finding: tired"):
        AuditCallback(stop_on=["tired"])


def test_a_run_without_anything_to_read_is_a_warning_and_not_an_error(tmp_path, caplog):
    class State:
        is_world_process_zero = True

    class Arguments:
        output_dir = str(tmp_path)

    with caplog.at_level(logging.WARNING):
        AuditCallback().on_train_end(Arguments, State, None)
    assert "no audit of this run: no rollouts found" in caplog.text
