"""SkyRL and Trinity-RFT: their real registries, losses and estimators, with both channels. Their trainers need GPUs."""

import os
import subprocess
import sys
import types
import typing
import warnings
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import typing_extensions

import one_batch
import rovrl
from rovrl.integrations import functions
from rovrl.integrations.environment import RATIO, REWARD

ROOT = Path(__file__).parents[2]
LIMIT = '{"num_blocks": 1, "score_width": 1e6}'
"""The mean as the limit of SoftRoVR."""


@pytest.fixture(scope="module")
def engines():
    """Both engines, from a directory that `.ci/registries` fills once."""
    made = subprocess.run(
        [ROOT / ".ci/registries"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    sys.path.append(made.stdout.strip())
    kept, typing.TypedDict = (
        typing.TypedDict,
        typing_extensions.TypedDict,
    )  # SkyRL is for Python 3.12, where they are one
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from skyrl.backends.skyrl_train.utils import ppo_utils
            from skyrl.train.config import AlgorithmConfig
            from trinity.algorithm.advantage_fn import ADVANTAGE_FN
            from trinity.algorithm.policy_loss_fn import POLICY_LOSS_FN
            from trinity.common.experience import EID, Experience

            from rovrl.integrations import skyrl
    finally:
        typing.TypedDict = kept
    return types.SimpleNamespace(
        skyrl=ppo_utils,
        AlgorithmConfig=AlgorithmConfig,
        ours=skyrl,
        ADVANTAGE_FN=ADVANTAGE_FN,
        POLICY_LOSS_FN=POLICY_LOSS_FN,
        EID=EID,
        Experience=Experience,
    )


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setenv(REWARD, one_batch.CHANNEL_JSON)
    functions.run.cache_clear()
    yield
    functions.run.cache_clear()


def loss_batch(seed=0, rows=6, tokens=20):
    draw = torch.Generator().manual_seed(seed)
    mask = (torch.arange(tokens) < torch.randint(8, tokens + 1, (rows, 1), generator=draw)).float()
    old = -torch.rand(rows, tokens, generator=draw)
    new = (old + 0.01 * torch.randn(rows, tokens, generator=draw)).requires_grad_()
    credit = torch.randn(rows, 1, generator=draw) * mask
    return new, old, credit, mask


def outcome(loss, log_probs):
    (gradient,) = torch.autograd.grad(loss, log_probs)
    return loss.detach(), gradient


# --- SkyRL ----------------------------------------------------------------------------------------------------------------


def test_skyrls_estimator_gives_the_one_batchs_advantages_and_metrics(engines):
    engines.ours.register()
    engines.ours.register()  # again changes nothing
    rewards, mask = one_batch.token_level()
    found, returns = engines.skyrl.compute_advantages_and_returns(
        rewards, mask, one_batch.ids(), "rovr", engines.AlgorithmConfig(advantage_estimator="rovr")
    )
    one_batch.check(found[:, 0], functions.run().metrics())
    assert torch.equal(found, returns)


def test_skyrls_loss_is_its_own_gspo_in_the_limit_of_the_mean(engines, monkeypatch):
    engines.ours.register()
    config = engines.AlgorithmConfig(loss_reduction="sequence_mean", eps_clip_low=0.001, eps_clip_high=0.001)
    new, old, credit, mask = loss_batch()
    scaled = engines.skyrl.apply_loss_reduction_to_advantages_minibatch(credit, mask, "sequence_mean", 6, 20)
    gspo, ours = (engines.skyrl.PolicyLossRegistry.get(name) for name in ("gspo", "rovr_gspo"))
    theirs = outcome(gspo(new, old, scaled, config, mask)[0], new)
    robust = outcome(ours(new, old, scaled, config, mask)[0], new)
    monkeypatch.setenv(RATIO, LIMIT)
    loss, metrics = ours(new, old, scaled, config, mask)
    limit = outcome(loss, new)
    for found, expected in zip(limit, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(robust[1], theirs[1], rtol=1e-2)  # the comparison could have failed
    assert metrics["rovr/weight_shift"] < 1e-6
    assert 0 < metrics["clip_ratio"] < 1


# --- Trinity-RFT ----------------------------------------------------------------------------------------------------------


def experiences(engines, steps=1):
    rewards, prompts = one_batch.rewards().tolist(), one_batch.ids()
    return [
        engines.Experience(
            eid=engines.EID(task=str(prompt), run=run, step=step),
            tokens=torch.arange(7),
            prompt_length=2,
            reward=reward,
        )
        for run, (prompt, reward) in enumerate(zip(prompts, rewards, strict=True))
        for step in range(steps)
    ]


@pytest.mark.parametrize("steps", [1, 3])
def test_trinitys_estimator_gives_the_one_batchs_advantages_and_a_run_with_several_steps_counts_once(engines, steps):
    advantage = engines.ADVANTAGE_FN.get("rovrl.integrations.trinity.RoVRAdvantage")()
    found, metrics = advantage.process(experiences(engines, steps))
    assert len(found) == 32 * steps
    one_batch.check(torch.stack([each.advantages[-1] for each in found[::steps]]), metrics)
    assert all(torch.equal(a.advantages, b.advantages) for a, b in pairwise(found) if a.eid.run == b.eid.run)


def test_trinitys_loss_is_its_own_gspo_in_the_limit_of_the_mean(engines, monkeypatch):
    made = engines.POLICY_LOSS_FN.get("rovrl.integrations.trinity.RoVRGSPOLoss")
    arguments = {"clip_range_low": 0.003, "clip_range_high": 0.004}
    ours, gspo = made(**arguments), engines.POLICY_LOSS_FN.get("gspo")(**arguments)
    assert ours.select_keys == gspo.select_keys
    new, old, credit, mask = loss_batch(seed=1)
    batch = {"old_log_probs": old, "response_mask": mask, "advantages": credit}  # verl's names, which its trainer gives
    theirs = outcome(gspo(new, **batch)[0], new)
    robust = outcome(ours(new, **batch)[0], new)
    monkeypatch.setenv(RATIO, LIMIT)
    limit = outcome(ours(new, **batch)[0], new)
    for found, expected in zip(limit, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(robust[1], theirs[1], rtol=1e-2)


# --- an import path -------------------------------------------------------------------------------------------------------


def test_the_functions_give_the_one_batchs_advantages_and_a_channel_switched_off_is_a_sentence(monkeypatch):
    rewards, mask = one_batch.token_level()
    found, _ = functions.advantages(rewards, mask, one_batch.ids())
    one_batch.check(found[:, 0], functions.run().metrics())
    monkeypatch.setenv(RATIO, "none")
    with pytest.raises(rovrl.errors.RovrlError, match="name the engine's own loss instead"):
        functions.policy_loss(rewards, rewards, rewards, mask)
    functions.run.cache_clear()
    monkeypatch.setenv(REWARD, "none")
    with pytest.raises(rovrl.errors.RovrlError, match="name the engine's own estimator instead"):
        functions.advantages(rewards, mask, one_batch.ids())
