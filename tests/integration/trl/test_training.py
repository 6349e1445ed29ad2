"""RoVRTrainer in real runs of a tiny model: what is trained on is what is logged, recorded and computed by the core."""

import logging
import math

import pandas as pd
import pyarrow.compute as pc
import pytest
import torch

import rovrl
import tiny
from rovrl import RatioChannel, RewardChannel, RovrlError
from rovrl.integrations.trl.trainer import ROW
from rovrl.records import read_notes, read_settings, read_steps
from rovrl.weight import gspo_mean

EXACT = 1e-6  # float32 advantages against float64


def trained_on(trainer):
    """The advantages in TRL's buffer, in the order of the responses (TRL shuffles them over its updates)."""
    rows = torch.cat([batch[ROW] for batch in trainer._buffered_inputs])
    return torch.cat([batch["advantages"] for batch in trainer._buffered_inputs])[rows.argsort()]


def logs(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def expected(rewards, trainer, channel=None):
    generator = torch.Generator().manual_seed(trainer.reward_run.partition_seed())
    ids = [i // 16 for i in range(len(rewards))]
    return rovrl.grouped_advantages(rewards, ids, channel or RewardChannel(), generator=generator)


def test_the_advantages_trained_on_are_those_logged_and_those_of_the_core(tmp_path):
    trainer = tiny.trainer(tmp_path, log_completions=True, num_completions_to_print=0)
    trainer.train()
    rewards = torch.tensor(list(trainer._logs["rewards"]["digit_share"]), dtype=torch.float64)
    ours = expected(rewards, trainer)
    assert ours.abs().max() > 0.5
    torch.testing.assert_close(trained_on(trainer).double(), ours, rtol=EXACT, atol=EXACT)
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    torch.testing.assert_close(torch.tensor(table["advantage"].to_numpy()), ours, rtol=EXACT, atol=EXACT)


def test_switched_off_the_reward_channel_trains_on_trls_own_advantages(tmp_path):
    trainer = tiny.trainer(tmp_path, reward_channel=None)
    trainer.train()
    rewards = torch.tensor(list(trainer._logs["rewards"]["digit_share"])).view(-1, 16)
    theirs = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(trained_on(trainer), theirs.flatten(), rtol=1e-4, atol=1e-5)
    assert not any(name.startswith("rovr/scale") for entry in trainer.state.log_history for name in entry)


def test_weighted_rewards_are_summed_and_unscored_responses_are_left_out(tmp_path):
    def sparse(completions, **_):
        return [None if i % 3 == 0 else float(len(text)) for i, text in enumerate(completions)]

    def sparser(completions, **_):
        return [None if i % 6 == 0 else 1.0 * i for i, _ in enumerate(completions)]

    trainer = tiny.trainer(tmp_path, rewards=[sparse, sparser], reward_weights=[0.5, 2.0])
    trainer.train()
    table = {name: torch.tensor(list(values), dtype=torch.float64) for name, values in trainer._logs["rewards"].items()}
    rewards = 0.5 * table["sparse"].nan_to_num() + 2.0 * table["sparser"].nan_to_num()
    unscored = table["sparse"].isnan() & table["sparser"].isnan()
    assert unscored.sum() == 6
    rewards[unscored] = math.nan
    found = trained_on(trainer)
    torch.testing.assert_close(found.double(), expected(rewards, trainer), rtol=EXACT, atol=EXACT)
    assert not found[unscored].any()
    assert logs(trainer, "rovr/nonfinite_rate")[0] == pytest.approx(6 / 32)


def test_the_metrics_are_what_their_formulas_say(tmp_path):
    trainer = tiny.trainer(tmp_path, record_dir=str(tmp_path / "records"), reward_channel={"credit_bound": "adaptive"})
    trainer.train()
    info = trainer.last_explanation
    assert info is not None
    [(_, table)] = list(read_steps(tmp_path))
    log = trainer.state.log_history
    assert log[0]["rovr/reference_shift"] == pytest.approx((info.reference - info.mean).abs().mean().item())
    assert log[0]["rovr/scale"] == pytest.approx(info.scale.mean().item())
    assert log[0]["rovr/credit_bound"] == pytest.approx(2 * log[0]["rovr/lagged_spread"])  # first step: its own scale
    for update in (0, 1):
        rows = table.filter(pc.equal(table["update"], update)).to_pylist()
        ratios = torch.nn.utils.rnn.pad_sequence([torch.tensor(row["log_ratios"]) for row in rows], batch_first=True)
        mask = torch.arange(ratios.shape[1]) < torch.tensor([[row["length"]] for row in rows])
        robust, mean = rovrl.soft_rovr(ratios, mask), gspo_mean(ratios, mask)
        advantage = torch.tensor([row["advantage"] for row in rows], dtype=torch.float32)
        branch = rovrl.clip_branch(robust, advantage)
        assert log[update]["rovr/weight_shift"] == pytest.approx((robust - mean).abs().mean().item(), rel=1e-4)
        assert log[update]["rovr/clip_upper"] == pytest.approx((branch > 0).float().mean().item())
        assert log[update]["rovr/clip_lower"] == pytest.approx((branch < 0).float().mean().item())
        assert log[update]["rovr/margin"] == pytest.approx(
            rovrl.diagnostics.clip_margin(robust).mean().item(), rel=1e-4
        )
        moved = rovrl.diagnostics.branch_flips(robust, mean, advantage)
        assert log[update]["rovr/branch_moved"] == pytest.approx(moved.float().mean().item())
    assert log[1]["rovr/weight_disagreement"] == pytest.approx(
        rovrl.diagnostics.weight_disagreement(robust, mean).item(), rel=1e-4
    )
    assert log[1]["rovr/clip_upper"] + log[1]["rovr/clip_lower"] == pytest.approx(log[1]["clip_ratio/region_mean"])


def test_records_hold_every_response_once_per_pass_with_its_update_position(tmp_path):
    changes = {"steps_per_generation": 4, "gradient_accumulation_steps": 2, "num_iterations": 2, "max_steps": 6}
    trainer = tiny.trainer(tmp_path, record_dir=str(tmp_path / "records"), **changes)
    trainer.train()
    tables = dict(read_steps(tmp_path))
    assert sorted(tables) == [1, 2]  # 4 optimizer steps per generation; the second was cut short by max_steps
    rows = tables[1].to_pylist()
    keys = [(row["group"], row["response"]) for row in rows]
    assert len(rows) == 2 * 64
    assert {keys.count(key) for key in keys} == {2}
    assert sorted({row["update"] for row in rows}) == [0, 1, 2, 3]
    assert all(len(row["log_ratios"]) == row["length"] for row in rows)
    assert any(value for row in rows if row["update"] == 3 for value in row["log_ratios"])
    assert {row["update"] for row in tables[2].to_pylist()} == {0, 1}
    settings = read_settings(tmp_path)
    assert (settings["method"], settings["num_iterations"]) == ("rovr-gspo", 2)
    assert RatioChannel.from_dict(settings["ratio_channel"]) == RatioChannel()
    notes = dict(read_notes(tmp_path))
    blocks = rovrl.Blocks.random(16, 3, torch.Generator().manual_seed(notes[1]["partition_seed"]))
    assert notes[1]["blocks"] == {"16": blocks.members}
    assert notes[1]["corruption_could_adapt"] is False
    assert notes[1]["blocks"] != notes[2]["blocks"]  # a new partition per generation


@pytest.mark.slow
def test_a_reward_transform_changes_what_is_trained_on_and_its_labels_are_recorded(tmp_path):
    def spike(rewards, generation):
        labels = [""] * len(rewards)
        rewards[3], labels[3] = 100.0 * generation, "spike"
        rewards[5], labels[5] = math.inf, "failure"
        return rewards, labels

    changes = {"reward_transform": spike, "eval_dataset": tiny.addition(2), "eval_strategy": "steps", "eval_steps": 2}
    trainer = tiny.trainer(tmp_path, record_dir=str(tmp_path / "records"), per_device_eval_batch_size=16, **changes)
    trainer.train()
    [(_, table)] = list(read_steps(tmp_path))
    rows = {(row["group"], row["response"]): row for row in table.to_pylist()}
    assert (rows["1.0", 3]["reward"], rows["1.0", 3]["contamination"]) == (100.0, "spike")
    assert (rows["1.0", 5]["contamination"], rows["1.0", 5]["advantage"]) == ("failure", 0.0)
    assert [row["contamination"] for row in rows.values()].count("") == 30
    assert rows["1.0", 3]["advantage"] <= 4  # bounded by √G
    assert max(logs(trainer, "eval_reward")) <= 1  # evaluation sees the rewards as they are


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (lambda rewards, _: rewards, "must return"),
        (lambda rewards, _: (rewards[:-1], [""] * len(rewards)), "shape"),
        (lambda rewards, _: (rewards, [""]), "32 labels"),
    ],
)
def test_a_wrong_reward_transform_gets_a_sentence(transform, sentence, tmp_path):
    with pytest.raises(RovrlError, match=sentence):
        tiny.trainer(tmp_path, reward_transform=transform).train()


