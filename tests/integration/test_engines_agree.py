"""One batch through both engines, as TRL's trainer and verl's estimator and loss take it: every number they log is the same."""

import json
import warnings

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import tiny
from rovrl.diagnostics import PREFIX, WEIGHT_METRICS

GROUP, GROUPS = 16, 6
REWARDS = 0.2 * torch.randn(GROUPS, GROUP, generator=torch.Generator().manual_seed(12))
REWARDS[0, 3] = 25.0  # a spike
REWARDS[1] = 0.5  # tied
REWARDS[2, 1:] = torch.nan  # a single score
REWARDS[3, ::2] = torch.nan
BREVITY = -torch.randint(1, 9, (GROUPS * GROUP,), generator=torch.Generator().manual_seed(13)).float()
CHANNELS = {
    "paper": {},
    "lagged": {"scale_source": "lagged"},
    "local": {"scale_source": "local"},
    "adaptive": {"credit_bound": "adaptive", "credit_floor": "adaptive"},
    "undeclared": {"failure_unit": None},
    "median of means": {"reference": "mom"},
    "faults rejected": {"faults": "reject"},
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="module")
def verl():
    """verl's own functions, imported while its warnings about engines that are not installed do not count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from verl import DataProto
        from verl.trainer.ppo.ray_trainer import compute_advantage
        from verl.workers.config import FSDPActorConfig

        from rovrl.integrations.verl import algorithms
    return DataProto, compute_advantage, FSDPActorConfig, algorithms


def planted(completions, **_):
    return [None if reward != reward else reward for reward in REWARDS.flatten().tolist()]


def ours(numbers):
    return {name: value for name, value in numbers.items() if name.startswith(PREFIX)}


def logged_by_trl(directory, start, channel):
    """(advantages, metrics) of the first step that TRL's trainer takes on these rewards."""
    trainer = tiny.trainer(
        directory, start=start, rewards=planted, reward_channel=channel, ratio_channel=None, steps_per_generation=GROUPS,
        max_steps=1, max_completion_length=4,
    )  # fmt: skip
    trainer.train()
    assert trainer.last_explanation is not None
    return trainer.last_explanation.advantages, ours(trainer.state.log_history[0])


def logged_by_verl(directory, verl, channel):
    """(advantages, metrics) of the first step that verl's driver takes on these rewards."""
    proto, compute_advantage, _, _ = verl
    token_level = torch.zeros(GROUPS * GROUP, 4)
    token_level[:, -1] = REWARDS.flatten()
    batch = proto.from_dict(
        tensors={"token_level_rewards": token_level, "response_mask": torch.ones(GROUPS * GROUP, 4, dtype=torch.long)},
        non_tensors={"uid": np.repeat([f"prompt {g}" for g in range(GROUPS)], GROUP).astype(object)},
    )
    whole = OmegaConf.create(
        {
            "algorithm": {"adv_estimator": "rovr", "rovr": channel},
            "trainer": {"default_local_dir": str(directory), "save_freq": 1, "resume_mode": "disable"},
            "actor_rollout_ref": {"rollout": {"n": GROUP}},
        }
    )
    done = compute_advantage(batch, adv_estimator="rovr", config=whole.algorithm).batch["advantages"][:, 0]
    return done, ours(json.loads((directory / "rovr_scale.jsonl").read_text().splitlines()[0]))


@pytest.mark.parametrize("settings", CHANNELS.values(), ids=CHANNELS)
def test_both_engines_log_the_same_numbers_about_the_same_rewards(settings, start, verl, tmp_path):
    channel = {"partition": "contiguous", **settings}  # random blocks are seeded by the engine
    advantages, of_trl = logged_by_trl(tmp_path / "trl", start, channel)
    theirs, of_verl = logged_by_verl(tmp_path / "verl", verl, channel)
    assert torch.equal(advantages.float(), theirs)
    assert of_trl.keys() == of_verl.keys()
    assert len(of_trl) >= 8
    # the same float64 numbers, but for a mean over one generation
    assert of_trl == pytest.approx(of_verl, rel=1e-12, nan_ok=False)


