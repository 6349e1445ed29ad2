"""What a real run of ms-swift logged, audited: every reward and every advantage beside those that the trainer itself held."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from rovrl.audit import audit
from rovrl.integrations.ms_swift import trainer as ours

WEIGHTS = [1.0, 0.5]


@pytest.fixture(scope="module")
def logged(words, workspace, tmp_path_factory):
    """A run that logs inside generations, with entropies (lines end within a group) and evaluations smaller than a batch."""
    from swift.pipelines.train.rlhf import SwiftRLHF

    directory, held = tmp_path_factory.mktemp("logged"), []
    (workspace / "evaluation.jsonl").write_text((workspace / "sums.jsonl").read_text().splitlines()[0])
    compute = ours.RoVRTrainer._compute_advantages

    def remember(self, samples, rewards, *others, **more):
        advantages = compute(self, samples, rewards, *others, **more)
        held.append(SimpleNamespace(training=self.is_training, rewards=rewards.numpy(), advantages=advantages.numpy()))
        return advantages

    changes = {"log_completions": "true", "log_entropy": "true", "max_steps": 8, "save_strategy": "no"}
    changes |= {"per_device_train_batch_size": 8, "steps_per_generation": 4}
    changes |= {"val_dataset": str(workspace / "evaluation.jsonl"), "eval_strategy": "steps", "eval_steps": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours.RoVRTrainer, "_compute_advantages", remember)
        SwiftRLHF(words(directory, per_device_eval_batch_size=16, **changes)).main()
    return SimpleNamespace(directory=directory, held=held)


def test_the_audit_counts_every_response_of_the_training_once_with_the_reward_and_the_advantage_that_it_had(logged):
    found = audit(logged.directory)
    training = [generation for generation in logged.held if generation.training]
    rewards = np.concatenate([np.nansum(g.rewards * np.float32(WEIGHTS), 1) for g in training])
    scored = np.concatenate([np.isfinite(g.rewards).any(1) for g in training])
    assert (found.kind, found.summary.group_sizes, found.summary.responses) == ("swift", {16: 4}, 64)
    np.testing.assert_allclose(found.rollouts.reward[scored], rewards[scored], rtol=1e-6)
    np.testing.assert_array_equal(found.rollouts.advantage, np.concatenate([g.advantages for g in training]))
    told = {note.code: note.sentence for note in found.notes}
    assert told["reward_weights_read"] == "the reward is 1 x Digits + 0.5 x Short, as args.json says"
    assert "evaluation_rows" in told
    assert "group_size_inferred" not in told


def test_the_mean_reward_of_a_step_is_the_one_that_ms_swift_logged(logged):
    lines = map(json.loads, (logged.directory / "logging.jsonl").read_text().splitlines())
    theirs = {int(line["global_step/max_steps"].split("/")[0]): line["reward"] for line in lines if "reward" in line}
    found = audit(logged.directory)
    size = found.rollouts.size
    step = np.repeat(found.rollouts.step, size)
    ours_by_step = {int(s): float(found.rollouts.reward[step == s].mean()) for s in np.unique(step)}
    assert ours_by_step == pytest.approx(theirs, rel=1e-6)


def test_evaluation_is_kept_when_it_is_asked_for(logged):
    found = audit(logged.directory, keep_evaluation=True)
    evaluated = sum(len(generation.rewards) for generation in logged.held if not generation.training)
    assert evaluated == 32
    assert found.summary.responses >= 64 + evaluated
