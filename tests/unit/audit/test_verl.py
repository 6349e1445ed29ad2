"""The audit of a verl run while it goes on: what the settings may say, and what reaches verl's logger."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

import audit_dumps
from rovrl.audit import verl


class PPOTrainer:
    """The part of verl's trainer that the audit listens to, in its order: metrics, dump in a thread, log."""

    def __init__(self, config, scores=(), steps=0):
        self.config, self.scores, self.logged = config, scores, {}
        self.global_steps, self.total_training_steps = 1, steps
        self._dump_futures, self._dump_executor = [], ThreadPoolExecutor(max_workers=1)

    def _compute_metrics(self, batch, metrics, timing_raw, global_steps, epoch):
        metrics["critic/score/mean"] = 0.5

    def _log_rollout_data(self, batch, timing_raw, rollout_data_dir):
        future = self._dump_executor.submit(
            audit_dumps.verl, Path(rollout_data_dir), self.scores[: 8 * self.global_steps]
        )
        self._dump_futures.append(future)

    def fit(self):
        while self.global_steps <= self.total_training_steps:
            metrics = {}
            self._compute_metrics(None, metrics, {}, global_steps=self.global_steps, epoch=0)
            self._log_rollout_data(None, {}, self.config.trainer.rollout_data_dir)
            self.logged[self.global_steps] = metrics
            self.global_steps += 1


@pytest.fixture
def listening():
    """A trainer class of its own for each test, which the audit listens to."""
    module = SimpleNamespace(PPOTrainer=type("PPOTrainer", (PPOTrainer,), dict(vars(PPOTrainer))))
    verl.listen(module)
    verl.listen(module)  # as where verl finds it in two ways
    return module.PPOTrainer


def config(folder, **asked):
    trainer = {"rollout_data_dir": str(folder)} | ({"rovr_audit": asked} if asked else {})
    return OmegaConf.create({"trainer": trainer})


def stuck(steps):
    scores = np.random.default_rng(0).normal(size=(8 * steps, 8))
    scores[24:32] = 0.0
    return scores


def test_every_second_step_numbers_and_findings_are_logged_with_the_steps_metrics(tmp_path, listening):
    trainer = listening(config(tmp_path, every=2), stuck(6), steps=6)
    trainer.fit()
    audited = {step: {name for name in row if name.startswith("audit/")} for step, row in trainer.logged.items()}
    assert [step for step, names in audited.items() if names] == [2, 4, 6]
    assert trainer.logged[2]["audit/findings"] == 0.0
    assert {"audit/contrast_lost", "audit/tied", "audit/finding/stuck_grader"} <= audited[6]
    assert trainer.logged[6]["audit/tied"] == pytest.approx(8 / 48)
    assert "critic/score/mean" in trainer.logged[6]
    assert (tmp_path / "audit" / "audit.html").is_file()


def test_a_finding_that_was_named_ends_the_training_after_its_step(tmp_path, listening):
    trainer = listening(config(tmp_path, every=1, stop_on=["stuck_grader"]), stuck(8), steps=8)
    trainer.fit()
    assert "audit/finding/stuck_grader" in trainer.logged[max(trainer.logged)]
    assert 4 <= max(trainer.logged) < 8


def test_without_the_setting_nothing_is_audited_and_a_failing_audit_ends_nothing(tmp_path, listening, caplog):
    plain = listening(config(tmp_path / "plain"), stuck(2), steps=2)
    plain.fit()
    assert plain.logged[2] == {"critic/score/mean": 0.5}
    broken = listening(config(tmp_path / "broken", every=1), np.zeros((0, 8)), steps=2)
    broken.fit()
    assert broken.logged[2] == {"critic/score/mean": 0.5}
    assert "no audit of this run" in caplog.text


@pytest.mark.parametrize(
    ("trainer", "problem"),
    [
        ({"rovr_audit": {"every": 0}, "rollout_data_dir": "x"}, "at least 1, not 0"),
        ({"rovr_audit": "often", "rollout_data_dir": "x"}, "not 'often'"),
        ({"rovr_audit": {"evry": 3}, "rollout_data_dir": "x"}, "not evry"),
        ({"rovr_audit": 5}, "set trainer.rollout_data_dir"),
        ({"rovr_audit": {"stop_on": ["stuck"]}, "rollout_data_dir": "x"}, "names no finding: stuck"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_before_anything_is_rolled_out(trainer, problem, listening):
    with pytest.raises(ValueError, match=problem):
        listening(OmegaConf.create({"trainer": trainer}))


def test_verls_own_trainer_has_the_two_methods_with_the_arguments_that_are_read():
    import inspect

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Theirs
    computes = list(inspect.signature(Theirs._compute_metrics).parameters)
    dumps = list(inspect.signature(Theirs._log_rollout_data).parameters)
    assert (computes[2], dumps[3]) == ("metrics", "rollout_data_dir")
    fit = inspect.getsource(Theirs.fit)
    assert fit.index("_compute_metrics(") < fit.index("_log_rollout_data(") < fit.rindex("self.logger.log(data=metrics")
    assert "self.global_steps <= self.total_training_steps" in fit