def brevity(completions, **_):
    return BREVITY.tolist()


def test_several_reward_functions_get_the_same_credit_in_both_engines(start, verl, tmp_path):
    from rovrl.integrations.verl.step import Step, announced

    channel = {"partition": "contiguous"}
    trainer = tiny.trainer(
        tmp_path, start=start, rewards=[planted, brevity], reward_weights=[1.0, 0.5], reward_channel=channel,
        multi_objective_aggregation="normalize_then_sum", ratio_channel=None, steps_per_generation=GROUPS, max_steps=1,
        max_completion_length=4,
    )  # fmt: skip
    trainer.train()
    settings = {"gdpo_reward_keys": ["planted", "brevity"], "gdpo_reward_weights": [1.0, 0.5], "rovr": channel}
    uids = np.repeat([f"prompt {g}" for g in range(GROUPS)], GROUP).astype(object)

    class Scored(Step):
        """A step whose reward fields are given here; in a run they come from verl's TransferQueue."""

        def reward_fields(self, rows, names):
            return torch.stack([REWARDS.flatten(), BREVITY], -1).double()[rows]

    step = Scored([f"{uid}_{i}_0" for i, uid in enumerate(uids)], {})
    with announced(step):
        theirs, _ = verl[3].rovr_advantages(
            torch.zeros(GROUPS * GROUP, 4), torch.ones(GROUPS * GROUP, 4), uids, OmegaConf.create(settings)
        )
    assert torch.equal(trainer.last_explanation.advantages.float(), theirs[:, 0])
    of_trl = ours(trainer.state.log_history[0])
    assert of_trl == pytest.approx(ours(step.metrics), rel=1e-12)
    assert {"rovr/variance_share/planted", "rovr/variance_share/brevity"} <= of_trl.keys()


def moved(scale):
    """Old and new log-probabilities, a mask with a hole and an empty row, and advantages."""
    generator = torch.Generator().manual_seed(4)
    old = -3 * torch.rand(12, 40, generator=generator)
    new = old + scale * torch.randn(12, 40, generator=generator)
    new[0, 5] += 100 * scale
    mask = torch.arange(40) < torch.randint(8, 41, (12, 1), generator=generator)
    mask[1, 3:6] = False
    mask[2] = False
    return old, new, mask, torch.randn(12, generator=generator)


@pytest.mark.parametrize("scale", [2e-3, 1e-7], ids=["moved", "rounding"])
def test_both_engines_log_the_same_numbers_about_the_same_log_ratios(scale, start, verl, tmp_path):
    old, new, mask, advantage = moved(scale)
    trainer = tiny.trainer(tmp_path, start=start)
    trainer.model.train()
    trainer._metrics["train"].clear()
    trainer._recentred(new, {"completion_mask": mask.long(), "old_per_token_logps": old, "advantages": advantage})
    of_trl = {name: value for name, (value,) in trainer._metrics["train"].items()}

    _, _, actor, algorithms = verl
    config = actor(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=4, loss_agg_mode="seq-mean-token-mean",
        clip_ratio_low=3e-4, clip_ratio_high=4e-4, policy_loss=algorithms.RoVRPolicyLossConfig(),
    )  # fmt: skip
    config.global_batch_info.update(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=12)
    per_token = advantage.unsqueeze(-1) * mask
    _, found = algorithms.rovr_gspo_loss(old, new, per_token, mask.long(), config=config)
    of_verl = ours({name.removeprefix("actor/"): value for name, value in found.items()})

    assert of_verl.keys() == {PREFIX + name for name in WEIGHT_METRICS}
    silent = (
        {PREFIX + "weight_disagreement"} if scale == 1e-7 else set()
    )  # verl wants every number: 0 where TRL has none
    assert of_verl.keys() - of_trl.keys() == silent
    assert of_trl | dict.fromkeys(silent, 0.0) == pytest.approx(of_verl, rel=1e-6, abs=1e-12)  # the sums are float32
