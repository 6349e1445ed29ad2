"""RewardRun: what a loop carries from step to step, and how it goes on after a restart."""

import json
import math

import numpy as np
import pytest
import torch

import rovrl
from rovrl import RewardChannel, RewardRun
from rovrl.advantage import Explanation
from rovrl.scales import channel_for_step

SMALL = RewardChannel(replaced_per_block=0, scale_source="lagged", credit_bound="adaptive", credit_floor="adaptive")


def batch(step, groups=4, size=9, functions=None):
    """Rewards whose scale grows with the step, and the ids of their groups."""
    generator = torch.Generator().manual_seed(step)
    shape = (groups * size,) if functions is None else (groups * size, functions)
    rewards = step * torch.randn(shape, generator=generator, dtype=torch.float64)
    return rewards, [f"prompt {i // size}" for i in range(groups * size)]


def train(run, first, last, **arguments):
    """The advantages of steps first .. last."""
    return [run.advantages(*batch(step, **arguments)) for step in range(first, last + 1)]


def test_a_step_uses_the_scale_of_the_steps_before_it_and_a_partition_of_its_own():
    run, lagged = RewardRun(SMALL, seed=5), rovrl.LaggedScale()
    for step in range(1, 4):
        rewards, ids = batch(step)
        settings = channel_for_step(SMALL, lagged, rewards, ids)
        seed = torch.Generator().manual_seed(5 * 1_000_003 + 2 * step + 1)
        assert torch.equal(
            run.advantages(rewards, ids), rovrl.grouped_advantages(rewards, ids, settings, generator=seed)
        )
        assert run.last.channel == settings
    assert run.last.lagged_scale < lagged.value  # this step's scale, the largest, is not yet in it


@pytest.mark.parametrize("functions", [None, 3])
def test_a_run_loaded_from_its_state_goes_on_as_if_it_had_never_stopped(functions):
    weights = None if functions is None else [1.0, 0.5, -2.0]

    def steps(run, first, last):
        return [run.advantages(*batch(n, functions=functions), weights=weights) for n in range(first, last + 1)]

    whole = RewardRun(SMALL, seed=3)
    expected = steps(whole, 1, 6)
    stopped = RewardRun(SMALL, seed=3)
    steps(stopped, 1, 3)
    state = json.loads(json.dumps(stopped.state_dict()))
    resumed = RewardRun(SMALL)
    resumed.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(steps(resumed, 4, 6), expected[3:], strict=True))
    assert resumed.state_dict() == whole.state_dict()
    assert resumed.metrics() == whole.metrics()


def test_without_its_state_a_resumed_run_would_differ():
    whole = train(RewardRun(SMALL), 1, 4)
    assert not torch.equal(train(RewardRun(SMALL), 4, 4)[0], whole[3])


def test_evaluation_reads_the_run_and_leaves_it():
    run = RewardRun(SMALL)
    train(run, 1, 2)
    before, last = run.state_dict(), run.last
    info = run.evaluate(*batch(50))
    assert info.lagged_scale == pytest.approx(before["memory"][0]["scales"]["value"])
    assert run.state_dict() == before
    assert run.last is last
    assert isinstance(RewardRun(SMALL).evaluate(*batch(1)), Explanation)  # before the first step as well


def test_a_refused_batch_leaves_the_run_as_it_was():
    run = RewardRun(SMALL)
    train(run, 1, 2)
    before = run.state_dict()
    with pytest.raises(ValueError, match="group_ids"):
        run.advantages(torch.zeros(8), ["a"] * 7)
    with pytest.raises(ValueError, match="1 reward functions, and these rewards are of 2"):
        run.advantages(torch.zeros(8, 2), ["a"] * 8, weights=[1, 1])
    assert run.state_dict() == before


def damaged(**changes):
    """A state after one step with some of its numbers replaced, by their path."""
    run = RewardRun(RewardChannel(faults="reject", credit_bound="adaptive"))
    run.advantages(*batch(1))
    state = run.state_dict()
    for path, value in changes.items():
        *where, name = path.split("__")
        inner = state["memory"][0] if where else state
        for each in where:
            inner = inner[each]
        inner[name] = value
    return state


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"seed": 0, "step": 1},
        {"seed": 0, "step": 1, "memory": [{}]},
        None,
        {"seed": "x"},
        damaged(seed=1.5),
        damaged(step=-5),
        damaged(step=True),
        damaged(step=math.inf),
        damaged(scales__decay=2.0),
        damaged(scales__decay=math.nan),
        damaged(scales__decay=True),
        damaged(scales__decay=1e308),
        damaged(scales__decay="0.9"),
        damaged(scales__value=True),
        damaged(scales__value=1e308),
        damaged(scales__value=10**400),
        damaged(scales__spread=math.nan),
        damaged(scales__steps=-1),
        damaged(scales__steps=math.inf),
        damaged(window__capacity=10**12),
        damaged(window__capacity=1.5),
        damaged(window__steps=[[[2], [10**400, 0.0]]]),
        damaged(window__steps=[[[math.inf], [0.0]]]),
        damaged(window__steps=3),
        damaged(memory=3),
    ],
)
def test_what_is_not_a_state_is_refused_in_one_sentence(state):
    run = RewardRun(SMALL)
    train(run, 1, 1)
    before = run.state_dict()
    with pytest.raises(ValueError, match="this is not the state of a RewardRun: ") as refusal:
        run.load_state_dict(state)
    assert "\n" not in str(refusal.value)
    assert run.state_dict() == before


