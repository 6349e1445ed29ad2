"""What lies at a path is told apart: runs, epochs, evaluations, reward functions, groups; what means nothing is refused."""

import json
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import audit_dumps
from rovrl.audit import audit, audit_all
from rovrl.cli import main
from rovrl.errors import RovrlError


def trl(folder, step, prompts, rewards, extra=None, advantage=None):
    """One completions file; rewards [prompt, response], or several by name."""
    folder.mkdir(parents=True, exist_ok=True)
    rewards = rewards if isinstance(rewards, dict) else {"score": rewards}
    size = next(iter(rewards.values())).shape[1]
    total = sum(rewards.values())
    if advantage is None:
        advantage = (total - total.mean(1, keepdims=True)) / (total.std(1, ddof=1, keepdims=True) + 1e-4)
    n = total.size
    columns = {
        "step": [step] * n,
        "prompt": np.repeat(prompts, size),
        "completion": [f"{step}-{k}-{total.ravel()[k]:.6f}" for k in range(n)],
        **{name: values.ravel() for name, values in rewards.items()},
        **{name: values.ravel() for name, values in (extra or {}).items()},
        "advantage": advantage.ravel(),
    }
    pq.write_table(pa.table(columns), folder / f"completions_{step:05d}.parquet")


def notes(result) -> dict[str, str]:
    return {note.code: note.sentence for note in result.notes}


def test_runs_side_by_side_are_audited_apart(tmp_path, capsys):
    scores = audit_dumps.rewards(16, 8, spikes=0.0)
    for name in ("gspo-seed1", "rovr-gspo-seed1"):
        audit_dumps.records(tmp_path / "out" / name / "records", scores, method=name)
    results = audit_all(tmp_path / "out")
    assert list(results) == ["gspo-seed1", "rovr-gspo-seed1"]
    for name, result in results.items():
        assert result.summary.group_sizes == {8: 16}
        assert result.summary.trained_with == name
    with pytest.raises(RovrlError, match="holds 2 runs"):
        audit(tmp_path / "out")
    status = main(["audit", str(tmp_path / "out"), "--out", str(tmp_path / "pages")])
    assert status == max(result.status for result in results.values())
    shown = capsys.readouterr().out
    assert "2 runs, each by itself" in shown
    assert (tmp_path / "pages" / "rovr-gspo-seed1" / "audit.html").exists()


def test_several_runs_have_an_index_page_with_the_worst_first(tmp_path, capsys):
    clean, spiked = (audit_dumps.rewards(64, 16, spikes=rate) for rate in (0.0, 0.1))
    audit_dumps.records(tmp_path / "a-clean" / "records", clean)
    audit_dumps.records(tmp_path / "<b>" / "records", spiked)
    assert main(["audit", str(tmp_path), "--out", str(tmp_path / "pages")]) == 1
    assert str(tmp_path / "pages" / "index.html") in capsys.readouterr().out
    page = (tmp_path / "pages" / "index.html").read_text()
    assert page.index("&lt;b&gt;") < page.index("a-clean")
    assert "<b>" not in page
    for link in ("%3Cb%3E/audit.html", "a-clean/audit.html"):
        assert f'href="{link}"' in page
        assert (tmp_path / "pages" / unquote(link)).exists()


def test_a_run_without_any_reward_has_no_mean_and_one_group_is_one_group(tmp_path, capsys):
    audit_dumps.verl(tmp_path / "none", np.full((1, 8), np.nan))
    audit_dumps.verl(tmp_path / "some", audit_dumps.rewards(8, 8, spikes=0.0))
    assert main(["audit", str(tmp_path)]) == 1
    assert "1 group, mean reward –" in capsys.readouterr().out
    assert "<td>–</td>" in (tmp_path / "audit" / "index.html").read_text()
    main(["audit", str(tmp_path / "none"), "--no-page"])
    assert "1 group of 8, 8 responses" in capsys.readouterr().out


