"""verl's real trainer on Ray, on this CPU, with spiked and missing rewards: our algorithm, the stock one, a crash, a resume."""

import math
import os
import signal

import pytest

import rovrl
from integration.verl_harness import tiny
from integration.verl_harness.launch import ACTOR, SEQUENCE_LOSS, launch
from integration.verl_harness.reward import planted
from rovrl.integrations.verl.run import HISTORY, read_history
from rovrl.records import read_notes, read_settings, read_steps
from rovrl.records.join import join

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4000)]

# two names are all it takes; groups of four carry the budget of one arbitrary block, none inside the others
ROVR = (
    "algorithm.adv_estimator=rovr",
    "+algorithm.rovr.replaced_per_block=0",
    f"{ACTOR}.policy_loss.loss_mode=rovr_gspo",
    *SEQUENCE_LOSS,
)
STOCK = ("algorithm.adv_estimator=grpo", f"{ACTOR}.policy_loss.loss_mode=gspo", *SEQUENCE_LOSS)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"))


def test_a_worker_killed_on_two_ranks_ends_the_run_and_resuming_goes_on_with_the_checkpoints_scale(tmp_path, model):
    settings = (*ROVR, "trainer.save_freq=2", "trainer.test_freq=2", "trainer.resume_mode=auto")
    run = launch(tmp_path / "run", model, *settings, ranks=2, steps=50, nan=True)
    history = run.directory / "checkpoints" / HISTORY
    run.wait_until(lambda: len(read_history(history)) >= 3)  # step 3 is on its way, checkpoint 2 is on the disk
    workers = run.workers("WorkerDict")
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    assert run.wait() != 0
    assert "ActorDiedError" in run.log.read_text() or "died" in run.tail()
    before = read_history(history)
    assert [line["step"] for line in before][:3] == [1, 2, 3]
    _healthy(run, steps=[1, 2])

    resumed = launch(tmp_path / "run", model, *settings, ranks=2, steps=4, nan=True)
    assert resumed.wait() == 0, resumed.tail()
    after = read_history(history)
    assert [line["step"] for line in after] == [1, 2, 3, 4]
    assert after[:2] == before[:2]
    # the scale in use at step 3 is the average after step 2, although step 3 had been begun once before
    assert (
        after[2]["rovr/lagged_scale"]
        == before[2]["rovr/lagged_scale"]
        == before[1]["state"]["memory"][0]["scales"]["value"]
    )
    assert after[2]["seed"] == before[2]["seed"]
    _healthy(resumed, steps=[3, 4])
    assert any(name.startswith("val-core/") for name in resumed.metrics()[4])


def test_on_one_rank_planted_nan_and_spikes_leave_every_step_whole_and_the_records_join(tmp_path, model):
    run = launch(
        tmp_path / "rovr",
        model,
        *ROVR,
        f"{ACTOR}.policy_loss._target_=rovrl.integrations.verl.RoVRPolicyLossConfig",
        f"+{ACTOR}.policy_loss.rovr.num_blocks=4",
        f"+{ACTOR}.policy_loss.record_dir={tmp_path}/recorded",
        "algorithm.rollout_correction.rollout_is=token",  # verl then hands the loss rollout weights
        f"{ACTOR}.use_dynamic_bsz=True",
        f"{ACTOR}.ppo_max_token_len_per_gpu=256",
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True",
        "+trainer.rovr_audit.every=2",
        nan=True,
    )
    assert run.wait() == 0, run.tail()
    _healthy(run, steps=[1, 2])
    assert "audit/findings" not in run.metrics()[1]
    missing = [planted(row["output"], nan=True) == "nan" for step in (1, 2) for row in run.rollouts(step)]
    assert run.metrics()[2]["audit/nonfinite"] == sum(missing) / len(missing) > 0  # both steps, in verl's own logger
    assert run.metrics()[2]["audit/finding/nonfinite_rewards"] == sum(missing) / len(missing)
    assert (run.directory / "rollouts" / "audit" / "audit.html").is_file()

    counts = join(tmp_path / "recorded", tmp_path / "records", run.directory / "rollouts")
    assert counts == {"steps": 2, "rows": 2 * 16, "unmatched": 0}
    assert read_settings(tmp_path / "records")["ratio_channel"]["num_blocks"] == 4
    assert dict(read_notes(tmp_path / "records"))[1]["reward_channel"]["replaced_per_block"] == 0
    for step, table in read_steps(tmp_path / "records"):
        rows = table.to_pylist()
        assert len({row["group"] for row in rows}) == 4
        assert sorted(row["completion"] for row in rows) == sorted(row["output"] for row in run.rollouts(step))
        for row in rows:
            _one_response(row)
        first, second = ([row for row in rows if row["update"] == u] for u in (0, 1))
        assert len(first) == len(second) == 8
        assert max(abs(z) for row in first for z in row["log_ratios"]) < 1e-4  # the policy has not moved yet
        assert max(abs(z) for row in second for z in row["log_ratios"]) > 1e-3


