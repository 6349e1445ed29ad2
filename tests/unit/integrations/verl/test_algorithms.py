"""Through verl's own functions, without Ray: what the trainer's driver and its workers call."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import rovrl
from rovrl.robust.blocks import FIXED_SEED


@pytest.fixture(scope="module")
def verl():
    """What of verl the tests use; imported here, since it takes seconds that collecting tests must not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about engines and a GPU that are not there
        from verl import DataProto
        from verl.trainer.ppo import core_algos
        from verl.trainer.ppo.ray_trainer import compute_advantage
        from verl.utils import tensordict_utils
        from verl.workers.config import FSDPActorConfig
        from verl.workers.utils.losses import ppo_loss

        import rovrl.integrations.verl.algorithms as integration

    return SimpleNamespace(
        DataProto=DataProto,
        core_algos=core_algos,
        compute_advantage=compute_advantage,
        td=tensordict_utils,
        FSDPActorConfig=FSDPActorConfig,
        ppo_loss=ppo_loss,
        integration=integration,
    )


# --- the estimator, through compute_advantage ---------------------------------------------------------------------------


def advantages(verl, rewards, uids, mask=None, estimator="rovr", **settings):
    """Per response, from verl's compute_advantage on a batch whose reward stands at the last of ten tokens."""
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    mask = torch.ones(len(rewards), 10, dtype=torch.long) if mask is None else mask
    token_level = torch.zeros(len(rewards), 10)
    token_level[:, -1] = rewards
    batch = verl.DataProto.from_dict(
        tensors={"token_level_rewards": token_level, "response_mask": mask},
        non_tensors={"uid": np.array(uids, dtype=object)},
    )
    config = OmegaConf.create(
        {"adv_estimator": estimator, "rovr": settings} if settings else {"adv_estimator": estimator}
    )
    result = verl.compute_advantage(batch, adv_estimator=estimator, config=config).batch
    assert torch.equal(result["advantages"].nan_to_num(9), result["returns"].nan_to_num(9))
    value = result["advantages"].gather(-1, mask.argmax(-1, keepdim=True))
    assert torch.equal(result["advantages"].nan_to_num(9), (value * mask).nan_to_num(9))  # constant over the mask
    return value.squeeze(-1)


def test_ragged_groups_in_any_order_get_the_advantages_of_grouped_advantages(verl):
    rng = np.random.default_rng(0)
    uids = rng.permutation(["a"] * 12 + ["b"] * 13 + ["c"] * 16 + ["d"])  # blocks of four and more: local scales
    rewards = rng.normal(size=len(uids)).astype(np.float32)
    ours = advantages(verl, rewards, uids)
    expected = rovrl.grouped_advantages(
        torch.tensor(rewards, dtype=torch.float64),
        uids,
        rovrl.RewardChannel(),
        generator=torch.Generator().manual_seed(FIXED_SEED),  # the first step's
    )
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=1e-6)  # verl keeps float32
    assert ours[list(uids).index("d")] == 0


def test_settings_reach_the_channel_and_change_the_advantages(verl):
    rewards, uids = np.random.default_rng(1).normal(size=16) * 3, ["a"] * 16
    assert not torch.equal(advantages(verl, rewards, uids), advantages(verl, rewards, uids, credit_bound=0.5))


def test_a_spike_leaves_the_others_where_grpo_loses_them(verl):
    rewards, uids = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.3, 0.5], ["a"] * 9
    spiked = [*rewards[:-1], 1e6]
    clean = torch.arange(9) < 8

    def retained(estimator):
        before, after = (advantages(verl, r, uids, estimator=estimator) for r in (rewards, spiked))
        return float(rovrl.contrast(after, clean) / rovrl.contrast(before, clean))

    assert retained("rovr") > 0.4  # the paper keeps about half
    assert retained("grpo") < 1e-4


def test_a_nan_reward_is_isolated_where_grpo_loses_the_group(verl):
    rewards, uids = [math.nan, *np.linspace(0, 1, 15)], ["a"] * 16
    ours = advantages(verl, rewards, uids)
    assert ours[0] == 0
    torch.testing.assert_close(ours[1:], advantages(verl, rewards[1:], uids[1:]))
    assert advantages(verl, rewards, uids, estimator="grpo").isnan().all()