def test_an_interrupted_step_leaves_the_run_as_it_was(monkeypatch):
    """Ctrl-C may come after the scale was taken in; the step is then repeated as if it had never begun."""
    run, undisturbed = RewardRun(SMALL), RewardRun(SMALL)
    train(run, 1, 2)
    train(undisturbed, 1, 2)
    before, last = run.state_dict(), run.last

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rovrl.run.replace", interrupt)  # the last thing that a step does
        with pytest.raises(KeyboardInterrupt):
            run.explain(*batch(3))
    assert (run.state_dict(), run.last) == (before, last)
    assert torch.equal(run.advantages(*batch(3)), undisturbed.advantages(*batch(3)))


def test_a_seed_is_a_whole_number_of_any_kind():
    rewards, ids = batch(1)
    run = RewardRun(seed=np.int64(3))
    assert torch.equal(run.advantages(rewards, ids), RewardRun(seed=3).advantages(rewards, ids))
    assert json.loads(json.dumps(run.state_dict()))["seed"] == 3
    for seed in (1.5, None, "3", True):
        with pytest.raises(ValueError, match="the seed of a RewardRun must be a whole number, not"):
            RewardRun(seed=seed)


def test_the_metrics_are_those_of_the_latest_step_and_none_before_it():
    run = RewardRun(SMALL)
    assert run.metrics() == {}
    train(run, 1, 2)
    found = run.metrics()
    assert set(found) <= {rovrl.diagnostics.metric(name) for name in rovrl.diagnostics.METRICS}
    assert found["rovr/lagged_scale"] == run.last.lagged_scale
    assert found["rovr/credit_bound"] == pytest.approx(2 * found["rovr/lagged_spread"])
    assert all(isinstance(value, float) for value in found.values())


def test_each_reward_function_has_a_scale_of_its_own():
    run, alone = RewardRun(SMALL), [RewardRun(SMALL), RewardRun(SMALL)]
    unit = torch.tensor([1.0, 1000.0], dtype=torch.float64)
    for step in (1, 2, 3):
        rewards, ids = batch(step, functions=2)
        both = run.advantages(rewards * unit, ids, weights=[0.25, 2.0])
        first, second = (one.advantages(rewards[:, k] * unit[k], ids) for k, one in enumerate(alone))
        torch.testing.assert_close(both, 0.25 * first + 2 * second)
    scales = [memory["scales"]["value"] for memory in run.state_dict()["memory"]]
    assert scales == [one.state_dict()["memory"][0]["scales"]["value"] for one in alone]
    shares = [one.metrics()["rovr/saturation"] for one in alone]
    assert run.metrics()["rovr/saturation"] == pytest.approx((0.25 * shares[0] + 2 * shares[1]) / 2.25)


def test_what_bounding_and_its_scale_change_is_logged_as_the_calculator_has_it():
    """Both terms below prop:credit_gradient_distortion, response by response; and they bound what they are to bound."""
    channel = RewardChannel(credit_bound=0.7, credit_floor=0.2)
    rewards, ids = batch(2)
    rewards[3], rewards[5], rewards[18:27] = 30.0, torch.nan, 1.0  # a spike, a gap, a group without contrast
    run = RewardRun(channel)
    advantages = run.advantages(rewards, ids)
    expected, changes = [], []
    for g in (0, 1, 3):
        rows = [i for i in range(9 * g, 9 * g + 9) if rewards[i].isfinite()]
        u = rewards[rows] - run.last.reference[g]
        scale, linear = float(run.last.scale[g]), float((0.2**2 + u.square().mean()).sqrt())
        expected += [rovrl.guarantees.scale_construction(float(each), scale, linear, 0.7) for each in u]
        changes += (advantages[rows] - u / linear).abs().tolist()
    logged = run.metrics()
    total = logged["rovr/credit_shaping"] + logged["rovr/scale_construction"]
    assert total == pytest.approx(sum(expected) / len(expected), rel=1e-12)
    assert sum(changes) / len(changes) <= total


def test_a_bound_far_beyond_the_rewards_changes_nothing_and_rewards_whose_squares_overflow_are_not_judged():
    run = RewardRun(RewardChannel(credit_bound=1e6))
    rewards, ids = batch(1)
    run.advantages(rewards, ids)
    assert run.metrics()["rovr/credit_shaping"] < 1e-9
    assert run.metrics()["rovr/scale_construction"] < 1e-9
    rewards[0] = 1e200
    run.advantages(rewards, ids)
    assert "rovr/scale_construction" not in run.metrics()
    assert "rovr/saturation" in run.metrics()


@pytest.mark.parametrize(("partition", "could"), [("random", False), ("contiguous", True)])
def test_the_notes_say_whether_corruption_could_adapt_to_the_blocks(partition, could):
    run = RewardRun(RewardChannel(partition=partition))
    run.advantages(*batch(1))
    assert run.last.notes["corruption_could_adapt"] is could