def test_the_summary_says_where_the_mean_reward_came_from_and_went_to(tmp_path):
    steps = np.repeat(np.arange(20.0), 2)[:, None] + np.array([-0.5, 0.5])
    shown = audit(audit_dumps.table(tmp_path / "rises.parquet", steps, per_step=2)).show()
    assert "mean reward     9.5, from 0.5 in the first to 18.5 in the last tenth of the steps" in shown
    shown = audit(audit_dumps.table(tmp_path / "one.parquet", steps[:2], per_step=2)).show()
    assert "mean reward     0\n" in shown
    shown = audit(audit_dumps.table(tmp_path / "none.parquet", np.full((8, 4), np.nan), per_step=2)).show()
    assert "mean reward     –\n" in shown


def test_verls_training_and_validation_are_two_runs(tmp_path):
    audit_dumps.verl(tmp_path / "train", audit_dumps.rewards(16, 8))
    audit_dumps.verl(tmp_path / "val", audit_dumps.rewards(16, 1))
    results = audit_all(tmp_path)
    assert {name: set(result.summary.group_sizes) for name, result in results.items()} == {"train": {8}, "val": {1}}


def test_tables_in_folders_of_their_own_are_runs_and_pieces_of_one_run_are_not(tmp_path):
    scores = audit_dumps.rewards(16, 8)
    for name in ("a", "b"):
        (tmp_path / "runs_of" / name).mkdir(parents=True)
        audit_dumps.table(tmp_path / "runs_of" / name / "rollouts.parquet", scores)
    assert list(audit_all(tmp_path / "runs_of")) == ["a", "b"]
    for step in (1, 2):
        (tmp_path / "one" / f"step_{step}").mkdir(parents=True)
        part = {"step": [step] * 64, "group": np.repeat(np.arange(8), 8), "reward": scores[:8].ravel()}
        pq.write_table(pa.table(part), tmp_path / "one" / f"step_{step}" / "rank0.parquet")
    assert audit(tmp_path / "one").summary.groups == 16


def test_a_single_run_below_the_path_is_found(tmp_path):
    audit_dumps.verl(tmp_path / "outputs" / "rollouts_of_it", audit_dumps.rewards(16, 8))
    assert audit(tmp_path).summary.groups == 16


def test_answers_that_a_policy_gives_again_are_no_batch_that_was_logged_twice(tmp_path):
    rewards = np.tile([0.0, 1.0, 0.5, 0.25], (8, 1))
    for step in range(8):
        trl(tmp_path, step, [f"p{(k + step) % 8}" for k in range(8)], np.roll(rewards, step, 0) + 0)
    for step in range(8):  # the very same texts and rewards in another order of groups
        table = pq.read_table(tmp_path / f"completions_{step:05d}.parquet")
        text = [f"same {p}" for p in table["prompt"].to_pylist()]
        pq.write_table(table.set_column(2, "completion", [text]), tmp_path / f"completions_{step:05d}.parquet")
    assert audit(tmp_path, group_size=4, keep_evaluation=True).summary.groups == 64
    pq.write_table(pq.read_table(tmp_path / "completions_00003.parquet"), tmp_path / "completions_00010.parquet")
    again = audit(tmp_path, group_size=4, keep_evaluation=True)
    assert again.summary.groups == 64
    assert notes(again)["logged_twice"].startswith("8 groups")


def test_a_second_epoch_in_the_same_order_is_no_evaluation(tmp_path):
    generator = np.random.default_rng(0)
    for step in range(15):
        trl(tmp_path / "epochs", step, [f"p{step % 10}.{k}" for k in range(4)], generator.normal(size=(4, 4)))
    assert audit(tmp_path / "epochs").summary.groups == 60
    for step in range(15):
        prompts = [f"eval {k}" for k in range(4)] if step in (5, 10) else [f"p{step}.{k}" for k in range(4)]
        trl(tmp_path / "evaluated", step, prompts, generator.normal(size=(4, 4)))
    evaluated = audit(tmp_path / "evaluated")
    assert evaluated.summary.groups == 52
    assert "evaluation_rows" in notes(evaluated)


def test_columns_of_log_extra_are_no_part_of_the_reward(tmp_path):
    generator = np.random.default_rng(0)
    for step in range(4):
        right, form = (generator.random((2, 8, 8)) < 0.5).astype(float)
        trl(
            tmp_path,
            step,
            [f"p{step}.{k}" for k in range(8)],
            {"right": right, "form": form},
            extra={"tokens": generator.integers(100, 900, (8, 8)).astype(float)},
        )
    result = audit(tmp_path)
    assert 0.8 < result.summary.mean_reward < 1.2
    assert "tokens is not part of it" in notes(result)["reward_weights_inferred"]