def failing(completions, **_):
    raise ZeroDivisionError("no such grader")


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        (failing, r"failed in generation 1, at .*test_training.py:\d+ in failing: ZeroDivisionError: no such grader"),
        (lambda completions, **_: [1.0], "returned 1 rewards, but 32 were expected"),
        (lambda completions, **_: None, "one number, or None, per completion"),
        (lambda completions, **_: ["good"] * len(completions), "one number, or None, per completion"),
    ],
)
def test_a_reward_function_that_fails_gets_a_sentence(reward, sentence, tmp_path):
    with pytest.raises(RovrlError, match=sentence):
        tiny.trainer(tmp_path, rewards=reward).train()


@pytest.mark.slow
def test_evaluation_reads_the_lagged_scale_and_leaves_it(tmp_path):
    changes = {"eval_dataset": tiny.addition(2), "eval_strategy": "steps", "eval_steps": 1}
    channel = {"scale_source": "lagged"}
    trainer = tiny.trainer(tmp_path, max_steps=4, per_device_eval_batch_size=16, reward_channel=channel, **changes)
    trainer.train()
    assert trainer.reward_run.step == trainer._generation == 2
    assert len(logs(trainer, "eval_rovr/fallback_rate")) == 4
    assert len(logs(trainer, "rovr/fallback_rate")) == 2  # evaluation has metrics of its own
    assert logs(trainer, "rovr/scale_is_local") == [0.0, 0.0]