def test_padding_and_fully_masked_rows_get_zero_and_move_nobody(verl):
    rewards, uids = list(np.linspace(0, 1, 12)), ["a"] * 12
    alone = advantages(verl, rewards, uids)
    mask = torch.ones(15, 10, dtype=torch.long)
    mask[12:] = 0
    padded = advantages(verl, [*rewards, 50.0, 0.0, 0.0], [*uids, "a", "pad0", "pad0"], mask)
    assert torch.equal(padded, torch.cat([alone, torch.zeros(3)]))


def test_a_response_with_holes_in_its_mask_gets_its_advantage_on_the_valid_tokens_only(verl):
    mask = torch.ones(9, 10, dtype=torch.long)
    mask[0, 3:6] = 0
    ours = advantages(verl, np.linspace(0, 1, 9), ["a"] * 9, mask)  # asserts zero outside the mask
    assert ours[0] != 0


def test_an_unknown_setting_is_refused_with_the_channels_own_sentence(verl):
    with pytest.raises(ValueError, match="RewardChannel has no field num_block; did you mean num_blocks"):
        advantages(verl, [0.0, 1.0], ["a", "a"], num_block=3)


def test_registering_again_changes_nothing_and_a_foreign_owner_is_not_replaced(verl, monkeypatch):
    before = dict(verl.core_algos.ADV_ESTIMATOR_REGISTRY)
    verl.integration.register()
    assert before == verl.core_algos.ADV_ESTIMATOR_REGISTRY
    monkeypatch.setitem(verl.core_algos.ADV_ESTIMATOR_REGISTRY, "rovr", np.mean)
    with pytest.raises(ValueError, match="already knows a 'rovr'"):
        verl.integration.register()


# --- the loss, through ppo_loss ------------------------------------------------------------------------------------------

MEAN = {"num_blocks": 1, "score_width": 1e6}
"""One block and a very wide score function: SoftRoVR is the mean."""
PROMPT = 3


class Batch:
    """Responses of given lengths as verl's workers hold them: nested tensors, log-probabilities over prompt + response."""

    def __init__(self, verl, lengths, seed=0, spread=0.01):
        g = torch.Generator().manual_seed(seed)
        self.verl, self.lengths = verl, lengths
        self.old = [-3 * torch.rand(n, generator=g) for n in lengths]
        self.new = [o + spread * torch.randn(len(o), generator=g) for o in self.old]
        self.advantage = [torch.randn((), generator=g).expand(n).clone() for n in lengths]
        self.mask = [torch.ones(n, dtype=torch.long) for n in lengths]
        self.rollout_weights = None

    def loss(
        self,
        mode="rovr_gspo",
        rows=None,
        total=None,
        ranks=1,
        aggregation="seq-mean-token-mean",
        dtype=None,
        **settings,
    ):
        """(loss, gradient per response, metrics) of verl's ppo_loss on `rows`, normalised for a batch of `total`."""
        verl, rows = self.verl, list(range(len(self.lengths))) if rows is None else rows
        config = verl.FSDPActorConfig(
            strategy="fsdp",
            rollout_n=4,
            ppo_micro_batch_size_per_gpu=4,
            loss_agg_mode=aggregation,
            clip_ratio_low=settings.pop("clip_low", 3e-4),
            clip_ratio_high=settings.pop("clip_high", 4e-4),
            policy_loss=verl.integration.RoVRPolicyLossConfig(loss_mode=mode, rovr=settings),
        )
        fields = {
            "prompts": _nested([torch.zeros(PROMPT, dtype=torch.long) for _ in rows]),
            "responses": _nested([torch.zeros(self.lengths[i], dtype=torch.long) for i in rows]),
            "response_mask": _nested([self.mask[i] for i in rows]),
            "old_log_probs": _nested([self.old[i] for i in rows]),
            "advantages": _nested([self.advantage[i] for i in rows]),
        }
        if self.rollout_weights is not None:
            fields["rollout_is_weights"] = _nested([self.rollout_weights[i] for i in rows])
        tokens = sum(int(self.mask[i].sum()) for i in range(len(self.lengths)))
        info = {"dp_size": ranks, "batch_num_tokens": tokens, "global_batch_size": total or len(rows)}
        data = verl.td.get_tensordict(fields, info)
        # verl's log-probabilities are shifted by one: the response's first stands at the prompt's last place
        flat = torch.cat([torch.cat([torch.zeros(PROMPT - 1), self.new[i], torch.zeros(1)]) for i in rows])
        flat = flat.to(dtype or flat.dtype).requires_grad_()
        ends = torch.tensor([0, *np.cumsum([self.lengths[i] + PROMPT for i in rows])])
        loss, metrics = verl.ppo_loss(config, {"log_probs": torch.nested.nested_tensor_from_jagged(flat, ends)}, data)
        loss.backward()
        gradient = [flat.grad[start + PROMPT - 1 :][: self.lengths[i]] for i, start in zip(rows, ends, strict=False)]
        return loss.detach(), gradient, {k: v.aggregate() for k, v in metrics.items() if hasattr(v, "aggregate")}


