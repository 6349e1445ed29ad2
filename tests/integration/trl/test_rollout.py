"""The rollout correction in TRL: its own ratios are ours by name, and ours multiply its loss whoever sampled."""

import pytest
import torch

import rovrl
import tiny
from trl_loss import TOLERANCE, batch, distance, make, outcome

MODES = {
    "token_truncate": rovrl.RolloutCorrection("token", "truncate", 0.6, 1.4),
    "token_mask": rovrl.RolloutCorrection("token", "mask", 0.6, 1.4),
    "sequence_truncate": rovrl.RolloutCorrection("sum", "truncate", 0.6, 1.4),
    "sequence_mask": rovrl.RolloutCorrection("sum", "mask", 0.6, 1.4),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("rollout"))


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def elsewhere(prompts, trainer):
    """A rollout_func as a user writes it: tokens drawn at random, with the log-probabilities of the engine that drew them."""
    generator = torch.Generator().manual_seed(trainer.state.global_step)
    ids = [trainer.processing_class(text)["input_ids"] for text in prompts]
    drawn = torch.randint(3, 60, (len(prompts), 10), generator=generator)
    logprobs = -4.57 + 0.3 * torch.randn(len(prompts), 10, generator=generator)
    return {"prompt_ids": ids, "completion_ids": drawn.tolist(), "logprobs": logprobs.tolist()}


@pytest.mark.parametrize("mode", MODES)
def test_the_ratios_of_trls_own_modes_are_ours(mode, path, tmp_path):
    trainer = tiny.trainer(
        tmp_path,
        start=path,
        rollout_func=elsewhere,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=0.6,
        vllm_importance_sampling_clip_max=1.4,
    )
    trainer.use_vllm, trainer._last_loaded_step = True, 0  # as with vLLM, whose part the rollout_func plays
    trainer.model.train()
    output = trainer._generate_and_score_completions([{"prompt": "1+1=", "answer": "2"}] * 16)
    log_ratios = output["old_per_token_logps"] - output["sampling_per_token_logps"]
    ours = rovrl.rollout_weights(log_ratios, output["completion_mask"].bool(), MODES[mode])
    theirs = output["importance_sampling_ratio"]
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs)
    assert 0 < ((theirs == 1.4) | (theirs == 0.6) | (theirs == 0)).float().mean() < 1  # the bounds act, not everywhere


@pytest.mark.parametrize("loss_type", ["grpo", "dapo"])
@pytest.mark.parametrize("name", ["icepop", "mis", "soft_rovr_reject"])
def test_the_loss_is_trls_with_our_weights_as_its_ratios(name, loss_type, path, tmp_path, generator):
    trainer = make(path, tmp_path, rollout_func=elsewhere, rollout_correction=name, loss_type=loss_type)
    inputs = batch(trainer, generator, tools=True)
    noise = 0.2 * torch.randn(16, 24, generator=generator)
    inputs["sampling_per_token_logps"] = inputs["old_per_token_logps"] + torch.where(noise.abs() > 0.3, 5 * noise, 0.0)
    loss, gradient, _ = outcome(trainer, trainer._compute_loss, inputs)
    assert (trainer.use_vllm, trainer.vllm_importance_sampling_correction) == (False, True)  # as they were
    plain = make(path, tmp_path, loss_type=loss_type)
    plain.use_vllm = True
    mask = inputs["completion_mask"].bool() & inputs["tool_mask"].bool()
    log_ratios = inputs["old_per_token_logps"] - inputs["sampling_per_token_logps"]
    ratio = rovrl.rollout_weights(log_ratios, mask, name)
    expected = outcome(plain, plain._compute_loss, inputs | {"importance_sampling_ratio": ratio})
    assert loss == pytest.approx(expected[0], rel=TOLERANCE)
    assert distance(gradient, expected[1]) < TOLERANCE
    unweighted = outcome(plain, plain._compute_loss, inputs | {"importance_sampling_ratio": torch.ones(16, 1)})
    assert distance(gradient, unweighted[1]) > 0.01  # the weights matter here


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"steps_per_generation": 1}])
def test_a_rollout_func_is_corrected_also_where_trl_computes_no_old_log_probabilities(changes, tmp_path):
    trainer = tiny.trainer(tmp_path, rollout_func=elsewhere, rollout_correction={"statistic": "sum"}, **changes)
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["rovr/rollout_gap"] > 0.1
    assert 0 < logged["rovr/rollout_weight"] < 2
    assert logged["rovr/rollout_left_out"] == 0
    assert not any(name.startswith("sampling/") for name in logged)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rollout_correction": "tis"}, "needs the log-probabilities of the engine that sampled: set use_vllm=True"),
        ({"rollout_correction": "tsi"}, "must be one of tis, tis_sequence, mis"),
        ({"rollout_correction": {"lower": 1}}, "RolloutCorrection has no field lower"),
        ({"rollout_correction": "mis", "use_vllm": True, "vllm_importance_sampling_correction": False}, "contradicts"),
        ({"rollout_correction": "mis", "use_liger_kernel": True, "ratio_channel": None}, "use_liger_kernel=True can replace"),
        (
            {"rollout_correction": "mis", "loss_type": "vespo", "ratio_channel": None},
            "loss_type='vespo' uses token ratios of its own",
        ),
    ],
)  # fmt: skip
def test_a_correction_that_could_not_act_is_refused_before_the_first_rollout(changes, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        tiny.trainer(tmp_path, **changes)


def test_a_generation_without_the_samplers_log_probabilities_is_told(path, tmp_path, generator):
    trainer = make(path, tmp_path, rollout_func=elsewhere, rollout_correction="tis")
    with pytest.raises(rovrl.RovrlError, match="return them as 'logprobs' from rollout_func"):
        trainer._compute_loss(trainer.model, batch(trainer, generator))
