"""CONTRIBUTING.md is followed for a reference estimator and for an engine: what it says to touch is enough everywhere."""

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import rovrl
from rovrl import cli
from rovrl.audit import audit
from rovrl.check import Remark, doctor
from rovrl.diagnostics import METRICS, WEIGHT_METRICS, metric, weight_metrics
from rovrl.output.progress import silent
from rovrl.records import RecordWriter, read_steps
from rovrl.robust import location
from rovrl.weight import gspo_mean
from rovrl_paper.stress.rewards import contenders

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()


def test_every_file_and_every_test_that_the_guide_names_exists():
    paths = re.findall(r"`((?:src|tests|docs)/[\w/.-]+)(?:::(\w+))?`", GUIDE)
    assert len(paths) > 25
    assert [path for path, _ in paths if not (ROOT / path).exists()] == []
    made = r"^(?:def |class )?{}\b *[(:=]"
    assert [
        name for path, name in paths if name and not re.search(made.format(name), (ROOT / path).read_text(), re.M)
    ] == []


# --- a reference estimator --------------------------------------------------------------------------------------------


def midrange(x, blocks, channel):
    """The middle between the smallest and the largest."""
    return 0.5 * (x.amin(-1) + x.amax(-1))


@pytest.fixture
def added(monkeypatch):
    """The estimator as its entry of REFERENCES adds it."""
    monkeypatch.setitem(location.REFERENCES, "midrange", location._in_float64(midrange))
    return rovrl.RewardChannel(reference="midrange")