def _nested(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean", "seq-mean-token-sum"])
@pytest.mark.parametrize("clip", [0.9, 3e-4])
def test_one_block_and_a_very_wide_score_are_verls_own_gspo_in_loss_and_gradient(verl, aggregation, clip):
    batch = Batch(verl, [40, 17, 33, 5, 26])
    batch.mask[2][10:15] = 0  # a tool's answer inside the response
    arguments = {"aggregation": aggregation, "clip_low": clip, "clip_high": clip}
    ours, gradient, _ = batch.loss(**arguments, **MEAN)
    theirs, expected, _ = batch.loss("gspo", **arguments)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(torch.cat(gradient), torch.cat(expected), rtol=1e-5, atol=1e-6)
    assert torch.cat(gradient).abs().max() > 1e-4  # something is compared


def test_rollout_weights_multiply_as_in_verls_gspo(verl):
    batch = Batch(verl, [40, 17, 33])
    batch.rollout_weights = [torch.rand(n) + 0.5 for n in batch.lengths]
    ours, gradient, _ = batch.loss(clip_low=0.9, clip_high=0.9, **MEAN)
    theirs, expected, _ = batch.loss("gspo", clip_low=0.9, clip_high=0.9)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    for row, other in zip(gradient, expected, strict=True):
        # gspo's stop-gradient gives each token its own rollout weight; the sequence's is their mean
        torch.testing.assert_close(row.sum(), other.sum(), rtol=1e-5, atol=1e-6)


def test_the_loss_is_the_clipped_objective_of_soft_rovr_with_its_own_gradient(verl):
    batch = Batch(verl, [64, 48, 80], spread=0.02)
    batch.new[0][20:30] += 5.0  # a burst
    loss, gradient, _ = batch.loss(clip_low=0.9, clip_high=0.9)
    expected = 0.0
    for i, found in enumerate(gradient):
        z = (batch.new[i] - batch.old[i]).requires_grad_()
        value = rovrl.clipped_objective(rovrl.soft_rovr(z), batch.advantage[i][0], 0.9, 0.9)
        value.backward()
        expected -= value.item() / 3
        torch.testing.assert_close(found, -z.grad / 3, rtol=1e-5, atol=1e-7)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean"])
@pytest.mark.parametrize("split", [[[0], [1], [2], [3], [4], [5]], [[5, 0, 3], [1], [2, 4]]])
def test_splitting_a_batch_into_other_micro_batches_changes_nothing(verl, split, aggregation):
    batch = Batch(verl, [40, 17, 33, 5, 26, 12])
    batch.mask[3][:] = 0
    whole, gradient, _ = batch.loss(aggregation=aggregation)
    parts = [batch.loss(rows=rows, total=6, aggregation=aggregation) for rows in split]
    torch.testing.assert_close(sum(loss for loss, _, _ in parts), whole, rtol=1e-6, atol=1e-7)
    for rows, (_, found, _) in zip(split, parts, strict=True):
        for i, row in zip(rows, found, strict=True):
            torch.testing.assert_close(row, gradient[i], rtol=1e-6, atol=1e-9)


def test_two_data_parallel_ranks_average_to_the_gradient_of_one(verl):
    batch = Batch(verl, [40, 17, 33, 5])
    _, gradient, _ = batch.loss()
    for rows in ([0, 1], [2, 3]):
        _, found, _ = batch.loss(rows=rows, total=4, ranks=2)
        for i, row in zip(rows, found, strict=True):
            torch.testing.assert_close(row / 2, gradient[i], rtol=1e-6, atol=1e-9)  # FSDP divides by the ranks


def test_a_row_without_valid_tokens_adds_nothing_to_loss_and_gradient(verl):
    batch = Batch(verl, [40, 17, 33])
    batch.mask[1][:] = 0
    batch.old[1][:] = -torch.inf  # whatever stands there must not be seen
    loss, gradient, metrics = batch.loss()
    without, expected, _ = batch.loss(rows=[0, 2], total=3)
    torch.testing.assert_close(loss, without)
    assert not gradient[1].any()
    torch.testing.assert_close(gradient[0], expected[0])
    assert all(math.isfinite(value) for value in metrics.values())


def test_a_micro_batch_of_padding_alone_is_zero_with_finite_metrics(verl):
    batch = Batch(verl, [5, 5])
    for row in batch.mask:
        row[:] = 0
    loss, gradient, metrics = batch.loss(total=8)
    assert loss == 0
    assert not torch.cat(gradient).any()
    assert all(math.isfinite(value) for value in metrics.values())


def test_bfloat16_autocast_does_not_reach_the_weight(verl):
    batch = Batch(verl, [200, 120], spread=1e-3)
    plain, gradient, _ = batch.loss(clip_low=0.9, clip_high=0.9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast, found, _ = batch.loss(clip_low=0.9, clip_high=0.9)
    assert torch.equal(cast, plain)
    assert all(torch.equal(a, b) for a, b in zip(found, gradient, strict=True))


def test_a_huge_log_ratio_gives_a_finite_loss_and_no_gradient(verl):
    batch = Batch(verl, [40, 17])
    batch.new[0] = batch.old[0] + 1000.0
    batch.advantage[0][:] = -1.0  # the branch that no clip bounds
    loss, gradient, _ = batch.loss()
    assert torch.isfinite(loss)
    assert not gradient[0].any()
    assert torch.isfinite(gradient[1]).all()


def test_metrics_say_how_the_weight_differs_from_gspos(verl):
    batch = Batch(verl, [64, 64], spread=1e-4)
    batch.new[0][:8] += 3.0
    batch.advantage[0][:] = 1.0
    _, _, metrics = batch.loss()
    mean = [float((n - o).mean()) for n, o in zip(batch.new, batch.old, strict=True)]
    robust = [float(rovrl.soft_rovr(n - o)) for n, o in zip(batch.new, batch.old, strict=True)]
    shift = [abs(a - b) for a, b in zip(robust, mean, strict=True)]
    assert metrics["actor/rovr/weight_shift"] == pytest.approx(sum(shift) / 2, rel=1e-3)
    assert metrics["actor/rovr/weight_disagreement"] == pytest.approx(sum(shift) / sum(map(abs, mean)), rel=1e-3)
    _, _, gspo = batch.loss("gspo")
    assert metrics["actor/ppo_kl"] == pytest.approx(gspo["actor/ppo_kl"], rel=1e-4)


def test_the_stock_config_of_the_loss_means_the_papers_settings(verl):
    from verl.workers.config import PolicyLossConfig

    assert verl.integration.ratio_channel(PolicyLossConfig(loss_mode="rovr_gspo")) == rovrl.RatioChannel()


def test_a_wrong_setting_of_the_loss_is_refused_when_the_config_is_built(verl):
    with pytest.raises(ValueError, match="RatioChannel has no field gamma"):
        verl.integration.RoVRPolicyLossConfig(rovr={"gamma": 0.01})
    with pytest.raises(ValueError, match="record_every must be a whole number of at least 1, not 0"):
        verl.integration.RoVRPolicyLossConfig(record_every=0)


def test_a_wide_clip_and_another_aggregation_are_explained_once(verl, caplog):
    verl.integration._explain_once.cache_clear()
    batch = Batch(verl, [8, 8])
    for _ in range(2):
        batch.loss(aggregation="token-mean", clip_low=0.2, clip_high=0.2)
    assert len(caplog.messages) == 2
    assert "loss_agg_mode=token-mean" in caplog.messages[0]
    assert "0.2 / 0.2" in caplog.messages[1]