@pytest.mark.slow
def test_evaluation_with_one_response_per_prompt_has_nothing_to_compare(tmp_path):
    changes = {"eval_dataset": tiny.addition(4), "eval_strategy": "steps", "eval_steps": 2, "num_generations_eval": 1}
    trainer = tiny.trainer(tmp_path, per_device_eval_batch_size=4, **changes)
    trainer.train()
    assert logs(trainer, "eval_rovr/single_rate") == [1.0]


def test_a_weight_that_hides_what_the_policy_does_is_told_once(tmp_path, caplog):
    trainer = tiny.trainer(tmp_path)
    name = "rovr/weight_disagreement"
    with caplog.at_level(logging.WARNING, logger="rovrl"):
        for value in (0.2, 0.2, 0.9, 0.2):  # one high batch is not a finding
            trainer._metrics["train"][name].append(value)
            trainer.log({})
        assert not caplog.records
        trainer._metrics["train"][name].extend([0.9] * 8)
        trainer.log({})
        trainer._metrics["train"][name].append(0.9)
        trainer.log({})
    assert [record.message[:34] for record in caplog.records] == ["rovr/weight_disagreement is 0.90: "]


def test_a_fresh_run_into_the_records_of_another_is_refused_and_leaves_them(tmp_path):
    records = str(tmp_path / "records")
    tiny.trainer(tmp_path / "one", record_dir=records, max_steps=4).train()
    before = dict(read_steps(records))
    with pytest.raises(RovrlError, match=r"holds the records of another run \(steps 1 to 2\)"):
        tiny.trainer(tmp_path / "other", record_dir=records).train()
    assert all(before[step].equals(table) for step, table in read_steps(records))


@pytest.mark.slow
def test_training_that_goes_on_inside_a_generation_adds_to_its_record(tmp_path):
    trainer = tiny.trainer(tmp_path, record_dir=str(tmp_path / "records"), steps_per_generation=4, max_steps=2)
    trainer.train()  # half of the generation
    [(_, half)] = read_steps(tmp_path)
    assert sorted(set(half["update"].to_pylist())) == [0, 1]
    trainer.train()  # the other half, by the same responses
    [(_, whole)] = read_steps(tmp_path)
    assert sorted(set(whole["update"].to_pylist())) == [0, 1, 2, 3]
    assert whole.slice(0, len(half)).equals(half)
    keys = list(zip(whole["group"].to_pylist(), whole["response"].to_pylist(), strict=True))
    assert len(keys) == len(set(keys)) == 64


def test_an_unwritable_record_directory_is_told_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RovrlError, match="cannot write the record"):
        tiny.trainer(tmp_path, record_dir=str(tmp_path / "file" / "records"))
