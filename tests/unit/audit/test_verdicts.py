"""What may be meant is asked about, what is declared is believed, and the text knows how the run was trained."""

import numpy as np
import pytest
import torch

import audit_dumps
import rovrl
from rovrl.audit import audit
from rovrl.audit.judge.alike import _explained, _shuffled, alike
from rovrl.audit.judge.checks import _deviations
from rovrl.audit.judge.expect import Expectations
from rovrl.cli import main
from rovrl.errors import RovrlError
from rovrl_paper.fault_matrix.matrix import codes as simulated_codes
from rovrl_paper.fault_matrix.matrix import reported
from rovrl_paper.fault_matrix.runs import HONEST, SimulatedRun, spikes, wrong_groups


def run(world, tmp_path, shape=(24, 8, 16), plant=None, seed=0, **more):
    rewards = HONEST[world](np.random.default_rng(seed), shape).reshape(-1, shape[2])
    if plant is not None:
        rewards = plant(rewards, np.random.default_rng(seed + 1))
    return audit_dumps.table(tmp_path / "run.parquet", rewards, per_step=shape[1], **more)


def spiked(rewards, generator):
    sign = np.where(generator.random(rewards.shape) < 0.5, 1, -1)
    return rewards + (generator.random(rewards.shape) < 0.1) * sign * 18.0


def codes(result) -> set[str]:
    return {finding.code for finding in result.findings}


def notes(result) -> dict[str, str]:
    return {note.code: note.sentence for note in result.notes}


def test_right_answers_beside_a_shaping_term_are_a_note_about_levels(tmp_path):
    result = audit(run("0/1 + 0.1 uniform", tmp_path))
    assert result.groups.dominating.any()
    assert (codes(result), result.status) == (set(), 0)
    assert "other groups hold differences as large" in notes(result)["reward_levels"]


def test_the_end_of_a_continuous_tail_is_a_note(tmp_path):
    result = audit(run("log-normal", tmp_path))
    assert codes(result) == set()
    assert "without a gap" in notes(result)["heavy_tail"]


def test_faults_that_strike_at_random_would_be_rejected_and_are_named(tmp_path):
    path = run("score", tmp_path, plant=spiked)
    result = audit(path)
    found = next(finding for finding in result.findings if finding.code == "faulty_rewards")
    assert "would be rejected as faults" in found.sentence
    planted = np.abs(result.rollouts.reward) > 9
    assert found.value == pytest.approx(planted.mean(), rel=0.1)
    assert "look at them" in found.advice


def rare(rewards, generator):
    hit = generator.random(len(rewards)) < 0.1
    rewards[np.flatnonzero(hit), generator.integers(0, rewards.shape[1], hit.sum())] += 9.0
    return rewards


def test_a_note_about_dominating_rewards_counts_no_more_groups_than_are_dominated(tmp_path):
    result = audit(audit_dumps.records(tmp_path / "run", audit_dumps.rewards(40, 16)))
    told = [note.sentence for note in result.notes if note.code in ("reward_levels", "heavy_tail")]
    counts = [int(sentence.split(" groups")[0].rpartition(" ")[2].replace(",", "")) for sentence in told]
    assert result.summary.dominated_groups == 13
    assert all(count <= 13 for count in counts), told


def test_tasks_with_rewards_of_their_own_are_not_accused_in_groups_of_four():
    shape = 60, 32, 4
    runs = [SimulatedRun(HONEST["mixed tasks"](np.random.default_rng((seed, 9)), shape)) for seed in range(20)]
    assert sum(bool(simulated_codes(run)) for run in runs) <= 1


def test_faults_in_groups_of_four_are_found_beside_them_in_most_runs():
    """Not where a lone answer of another task is taken for merit: faults are looked for beyond it only."""
    found = 0
    for seed in range(5):
        honest = HONEST["mixed tasks"](np.random.default_rng((seed, 9)), (60, 32, 4))
        run = spikes(0.1, 12)(SimulatedRun(honest), np.random.default_rng(seed))
        found += bool(simulated_codes(run) & {"faulty_rewards", "dominating_rewards"})
    assert found >= 4