@pytest.mark.parametrize("weight", [0.2, 0.55])
def test_weights_are_inferred_from_the_logged_advantages(tmp_path, weight):
    generator = np.random.default_rng(0)
    for step in range(4):
        one, two = generator.normal(size=(2, 8, 8))
        total = one + weight * two
        advantage = (total - total.mean(1, keepdims=True)) / (total.std(1, ddof=1, keepdims=True) + 1e-4)
        extra = {"seconds": generator.random((8, 8))}
        trl(tmp_path, step, [f"p{step}.{k}" for k in range(8)], {"one": one, "two": two}, extra, advantage)
    result = audit(tmp_path)
    assert result.reader.weights == {"one": 1.0, "two": pytest.approx(weight, abs=1e-3)}
    assert result.summary.trained_with == "grpo"


def test_advantages_that_no_column_explains_are_asked_about(tmp_path):
    generator = np.random.default_rng(0)
    rewards = {"one": generator.normal(size=(8, 8)), "two": generator.normal(size=(8, 8))}
    trl(tmp_path, 1, [f"p{k}" for k in range(8)], rewards, advantage=generator.normal(size=(8, 8)))
    assert "--reward-weight" in notes(audit(tmp_path))["reward_weights_unknown"]


@pytest.mark.parametrize("option", ["--group-column", "--reward-column", "--step-column", "--log-ratios-column"])
def test_a_column_that_is_not_there_is_refused(tmp_path, capsys, option):
    path = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(8, 8))
    assert main(["audit", str(path), "--no-page", option, "nosuch"]) == 2
    assert "no column 'nosuch'" in capsys.readouterr().err


def test_a_column_named_for_a_dump_that_needs_none_is_refused(tmp_path, capsys):
    audit_dumps.verl(tmp_path, audit_dumps.rewards(8, 8))
    assert main(["audit", str(tmp_path), "--no-page", "--group-column", "uid"]) == 2
    assert "--format table" in capsys.readouterr().err
    with pytest.raises(RovrlError, match="columns has no grop"):
        audit(tmp_path, columns={"grop": "uid"})


def test_prompts_that_come_in_turn_make_groups(tmp_path):
    rows = [{"step": k // 32, "prompt": f"p{k % 8}", "reward": float(k % 5)} for k in range(96)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = audit(tmp_path / "run.jsonl")
    assert result.summary.group_sizes == {4: 24}
    assert "interleaved" in notes(result)
    np.testing.assert_array_equal(result.rewards(1), [float(k % 5) for k in (1, 9, 17, 25)])


def test_prompts_that_come_in_turn_in_parts_of_a_group_make_groups_of_the_given_size(tmp_path):
    rows = [{"step": k // 32, "prompt": f"p{k // 4 % 4}", "reward": float(k % 5)} for k in range(96)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = audit(tmp_path / "run.jsonl", group_size=8)
    assert result.summary.group_sizes == {8: 12}
    np.testing.assert_array_equal(result.rewards(0), [float(k % 5) for k in (0, 1, 2, 3, 16, 17, 18, 19)])
    assert audit(tmp_path / "run.jsonl").summary.group_sizes == {4: 24}
    assert audit(tmp_path / "run.jsonl", group_size=4).summary.group_sizes == {4: 24}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a", "--stop-on", "tied_groups"], "give --follow too"),
        (["a", "--follow", "1", "--flagged", "f.csv"], "leave out --compare and --follow"),
        ([".", "--flagged", "f.csv"], "holds several runs"),
        (["a", "--format", "trl"], "no rollouts found at"),
        (["a", "--expect", "range=:"], "--expect range=: allows every reward"),
        (["a", "--expect", "range=-inf:inf"], "allows every reward"),
    ],
)
def test_options_that_would_do_nothing_are_refused_with_a_sentence(tmp_path, capsys, monkeypatch, words, sentence):
    for name in ("a", "b"):
        audit_dumps.verl(tmp_path / name, audit_dumps.rewards(8, 8))
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "f.csv").exists()
