"""Learned rewards: a tiny classification model in process, and the server that the environment names."""

import asyncio
import inspect

import pytest
import torch

from reward_servers import running
from rovrl.errors import RovrlError
from rovrl.tasks import reward_model
from rovrl.tasks.chat import conversation
from rovrl.tasks.reward_model import ClassifierReward
from samples_tasks import classifier


def test_verl_and_trl_take_the_server_from_the_environment(monkeypatch):
    with running() as server:
        monkeypatch.setenv("ROVRL_REWARD_URL", server.url)
        monkeypatch.setenv("ROVRL_REWARD_TOKEN", "secret")
        assert reward_model.learned_reward(prompts=["?"], completions=["abcd"], answer=["x"]) == [4.0]
        assert server.headers[-1]["Authorization"] == "Bearer secret"
        score = reward_model.compute_score("math", "abcd", "x", extra_info={"question": "?"})
        assert asyncio.run(score)["score"] == 4.0
    monkeypatch.delenv("ROVRL_REWARD_URL")
    with pytest.raises(RovrlError, match="export ROVRL_REWARD_URL"):
        reward_model.learned_reward(prompts=["?"], completions=["a"])


def test_verls_own_reward_manager_awaits_the_score_and_gets_batches(monkeypatch):
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    settings = {"path": "pkg://rovrl.tasks.reward_model", "name": "compute_score", "reward_kwargs": {}}
    with running() as server:
        settings["reward_kwargs"] = {"url": server.url}
        score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": settings}}))
        assert inspect.iscoroutinefunction(score)  # what verl's reward manager looks at before it awaits

        async def rollout():
            asked = (score(data_source="", solution_str="x" * n, ground_truth="", extra_info={}) for n in range(64))
            return await asyncio.gather(*asked)

        assert [told["score"] for told in asyncio.run(rollout())] == [float(n) for n in range(64)]
        assert sum(server.sizes) == 64
        assert len(server.sizes) < 10


def test_a_batch_gives_each_conversation_the_score_it_has_alone(tmp_path):
    reward = ClassifierReward(classifier(tmp_path), batch=3)
    prompts = [f"{n}+{n}=?" for n in range(7)]
    completions = ["yes" * (n % 4 + 1) for n in range(7)]
    together = reward(prompts=prompts, completions=completions)
    alone = [reward([p], [c])[0] for p, c in zip(prompts, completions, strict=True)]
    assert together == pytest.approx(alone, abs=1e-5)  # padding changes float32 rounding only
    assert len(set(together)) > 3


def test_a_score_that_is_not_finite_is_none(tmp_path):
    reward = ClassifierReward(classifier(tmp_path))
    with torch.no_grad():
        reward.model.score.weight.fill_(float("nan"))
    assert reward(["?"], ["a"]) == [None]


def test_a_model_with_two_labels_or_none_at_all_is_refused(tmp_path):
    with pytest.raises(RovrlError, match="2 labels: a reward needs exactly one"):
        ClassifierReward(classifier(tmp_path / "two", labels=2))
    with pytest.raises(RovrlError, match="could not be loaded"):
        ClassifierReward(str(tmp_path / "nowhere"))


def test_a_conversation_keeps_the_prompts_roles():
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    chat = conversation(asked, [{"role": "assistant", "content": "a"}])
    assert [message["role"] for message in chat] == ["system", "user", "assistant"]
    assert conversation("u", "a") == [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
