"""Several reward functions in TRL: credit of the sum, or credit per function and then the weighted sum."""

import pytest
import torch

import one_batch
import rovrl
import tiny
from rovrl.diagnostics import PER_FUNCTION

pytestmark = pytest.mark.slow

WEIGHTS = [1.0, 0.5, -2.0]


def vowel_share(completions, **_):
    return [None if text.startswith("a") else sum(c in "aeiou" for c in text) / 12 for text in completions]


def run(directory, rewards=(tiny.digit_share, tiny.length_reward, vowel_share), **changes):
    made = tiny.trainer(
        directory,
        rewards=list(rewards),
        reward_weights=WEIGHTS,
        multi_objective_aggregation="normalize_then_sum",
        num_generations=16,
        per_device_train_batch_size=32,
        steps_per_generation=1,
        max_steps=2,
        **changes,
    )
    seen = []
    calculate = made._calculate_rewards

    def keep(*args, **kwargs):
        seen.append(calculate(*args, **kwargs))
        return seen[-1]

    made._calculate_rewards = keep
    made.train()
    return made, seen


def test_each_function_gets_credit_of_its_own_and_what_it_did_not_score_is_left_out(tmp_path):
    trainer, seen = run(tmp_path)
    generator = torch.Generator().manual_seed(trainer.reward_run.partition_seed())
    expected = rovrl.grouped_advantages(
        seen[-1].double(), torch.arange(32) // 16, rovrl.RewardChannel(), weights=WEIGHTS, generator=generator
    )
    torch.testing.assert_close(trainer.last_explanation.advantages, expected)
    torch.testing.assert_close(
        torch.tensor(list(trainer._logs["advantages"]), dtype=torch.float64), expected, rtol=1e-6, atol=1e-6
    )
    [*_, last] = trainer.last_explanation.parts
    assert last.finite.tolist() == seen[-1][:, 2].isfinite().tolist()
    assert len(trainer.reward_run.state_dict()["memory"]) == 3


def test_a_function_that_breaks_leaves_the_credit_of_the_others_as_it_was(tmp_path):
    def broken(completions, **_):
        return [1e9 * (-1) ** i * i for i, _ in enumerate(completions)]

    rewards = tiny.digit_share, tiny.length_reward
    whole, _ = run(tmp_path / "whole", (*rewards, vowel_share), max_completion_length=8, learning_rate=0.0)
    hit, _ = run(tmp_path / "hit", (*rewards, broken), max_completion_length=8, learning_rate=0.0)
    for before, after in zip(whole.last_explanation.parts[:2], hit.last_explanation.parts[:2], strict=True):
        assert torch.equal(before.advantages, after.advantages)
    bound = rovrl.guarantees.credit_bound(1.0, 1e-3, 16)
    assert hit.last_explanation.parts[2].advantages.abs().max() <= bound


@pytest.mark.parametrize(("faults", "absent"), [("bound", {"rejected"}), ("reject", set())])
def test_every_function_has_metrics_of_its_own_whose_shares_sum_to_one(faults, absent, tmp_path):
    def vowel_share_too(completions, **_):
        return vowel_share(completions)

    vowel_share_too.__name__ = "vowel_share"  # as two lambdas have the same name
    functions = (tiny.digit_share, vowel_share, vowel_share_too)
    trainer, seen = run(tmp_path, functions, reward_channel={"faults": faults})
    [*_, logged] = [entry for entry in trainer.state.log_history if "rovr/credit_bound" in entry]
    names = ["digit_share", "vowel_share_2", "vowel_share_3"]
    assert {key for key in logged if key.count("/") == 2 and key.startswith("rovr/")} == {
        f"rovr/{name}/{function}" for name in PER_FUNCTION if name not in absent for function in names
    }
    assert sum(logged[f"rovr/variance_share/{name}"] for name in names) == pytest.approx(1.0)
    unscored = seen[-1][:, 1].isnan().double().mean().item()
    assert logged["rovr/nonfinite_rate/vowel_share_2"] == pytest.approx(unscored)
    assert logged["rovr/nonfinite_rate/digit_share"] == 0.0
    assert trainer.reward_run.metrics()["rovr/tied_rate/digit_share"] == logged["rovr/tied_rate/digit_share"]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [1.0, float("nan")], [0.0, 0.0], ["1", "2"], []])
def test_weights_that_are_not_one_number_per_function_are_refused_before_the_first_rollout(weights, tmp_path):
    with pytest.raises(
        ValueError, match=r"reward_weights must be one finite number per reward function \(2\), not all 0"
    ):
        tiny.trainer(tmp_path, rewards=[tiny.digit_share, tiny.length_reward], reward_weights=weights)


def test_a_reward_function_that_is_none_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"reward_funcs must be functions .* and 3 is neither"):
        tiny.trainer(tmp_path, rewards=[tiny.digit_share, 3])


def test_the_one_batch_of_all_engines_gets_the_same_advantages_and_metrics(tmp_path):
    trainer = tiny.trainer(
        tmp_path,
        rewards=lambda completions, **_: one_batch.rewards().tolist(),
        reward_channel=one_batch.SETTINGS,
        per_device_train_batch_size=32,
        steps_per_generation=1,
        max_steps=1,
    )
    trainer.train()
    used = torch.tensor(list(trainer._logs["advantages"])[-32:])
    one_batch.check(used, {name: value for entry in trainer.state.log_history for name, value in entry.items()})


def test_credit_of_the_sum_stays_the_default(tmp_path):
    trainer = tiny.trainer(tmp_path, rewards=[tiny.digit_share, tiny.length_reward], max_steps=1)
    trainer.train()
    assert trainer.last_explanation.parts == ()
    assert len(trainer.reward_run.state_dict()["memory"]) == 1