def test_a_rare_bonus_is_asked_about_until_it_is_declared(tmp_path):
    path = run("rare answers", tmp_path, plant=rare)
    asked = audit(path)
    assert codes(asked) & {"dominating_rewards", "contrast_lost"} == set()
    assert "--expect rare-bonus" in notes(asked)["rare_bonus"]
    declared = audit(path, expect=["rare-bonus"])
    assert codes(declared) == set()
    assert "rare_bonus" not in notes(declared)


def test_what_lies_outside_the_declared_range_is_a_finding_and_what_lies_inside_never(tmp_path):
    path = run("score", tmp_path, plant=spiked)
    assert "out_of_range" in codes(audit(path, expect=["range=-6:6"]))
    faults = {"out_of_range", "faulty_rewards", "dominating_rewards", "contrast_lost"}
    assert codes(audit(path)) & faults == faults - {"out_of_range"}
    assert codes(audit(path, expect=["range=-40:40"])) & faults == set()
    assert main(["audit", str(path), "--no-page", "--expect", "range=-6:6"]) == 1


@pytest.mark.parametrize(
    "words", ["range", "range=1", "range=1:0", "range=a:b", "range=nan:1", "bonus", "rare-bonus=1"]
)
def test_a_declaration_that_is_not_understood_is_refused(words):
    with pytest.raises(RovrlError, match="--expect"):
        Expectations.of([words])


def test_a_threshold_that_is_not_a_number_is_refused(tmp_path, capsys):
    path = run("score", tmp_path)
    assert main(["audit", str(path), "--no-page", "--threshold", "tied_groups=nan"]) == 2
    assert "needs a number" in capsys.readouterr().err


def test_a_threshold_of_ones_own_counts_every_dominating_reward(tmp_path):
    path = run("0/1 + 0.1 uniform", tmp_path)
    assert codes(audit(path)) == set()
    assert codes(audit(path, threshold={"dominating_rewards": 0.02})) == {"dominating_rewards"}


@pytest.mark.parametrize("method", ["rovr-gspo", "gspo", "dr-grpo"])
def test_the_text_knows_how_the_run_was_trained(tmp_path, method):
    rewards = spiked(HONEST["score"](np.random.default_rng(0), (12, 8, 16)).reshape(-1, 16), np.random.default_rng(1))
    credit = rovrl.ADVANTAGES["credit"](torch.from_numpy(rewards), rovrl.RewardChannel()).numpy()
    logged = credit if method == "rovr-gspo" else None
    result = audit(audit_dumps.records(tmp_path, rewards, method=method, advantages=logged))
    lost = [finding for finding in result.findings if finding.code == "contrast_lost"]
    text = " ".join(finding.sentence + finding.advice for finding in result.findings)
    if method == "rovr-gspo":
        assert "bounded credit, which the run used, lost" in lost[0].sentence
        assert lost[0].value == pytest.approx(result.summary.contrast_lost_credit, rel=0.05)
        assert "train with the robust" not in text
    elif method == "gspo":
        assert "GRPO's normalisation lost" in lost[0].sentence
    else:
        assert lost == []  # nothing is divided by a deviation


def test_equal_groups_are_a_note_and_torn_ones_a_finding(tmp_path):
    generator = np.random.default_rng(0)
    equal = generator.normal(0, 1, (24 * 8, 16))
    result = audit(audit_dumps.table(tmp_path / "equal.parquet", equal, per_step=8))
    assert codes(result) == set()
    assert "equally hard" in notes(result)["groups_alike"]
    torn = HONEST["heavy"](generator, (24, 8, 16)).transpose(0, 2, 1).reshape(-1, 16)
    assert "groups_alike" in codes(audit(audit_dumps.table(tmp_path / "torn.parquet", torn, per_step=8)))


