"""The contract with TRL's asynchronous trainer: its own loss with its token weights swapped for ours gives what we train on.

The oracle is the installed TRL's source of `compute_loss`, with one statement replaced. What a GPU would do, the attention
kernel, is plain torch here (tests/async_rollouts.py).
"""

import inspect
import textwrap
import types

import pytest
import torch

import async_rollouts
import rovrl
import tiny
from async_rollouts import build, module
from trl_loss import TOLERANCE, distance

MEAN = {"num_blocks": 1, "score_width": 1e6}
"""The mean as the limit of SoftRoVR."""
TOKENS = "log_ratio = log_probs - old_log_probs"
OURS = "log_ratio = robust_log_ratio(self, log_probs - old_log_probs, segment_id)"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("async"))


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    async_rollouts.without_gpu(monkeypatch)


def rows(trainer, shared=False, noise=0.01):
    """One packed batch as TRL's own batcher and collator make it, with log-ratios that are far from their mean."""
    worker = trainer.rollout_worker
    samples = worker.samples("1+1=")
    generator = torch.Generator().manual_seed(6)
    for i, sample in enumerate(samples):
        if shared:  # the same beginning, up to the middle of the response: positions that several responses share
            sample.input_ids[:9] = samples[0].input_ids[:9]
        sample.old_log_probs += noise * torch.randn(len(sample.old_log_probs), generator=generator).numpy()
        sample.old_log_probs[6 + i % 3] += 60 * noise * (-1) ** i
        sample.advantage = float(torch.randn(1, generator=generator))
    told = [
        {name: getattr(sample, name) for name in ("input_ids", "completion_mask", "old_log_probs")}
        for sample in samples
    ]
    told = [
        each | {"advantage": s.advantage, "group_id": 0, "metrics": {}} for each, s in zip(told, samples, strict=True)
    ]
    batcher = module.FixedCountBatcher(told, 1, len(told))
    return module.DataCollatorForRollout(0, 1)([next(iter(batcher))])


def outcome(trainer, compute, inputs):
    """The loss, the gradient of all parameters as one vector, and TRL's own metrics."""
    trainer.model.train()
    trainer.model.zero_grad()
    trainer._metrics["train"].clear()
    loss = compute(trainer.model, dict(inputs))
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])
    metrics = {k: v[-1] for k, v in trainer._metrics["train"].items() if not k.startswith("rovr/")}
    return loss.item(), gradient, metrics


def oracle(weight):
    """TRL's own `compute_loss`, in which each token has the `weight` of its response, taken response by response."""
    source = textwrap.dedent(inspect.getsource(module.AsyncGRPOTrainer.compute_loss))
    assert source.count(TOKENS) == 1, "TRL computes its weight in another way: read compute_loss again"

    def robust_log_ratio(trainer, log_ratio, segment_id):
        found = [weight(log_ratio[segment_id == i]) for i in range(int(segment_id.max()) + 1)]
        return torch.stack(found)[segment_id]

    names = {**vars(module), "robust_log_ratio": robust_log_ratio}
    exec(source.replace(TOKENS, OURS), names)
    return names["compute_loss"]


def theirs(trainer, inputs):
    return outcome(trainer, lambda model, x: module.AsyncGRPOTrainer.compute_loss(trainer, model, x), inputs)


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "sharing positions"])
@pytest.mark.parametrize("channel", [{}, {"num_blocks": 3, "gradient": "unrolled"}], ids=["paper", "unrolled"])
def test_loss_and_gradient_are_trls_with_its_token_weights_swapped(channel, shared, path, tmp_path):
    trainer = build(path, tmp_path, ratio_channel=channel)
    inputs = rows(trainer, shared)
    assert shared == (inputs["token_index"].unique().numel() < inputs["token_index"].numel())
    loss, gradient, metrics = outcome(trainer, trainer.compute_loss, inputs)
    weight = oracle(lambda x: rovrl.soft_rovr(x, None, rovrl.RatioChannel(**channel)))
    expected_loss, expected, expected_metrics = outcome(trainer, types.MethodType(weight, trainer), inputs)
    assert loss == pytest.approx(expected_loss, rel=TOLERANCE, abs=TOLERANCE)
    assert distance(gradient, expected) < TOLERANCE
    assert metrics == pytest.approx(expected_metrics, rel=1e-4, abs=1e-5)
    assert distance(theirs(trainer, inputs)[1], expected) > 0.01  # the swap matters: the comparison could have failed