@pytest.fixture
def rewards():
    return torch.randn(6, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_without_its_entry_the_name_is_refused():
    with pytest.raises(ValueError, match=r"reference must be one of mean, .*, rovr, not 'midrange'"):
        rovrl.RewardChannel(reference="midrange")


def test_one_entry_brings_an_estimator_into_training_and_the_stress_tests(added, rewards):
    expected = midrange(rewards, None, None)
    ids = torch.arange(6).repeat_interleave(16)
    assert torch.equal(rovrl.explain(rewards.flatten(), ids, added).reference, expected)
    run = rovrl.RewardRun(added)
    run.advantages(rewards.flatten(), ids)
    assert run.last is not None
    assert torch.equal(run.last.reference, expected)
    credit = next(each for each in contenders(rewards, added, peers=False) if each.name == "credit")
    assert torch.equal(credit.apply(rewards).reference, expected)


def test_one_entry_brings_an_estimator_into_the_audit(added, rewards, tmp_path):
    lines = [{"prompt": f"p{g}", "reward": r} for g, row in enumerate(rewards.tolist()) for r in row]
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = audit(tmp_path / "dump.jsonl", reward_channel=added)
    np.testing.assert_allclose(found.groups.reference, midrange(rewards, None, None), rtol=1e-12)


def test_one_entry_brings_an_estimator_into_the_papers_tables_and_figures(added):
    names = ("simulation", "sim_estimators", "sim_sweeps")
    modules: list[ModuleType] = [
        importlib.reload(importlib.import_module(f"rovrl_paper.paper.experiments.{name}")) for name in names
    ]
    try:
        for module in modules[1:]:
            rows = module.run(module.SMOKE, silent)
            for table in module.tables(rows).values():
                assert table.header[-1] == "midrange"
                assert {len(row) for row in table.body} == {len(table.header)}
            assert all(check for check in module.checks(rows).values())
            for draw in module.figures().values():
                legend = [text.get_text() for text in draw(rows).legends[0].get_texts()]
                assert {"midrange", "published"} <= set(legend)
    finally:
        del location.REFERENCES["midrange"]
        for module in modules:
            importlib.reload(module)


# --- an engine --------------------------------------------------------------------------------------------------------


class Toy:
    """An engine of its own, after the guide: everything of ours that it needs is in these lines."""

    def __init__(self, directory, state=None):
        self.run, self.logits = rovrl.RewardRun(seed=3), torch.zeros(24, 2, requires_grad=True)
        self.writer = RecordWriter(directory, {"engine": "toy"})
        if state is not None:
            self.run.load_state_dict(state["rovr"])
            self.logits = state["logits"].clone().requires_grad_()

    def step(self):
        generator = torch.Generator().manual_seed(self.run.step)
        old = self.logits.detach().log_softmax(-1)
        tokens = torch.multinomial(old.exp(), 32, replacement=True, generator=generator).T
        rewards = tokens.double().mean(-1)
        rewards[0] = 1e6
        ids = [f"prompt {i // 16}" for i in range(32)]
        advantages = self.run.advantages(rewards, ids)
        place = torch.arange(24)
        log_ratios = (self.logits + 0.01 * torch.randn(24, 2, generator=generator)).log_softmax(-1) - old
        log_ratios = log_ratios[place, tokens]
        log_weight = rovrl.soft_rovr(log_ratios)
        (gradient,) = torch.autograd.grad(-rovrl.clipped_objective(log_weight, advantages).mean(), self.logits)
        self.logits = (self.logits - gradient).detach().requires_grad_()
        mean = gspo_mean(log_ratios)
        every = torch.ones(32, dtype=torch.bool)
        columns = {
            "update": [0] * 32, "group": ids, "response": [i % 16 for i in range(32)], "prompt": ids, "completion": ["x"] * 32,
            "reward": rewards.tolist(), "advantage": advantages.tolist(), "length": [24] * 32, "clip_low": [3e-4] * 32,
            "clip_high": [4e-4] * 32, "log_ratios": log_ratios.tolist(),
        }  # fmt: skip
        self.writer.write_step(self.run.step, columns)
        return self.run.metrics() | weight_metrics(log_weight, mean, advantages, every, (3e-4, 4e-4))

    def state(self):
        return {"rovr": json.loads(json.dumps(self.run.state_dict())), "logits": self.logits.detach()}


def engines(folder: Path) -> set[str]:
    """The engines among the files and packages of `folder`; the others are what engines share."""
    found = {path.stem for path in folder.iterdir() if not path.name.startswith(("_", "."))}
    return found - {"environment", "functions", "hf", "plugin_command", "rewards", "versions"}


def forgotten(names: set[str]) -> set[tuple[str, str]]:
    """(engine, what it lacks): a test that sends it the batch of tests/one_batch.py, a row in docs/engines.md."""
    every = (ROOT / "tests").rglob("*.py")
    senders = [path for path in every if re.search(r"^import one_batch$", path.read_text(), re.MULTILINE)]
    tests = "".join(f"{path.relative_to(ROOT)}\n{path.read_text()}" for path in senders)
    rows = "".join(line for line in (ROOT / "docs/engines.md").read_text().splitlines(True) if line.startswith("|"))
    lacks = {(name, "the shared batch") for name in names if not re.search(rf"\b{name}\b", tests)}
    page = {name: rf"integrations\.{name}\b|\({name.replace('_', '-')}\.md\)" for name in names}
    return lacks | {(name, "a row") for name in names if not re.search(page[name], rows)}


def test_every_engine_is_sent_the_shared_batch_and_has_its_row_in_the_docs():
    names = engines(ROOT / "src/rovrl/integrations")
    assert {"trl", "verl", "ms_swift"} <= names
    assert forgotten(names) == set()
    assert forgotten({"toyengine"}) == {("toyengine", "the shared batch"), ("toyengine", "a row")}


def test_an_engine_of_a_page_logs_the_shared_metrics_and_resumes_to_the_bit(tmp_path):
    whole = Toy(tmp_path / "whole")
    found = [whole.step() for _ in range(4)]
    cut = Toy(tmp_path / "cut")
    cut.step(), cut.step()
    resumed = Toy(tmp_path / "resumed", cut.state())
    assert [resumed.step(), resumed.step()] == found[2:]
    assert torch.equal(resumed.logits, whole.logits)
    named = {metric(name) for name in METRICS}
    assert set(found[0]) <= named
    assert {metric(name) for name in WEIGHT_METRICS} <= set(found[0])


def test_an_engine_of_a_page_leaves_records_that_the_audit_reads(tmp_path):
    engine = Toy(tmp_path)
    engine.step(), engine.step()
    assert [step for step, _ in read_steps(tmp_path)] == [1, 2]
    found = audit(tmp_path)
    assert found.ratios is not None
    assert found.summary.groups == 4
    assert [found.rewards(group).max() for group in range(4)] == [1e6, pytest.approx(0.5, abs=0.5)] * 2


def test_an_engine_named_to_the_doctor_is_looked_at_by_its_command(monkeypatch, capsys):
    module = ModuleType("toy_doctor")
    module.check = lambda args: iter([Remark("ok", f"toy has {args.settings}"), Remark("problem", "no clip")])
    monkeypatch.setitem(doctor.CHECKS, "toy", module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert cli.main(["doctor", "--engine", "toy", "blocks=3"]) == 1
    said = capsys.readouterr().out
    assert "toy has ['blocks=3']" in said
    assert "1 problem" in said
