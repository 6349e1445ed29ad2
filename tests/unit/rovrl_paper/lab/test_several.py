"""Three reward functions in the embedded job: what they give, and which of them is corrupted."""

from types import SimpleNamespace

import pytest
import torch

from rovrl.train.contamination import parse
from rovrl_paper.lab.job import SPIKES, Job
from rovrl_paper.lab.rewards import JUDGE, PENALTY, SEVERAL, EmbeddedReward, reward_functions

PROMPTS = ["12+34=", "12+34="] * 16
COMPLETIONS = ["right", "wrong, and longer"] * 16


@pytest.fixture
def three():
    reward = EmbeddedReward("several", 1, [parse(SPIKES)], score=lambda _, text: float(text == "right"))
    return reward_functions(SEVERAL, reward)


def rewards(functions):
    state = SimpleNamespace(global_step=0)
    columns = [f(prompts=PROMPTS, completions=COMPLETIONS, trainer_state=state) for f in functions]
    return torch.tensor(columns, dtype=torch.float64).T


def test_a_verifier_a_judge_and_a_length_penalty_score_every_response(three):
    right, judge, brief = rewards(three[0]).unbind(-1)
    assert right.tolist() == [1.0, 0.0] * 16
    assert brief.tolist() == pytest.approx([-PENALTY * len(text) for text in COMPLETIONS])
    assert (judge[::2] - judge[1::2]).mean() == pytest.approx(0.33, abs=0.05)
    assert [f.__name__ for f in three[0]] == ["right", "several", "brief"]


def test_corruption_strikes_the_judge_alone(three):
    clean = rewards(three[0])
    hit, labels = three[1](clean, 1)
    others = [k for k in range(3) if k != JUDGE]
    assert torch.equal(hit[:, others], clean[:, others])
    moved = (hit[:, JUDGE] != clean[:, JUDGE]).tolist()
    assert moved == [label != "" for label in labels]
    assert any(moved)


def test_any_other_reward_is_one_function_as_before():
    reward = EmbeddedReward("score", 1)
    functions, corrupt = reward_functions("score", reward)
    assert functions == [reward]
    assert corrupt == reward.corrupt


@pytest.mark.parametrize(
    ("method", "per_function"), [("gspo", False), ("gdpo", True), ("rovr-gspo", False), ("rovr-gspo-per-reward", True)]
)
def test_the_methods_differ_in_the_order_of_summing(method, per_function, tmp_path):
    from rovrl_paper.lab.run import settings

    assert settings(Job(method=method, reward="several"), tmp_path).credit_per_function == per_function