def test_in_the_limit_of_the_mean_the_loss_is_gspo(path, tmp_path):
    trainer = build(path, tmp_path, ratio_channel=MEAN)
    inputs = rows(trainer)
    loss, gradient, _ = outcome(trainer, trainer.compute_loss, inputs)
    expected_loss, expected, _ = outcome(trainer, types.MethodType(oracle(torch.mean), trainer), inputs)
    assert loss == pytest.approx(expected_loss, rel=TOLERANCE, abs=TOLERANCE)
    assert distance(gradient, expected) < TOLERANCE


def test_in_the_limit_of_the_mean_the_loss_is_that_of_trls_other_trainer_at_sequence_level(path, tmp_path):
    trainer = build(path, tmp_path, ratio_channel=MEAN)
    inputs = rows(trainer)
    loss, gradient, _ = outcome(trainer, trainer.compute_loss, inputs)
    other = tiny.trainer(
        tmp_path, start=path, ratio_channel=None, reward_channel=None, loss_type="bnpo", epsilon=0.03, epsilon_high=0.04
    )
    other.model.train()
    other.current_gradient_accumulation_steps = 1
    expected_loss = other._compute_loss(other.model, padded(inputs))
    expected_loss.backward()
    expected = torch.cat([p.grad.flatten() for p in other.model.parameters() if p.grad is not None])
    assert loss == pytest.approx(expected_loss.item(), rel=TOLERANCE, abs=TOLERANCE)
    assert distance(gradient, expected) < TOLERANCE


def padded(inputs):
    """The packed batch, whose responses share no position but the prompt, as GRPOTrainer's loss takes it."""
    segment, old = inputs["segment_id"][0], inputs["old_log_probs"][0]
    responses = int(segment.max()) + 1
    lengths = torch.bincount(segment)
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(-1)
    targets = inputs["shift_labels"][0][inputs["token_index"][0]]
    prompt = torch.tensor(tiny.tokenizer()("1+1=")["input_ids"]).repeat(responses, 1)
    return {
        "prompt_ids": prompt,
        "prompt_mask": torch.ones_like(prompt),
        "completion_ids": torch.zeros_like(mask, dtype=torch.long).masked_scatter(mask, targets),
        "completion_mask": mask.long(),
        "advantages": torch.stack([inputs["advantages"][0][segment == i][0] for i in range(responses)]),
        "old_per_token_logps": torch.zeros(mask.shape).masked_scatter(mask, old),
        "num_items_in_batch": mask.sum(),
    }


def test_where_the_tokens_of_a_response_agree_the_limit_of_the_mean_is_trls_own_loss(path, tmp_path):
    trainer = build(path, tmp_path, ratio_channel=MEAN)
    inputs = rows(trainer, noise=0.0)  # the copy that sampled is the policy itself
    moved = torch.linspace(-0.06, 0.06, int(inputs["segment_id"].max()) + 1)  # some beyond the clip
    inputs["old_log_probs"] = inputs["old_log_probs"] + moved[inputs["segment_id"]]
    ours, own = outcome(trainer, trainer.compute_loss, inputs), theirs(trainer, inputs)
    assert ours[0] == pytest.approx(own[0], rel=TOLERANCE, abs=TOLERANCE)
    assert distance(ours[1], own[1]) < TOLERANCE
    assert ours[2] == pytest.approx(own[2], rel=1e-4, abs=1e-5)
    assert own[2]["clip_ratio/region_mean"] > 0
