"""What a run did already is not held against it: its own settings, blocks and advantages are what the audit judges."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import audit_dumps
import rovrl
from rovrl.audit import audit
from rovrl.cli import main

STEPS, GROUPS, SIZE = 10, 16, 16
GUARDED = rovrl.RewardChannel(credit_bound="adaptive", credit_floor="adaptive", faults="reject")
ROBUST = {"contrast_lost", "sign_changes"}


def recorded(folder, channel, spikes=0.1, method="rovr-gspo", late=False):
    """A run of `RewardRun` with its records, as the trainers write them; `late`: nothing is rejected in its first step."""
    scores = audit_dumps.rewards(STEPS * GROUPS, SIZE, spikes=spikes, seed=5)
    run, advantages, notes = rovrl.RewardRun(channel), [], []
    for step in range(STEPS):
        rewards = torch.from_numpy(scores[step * GROUPS : (step + 1) * GROUPS])
        info = run.explain(rewards.flatten(), torch.arange(GROUPS).repeat_interleave(SIZE))
        advantages.append(info.advantages.view(GROUPS, SIZE).numpy())
        notes.append(info.notes | {"blocks": {size: blocks.members for size, blocks in info.blocks.items()}})
    settings = {"reward_channel": channel.to_dict(), "ratio_channel": rovrl.RatioChannel().to_dict()}
    logged = np.concatenate(advantages)
    if late:  # as a run that has not seen enough to show a fault yet
        logged[:GROUPS] = rovrl.ADVANTAGES["credit"](
            torch.from_numpy(scores[:GROUPS]), replace(info.channel, faults="bound")
        ).numpy()
    folder = audit_dumps.records(
        folder, scores, per_step=GROUPS, method=method, advantages=logged, settings=settings, notes=notes
    )
    return folder, scores, logged


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("guarded"), GUARDED)


def found(result):
    return {finding.code: finding for finding in result.findings}


def test_the_lost_contrast_of_a_run_is_that_of_the_advantages_it_logged(guarded):
    folder, scores, logged = guarded
    result = audit(folder)
    group = int(np.flatnonzero(result.groups.dominating > 0)[0])
    keep = torch.ones(SIZE, dtype=torch.bool)
    keep[result.dominating(group)] = False
    settings = result.settings[int(result.rollouts.step[group])]
    alone = torch.from_numpy(scores[group])[keep]
    channel = rovrl.RewardChannel.from_dict(settings.channel.to_dict() | {"faults": "bound"})
    blocks = settings.partition(len(alone))[0]
    clean = rovrl.contrast(rovrl.ADVANTAGES["credit"](alone, channel, blocks=blocks), torch.ones(len(alone)).bool())
    kept = rovrl.contrast(torch.from_numpy(logged[group]), keep) / clean
    assert result.groups.lost_own[group] == pytest.approx(max(0.0, 1 - float(kept)), abs=1e-6)
    assert result.summary.contrast_lost_own < 0.15 < result.summary.contrast_lost


def test_a_guarded_run_is_not_accused_of_what_plain_credit_or_the_mean_would_have_done(guarded):
    result = audit(guarded[0])
    assert not set(found(result)) & (ROBUST | {"branch_moved", "ratio_bursts"})
    plain = audit(audit_dumps.records(guarded[0].parent / "plain", guarded[1], per_step=GROUPS, method="gspo"))
    assert set(found(plain)) >= ROBUST
    assert len(result.findings) < len(plain.findings)


def test_faults_that_were_all_left_out_are_a_note_and_no_finding(guarded):
    result = audit(guarded[0])
    assert set(found(result)) & {"faulty_rewards", "dominating_rewards"} == set()
    note = next(note for note in result.notes if note.code == "left_out")
    faults = len(result.evidence.rejected.row)
    assert note.sentence.startswith(f"{faults:,} of {faults:,} rewards that are shown to be faults had advantage 0")


def test_rewards_that_the_run_left_out_are_reported_as_such_and_not_counted(tmp_path):
    result = audit(recorded(tmp_path, GUARDED, late=True)[0])
    faults, out = result.evidence.rejected.row, result.evidence.left_out
    used = int((~out[faults]).sum())
    assert 0 < used < len(faults)
    finding = found(result)["faulty_rewards"]
    assert finding.value == pytest.approx(used / len(result.rollouts.reward))
    assert f"{len(faults) - used:,} more the run left out itself (advantage 0)" in finding.sentence
    whys = [row["why"] for row in result.flagged().to_pylist()]
    assert sum("left out by the run itself" in why for why in whys) == len(faults) - used


def test_no_advice_names_what_the_run_had_already(tmp_path):
    text = " ".join(finding.advice for finding in audit(recorded(tmp_path, GUARDED, late=True)[0]).findings)
    assert text
    assert "reject" not in text.replace("the run rejects", "")
    assert "adaptive" not in text
    assert "train with" not in text


def test_the_index_does_not_rank_the_guarded_run_behind_the_plain_one(guarded, tmp_path, capsys):
    audit_dumps.records(tmp_path / "runs" / "gspo" / "records", guarded[1], per_step=GROUPS, method="gspo")
    recorded(tmp_path / "runs" / "guarded" / "records", GUARDED)
    assert main(["audit", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 1
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.index("gspo/audit.html") < page.index("guarded/audit.html")


@pytest.mark.parametrize("channel", [rovrl.RewardChannel(), rovrl.RewardChannel(credit_bound=0.2, num_blocks=1)])
def test_credit_by_the_runs_own_settings_and_blocks_is_what_it_logged(tmp_path, channel):
    folder, _, logged = recorded(tmp_path, channel)
    result = audit(folder)
    for group in (0, 17, 100):
        settings = result.settings[int(result.rollouts.step[group])]
        again = rovrl.ADVANTAGES["credit"](
            torch.from_numpy(result.rewards(group)), settings.channel, blocks=settings.partition(SIZE)[0]
        )
        np.testing.assert_allclose(again.numpy(), logged[group], atol=1e-12)
    document = result.to_dict()
    assert document["source"]["logs_credit"]
    first = next(row for row in document["groups"] if row["id"] == 17)
    np.testing.assert_allclose(first["logged"], logged[17], atol=1e-12)
    blocks = document["settings"][first["settings"]]["blocks"]
    assert blocks[str(SIZE)] == result.settings[2].partition(SIZE)[0].members


def test_settings_given_by_the_user_are_used_in_place_of_the_runs_own(guarded):
    result = audit(guarded[0], reward_channel=rovrl.RewardChannel())
    assert result.reward_channel == rovrl.RewardChannel()
    assert result.summary.contrast_lost_credit > 0.3  # the bound of the paper is wide for these scores
    assert result.summary.contrast_lost_own < 0.15  # what the run did stays what it did


def test_damaged_notes_leave_an_audit_by_the_papers_settings(tmp_path):
    folder = audit_dumps.records(
        tmp_path,
        audit_dumps.rewards(8, 16),
        settings={"reward_channel": {"nonsense": 1}},
        notes=[{"reward_channel": 7, "blocks": 3}] * 2,
    )
    assert audit(folder).reward_channel == rovrl.RewardChannel()


def test_a_run_with_open_questions_is_not_called_healthy_and_ends_with_status_0(tmp_path, capsys):
    generator = np.random.default_rng(0)
    rate = generator.beta(0.3, 2, (192, 1))  # rare right answers squeeze the shaping term of the others
    scores = (generator.random((192, 16)) < rate) + generator.uniform(0, 0.1, (192, 16))
    path = audit_dumps.table(tmp_path / "run.parquet", scores)
    result = audit(path)
    assert (result.status, result.state) == (0, "to decide")
    assert result.verdict.startswith(f"Nothing crosses a threshold, and {len(result.questions)} thing")
    assert all(note.code in result.verdict for note in result.questions)
    assert set(result.questions) <= set(result.notes)
    assert main(["audit", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["state"], len(printed["to_decide"])) == ("to decide", len(result.questions))


def test_one_reward_that_takes_a_groups_contrast_is_something_to_decide(tmp_path):
    scores = audit_dumps.rewards(192, 16, spikes=0.0)
    scores[7, 3], scores[90, 2] = 20.0, -30.0
    result = audit(audit_dumps.table(tmp_path / "run.parquet", scores))
    assert (result.findings, result.state) == ([], "to decide")
    note = next(note for note in result.questions if note.code == "rare_outliers")
    assert "in 2 groups" in note.sentence
    assert "98 % of its contrast" in note.sentence


def test_suspects_and_dominating_rewards_have_names_of_their_own(tmp_path):
    result = audit(audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(64, 8, spikes=0.3)))
    summary = result.to_dict()["summary"]
    finding = found(result)["dominating_rewards"]
    assert finding.sentence.startswith(f"{summary['suspect_groups']:,} groups")
    assert summary["suspect_groups"] != summary["dominated_groups"]
    assert summary["dominant_rewards"] == int(result.groups.dominating.sum())
    assert "dominating_rewards" not in summary