def test_asynchronous_with_sessions_of_several_rows_each_function_gets_its_own_credit_and_rollouts_are_weighed(
    tmp_path, model
):
    functions = ["digits", "spiked", "brevity"]
    run = launch(
        tmp_path / "several",
        model,
        *ROVR,
        "trainer.v1.trainer_mode=colocate_async",
        "actor_rollout_ref.rollout.agent.default_agent_loop=harness_sessions",
        f"+algorithm.gdpo_reward_keys=[{','.join(functions)}]",
        "+algorithm.gdpo_reward_weights=[1.0,0.5,0.25]",
        "+algorithm.rovr_rollout=soft_rovr",
        "trainer.save_freq=2",
        nan=True,
        steps=3,
    )
    assert run.wait() == 0, run.tail()
    history = read_history(run.directory / "checkpoints" / HISTORY)
    for step, line in enumerate(history, start=1):
        data, rows = run.metrics()[step], run.rollouts(step)
        rows = [row for row in rows if not row["uid"].startswith("pad")]
        sessions = {row["uid"].rpartition("_")[0] for row in rows}
        assert len(sessions) == 16 < len(rows)  # 4 prompts x 4 sessions, some of them with two rows
        assert len(line["state"]["memory"]) == 3
        assert data["rovr/nonfinite_rate/digits"] == 0.0
        assert data["rovr/nonfinite_rate/spiked"] == sum(_unscored(rows, session) for session in sessions) / 16
        assert sum(data[f"rovr/variance_share/{name}"] for name in functions) == pytest.approx(1.0)
        assert {name: value for name, value in line.items() if name.startswith("rovr/")} == pytest.approx(
            {name: value for name, value in data.items() if name.startswith("rovr/") and "rollout" not in name}
        )
        assert data["critic/advantages/max"] <= 2 * 1.75 * rovrl.guarantees.credit_bound(1.0, 1e-3, 4)
        assert data["actor/grad_norm"] > 0
        assert 0 < data["rovr/rollout_gap"] < 1
        assert data["rovr/rollout_weight"] == pytest.approx(1.0, abs=0.5)
    assert len(history) == 3
    assert (
        run.metrics()[3]["training/off_policy/trajectory_staleness/mean"] > 0
    )  # the trainer ran ahead of its rollouts


def test_asynchronous_with_rollout_servers_of_their_own_two_calls_make_a_step_and_resuming_goes_on(tmp_path, model):
    settings = (
        *ROVR,
        "trainer.v1.trainer_mode=separate_async",
        "trainer.v1.separate_async.parameter_sync_step=2",  # two batches of two prompts before the servers get new weights
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=harness",
        "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=verl_harness.weights",
        "ray_kwargs.ray_init.num_gpus=2",
        "trainer.save_freq=1",
        "trainer.resume_mode=auto",
    )
    run = launch(tmp_path / "separate", model, *settings, nan=True, steps=2)
    assert run.wait() == 0, run.tail()
    _healthy(run, steps=[1, 2])
    assert run.metrics()[2]["actor/rovr/weight_shift"] > 0  # the second batch is trained on when the policy has moved
    assert (
        run.metrics()[2]["training/off_policy/trajectory_staleness/mean"] > 0
    )  # the trainer ran ahead of its rollouts
    history = read_history(run.directory / "checkpoints" / HISTORY)
    assert [line["step"] for line in history] == [1, 1, 2, 2]
    assert [line["state"]["step"] for line in history] == [1, 2, 3, 4]
    resumed = launch(tmp_path / "separate", model, *settings, nan=True, steps=3)
    assert resumed.wait() == 0, resumed.tail()
    after = read_history(run.directory / "checkpoints" / HISTORY)
    assert after[:4] == history
    assert [line["step"] for line in after[4:]] == [3, 3]
    assert resumed.metrics()[3]["actor/grad_norm"] > 0
    assert after[4]["rovr/lagged_scale"] == history[3]["state"]["memory"][0]["scales"]["value"]


def _unscored(rows, session):
    """Whether the reward function left the session's last output, which it sees, without a score."""
    last = max((row for row in rows if row["uid"].rpartition("_")[0] == session), key=lambda row: row["uid"])
    return math.isnan(last["score"])


def test_stock_verl_runs_in_the_same_harness_and_loses_steps_to_nan(tmp_path, model):
    run = launch(tmp_path / "stock", model, *STOCK, nan=True)
    assert run.wait() == 0, run.tail()
    lost = [step for step, data in run.metrics().items() if not math.isfinite(data["actor/grad_norm"])]
    hit = [step for step in (1, 2) if any(math.isnan(row["score"]) for row in run.rollouts(step))]
    assert lost == hit != []


def _healthy(run, steps):
    """Every step updated the policy, although rewards were spiked and missing, and both channels reported."""
    metrics = run.metrics()
    for step in steps:
        data = metrics[step]
        assert math.isfinite(data["actor/grad_norm"])
        assert data["actor/grad_norm"] > 0
        assert 0 <= data["actor/rovr/weight_disagreement"] < 10
        assert abs(data["critic/advantages/max"]) <= rovrl.guarantees.credit_bound(1.0, 1e-3, 4) + 1e-6
    scores = [row["score"] for step in steps for row in run.rollouts(step)]
    assert any(math.isnan(score) for score in scores)
    assert any(score > 10 for score in scores)


def _one_response(row):
    """Reward, text and tokens of a joined row belong together: each can be told from the text."""
    kind = planted(row["completion"], nan=True)
    assert (row["reward"] is None) == (kind == "nan")
    if row["reward"] is None:
        assert row["advantage"] == 0
    else:
        assert (row["reward"] > 10) == (kind == "spike")
    # one character is one token; the sampled special tokens are not in the text
    assert len(row["completion"]) <= row["length"] == len(row["log_ratios"]) <= 16
    assert row["method"] == "rovr_gspo"