def standings(generator, shape):
    quality = generator.normal(0, 1, shape)
    return (quality[..., :, None] > quality[..., None, :]).mean(-1)


@pytest.mark.parametrize("shape", [(24, 8, 16), (250, 4, 4)])
def test_rewards_relative_to_the_group_are_a_note_and_wrong_ids_are_still_found(shape):
    generator = np.random.default_rng(0)
    said = [reported(SimulatedRun(standings(generator, shape))) for _ in range(5)]
    assert [one.findings for one in said] == [set()] * 5
    assert all("relative_rewards" in one.notes for one in said)
    torn = wrong_groups(SimulatedRun(HONEST["rule"](generator, shape)), generator)
    assert "groups_alike" in simulated_codes(torn)


def test_the_mean_over_shuffles_within_groups_is_exact():
    generator = np.random.default_rng(0)
    rank, step = generator.normal(0, 1, 12), np.zeros(3, dtype=np.int64)
    member, dealt = np.repeat(np.arange(3), 4), np.arange(12) % 3
    drawn = [_explained(generator.permuted(rank.reshape(3, 4), axis=1).ravel(), dealt, step) for _ in range(4000)]
    assert _shuffled(rank, member, dealt, step) == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 4000**0.5)


@pytest.mark.parametrize("shape", [(24, 8, 8), (60, 32, 8), (250, 4, 16)])
def test_a_score_behind_a_format_that_is_being_learned_is_no_jump_of_the_scale(shape):
    generator, asked = np.random.default_rng(0), 0
    for _ in range(5):
        learned = generator.random(shape) < 1 / (1 + np.exp(6.0 - np.arange(shape[0])[:, None, None]))
        score = generator.normal(0, 1, (*shape[:2], 1)) + generator.normal(0, 0.3, shape)
        said = reported(SimulatedRun(np.where(learned, score, -3.0)))
        assert "scale_jump" not in said.findings
        asked += "scale_moves" in said.notes
    assert asked


def test_a_jump_of_the_scale_names_its_step(tmp_path):
    rewards = HONEST["score"](np.random.default_rng(0), (24, 8, 16))
    rewards[10:] *= 10
    result = audit(audit_dumps.table(tmp_path / "run.parquet", rewards.reshape(-1, 16), per_step=8))
    found = next(finding for finding in result.findings if finding.code == "scale_jump")
    first = int(np.unique(result.rollouts.step)[10])
    assert found.to_dict()["step"] == first
    assert f"from step {first} on" in found.sentence


def repetition_penalties(generator, shape):
    hit = generator.random(shape) < generator.beta(0.2, 6, (*shape[:2], 1))
    return HONEST["score"](generator, shape) - hit * generator.uniform(0.5, 3, shape)


def test_penalties_that_cluster_on_prompts_are_a_note_and_no_finding():
    runs = [repetition_penalties(np.random.default_rng((seed, 5)), (24, 8, 16)) for seed in range(20)]
    said = [reported(SimulatedRun(rewards)) for rewards in runs]
    assert sum(bool(one.findings) for one in said) <= 1
    assert any("clustered_rewards" in one.notes for one in said)


def test_saved_prompts_prove_the_group_ids(tmp_path):
    equal = np.random.default_rng(0).normal(0, 1, (24 * 8, 16))
    prompts = [f"prompt {k // 16}" for k in range(equal.size)]
    result = audit(audit_dumps.table(tmp_path / "run.parquet", equal, per_step=8, prompt=prompts))
    assert alike(result.rollouts, result.groups).alike
    assert "groups_alike" not in notes(result)


def test_the_rank_sums_have_the_moments_of_all_permutations():
    generator = np.random.default_rng(0)
    values = generator.integers(0, 6, 40).astype(float)  # ties
    found = []
    for _ in range(4000):
        generator.shuffle(values)
        found.append(_deviations(values[:15], values[15:]))
    assert np.mean(found) == pytest.approx(0, abs=0.05)
    assert np.std(found) == pytest.approx(1, abs=0.03)
