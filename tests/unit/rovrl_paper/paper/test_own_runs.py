"""`rovrl paper check LABEL --runs`: a reader's finished runs beside the published numbers."""

import csv
import itertools
import json
import statistics

import pytest

from rovrl.cli import main
from rovrl_paper.paper.item import expected
from rovrl_paper.paper.own_runs import SUITES, validations

MATH = expected("training")["tab:math_main"]


def evaluation(path, models, suites):
    """A directory as `rovrl eval` leaves it: suite -> metric -> one value per run."""
    path.mkdir(parents=True)
    settings = {"models": models}
    metrics = {s: {"metrics": {m: {"runs": v} for m, v in found.items()}} for s, found in suites.items()}
    (path / "settings.json").write_text(json.dumps(settings))
    (path / "results.json").write_text(json.dumps({"settings": settings, "suites": metrics}))
    return str(path)


def math_run(path, method, shift=0.0, seeds=(1, 2, 3)):
    cells = MATH["Qwen3-4B-Base"]["rule"][{"gspo": "GSPO", "rovr-gspo": "RoVR-GSPO"}[method]]
    suites = {
        key: {"accuracy": [(mean + shift + sd * (seed - 2)) / 100 for seed in seeds]}
        for key, (mean, sd) in zip(SUITES.values(), cells, strict=True)
    }
    return evaluation(path, [f"runs/math/qwen3-4b-base/rule/{method}-seed{s}" for s in seeds], suites)


def checked(capsys, label, *runs):
    status = main(["paper", "check", label, "--json", "--runs", *runs])
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert status == (0 if found["agrees"] else 1)
    return found


def test_three_training_runs_like_the_published_ones_agree(tmp_path, capsys):
    runs = [math_run(tmp_path / m, m) for m in ("gspo", "rovr-gspo")]
    found = checked(capsys, "tab:math_main", *runs)
    assert found["agrees"] is True
    assert len(found["cells"]) == 2 * 6 + 1
    assert found["cells"][-1]["ours"] == 5


def test_published_deviations_divide_by_the_runs_and_a_standard_error_does_not(tmp_path, capsys):
    """Three runs at mean - sd, mean, mean + sd: a sample deviation of sd, so 0.82 sd as the paper writes it."""
    found = checked(capsys, "tab:math_main", math_run(tmp_path / "a", "gspo"))
    cell = next(c for c in found["cells"] if c["cell"].endswith("AIME2025"))
    published = 1.57  # whose own sample deviation is √1.5 times that: 3 √(2 · 1.5/3) sd in all
    assert cell["tolerance"] == f"± {3 * published:.2f} (3 standard errors)"
    assert f"sd over 3 runs {published * (2 / 3) ** 0.5:.2f}, published {published:.2f}" in cell["note"]


def counts(mean, sd, problems, deviation):
    """Three whole counts of right answers that give a published cell."""
    near = range(int(mean / 100 * problems) - 6, int(mean / 100 * problems) + 8)
    triples = ([100 * n / problems for n in three] for three in itertools.combinations_with_replacement(near, 3))
    return [t for t in triples if abs(statistics.mean(t) - mean) < 0.006 and abs(deviation(t) - sd) < 0.006]


def test_the_deviations_of_the_main_table_can_only_be_those_that_divide_by_the_runs():
    cells = [c[MATH["datasets"].index("AIME2025")] for m in ("Qwen3-4B-Base", "OLMo-3-7B-Instruct")
             for r in MATH[m].values() for c in r.values()]  # fmt: skip
    assert len(cells) == 8
    assert all(counts(mean, sd, 30, statistics.pstdev) for mean, sd in cells)
    assert not any(counts(mean, sd, 30, statistics.stdev) for mean, sd in cells)


def test_reward_curves_are_drawn_from_the_logs_of_verl_and_of_trl(tmp_path, capsys):
    log = tmp_path / "qwen3-4b-base_longdocfactscore_gspo.jsonl"
    lines = [{"step": k, "data": {"critic/score/mean": 0.1 * k, "actor/loss": 9.0}} for k in (1, 2, 3)]
    lines += [{"step": 2, "data": {"val-core/govreport/reward/mean@1": 0.7}}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    place = tmp_path / "qwen3-4b-base" / "longdocfactscore" / "rovr-gspo" / "checkpoint-3"
    place.mkdir(parents=True)
    history = [{"step": 1, "reward": 0.3, "loss": 9.0}, {"step": 2, "eval_reward": 0.9}, {"step": 3, "reward": 0.5}]
    (place / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    out = tmp_path / "drawn"
    assert main(["paper", "draw", "fig:govreport_curves", "--runs", str(log), str(place), "--out", str(out)]) == 0
    assert "fig-govreport_curves.svg" in capsys.readouterr().out
    rows = list(csv.DictReader((out / "fig-govreport_curves.csv").read_text().splitlines()))
    found = {(r["method"], r["kind"], int(r["step"])): round(float(r["reward"]), 6) for r in rows}
    assert found == {
        ("gspo", "training", 1): 0.1, ("gspo", "training", 2): 0.2, ("gspo", "training", 3): 0.3,
        ("gspo", "validation", 2): 0.7, ("rovr-gspo", "training", 1): 0.3, ("rovr-gspo", "training", 3): 0.5,
        ("rovr-gspo", "validation", 2): 0.9,
    }  # fmt: skip
    assert "Qwen3-4B-Base, validation reward" in (out / "fig-govreport_curves.svg").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fig:govreport_curves", "--runs", "qwen3-4b-base/rule/gspo=."], "hold no rewards by step"),
        (["tab:sim_rmse", "--runs", "."], "draw --runs is for fig:govreport_curves"),
        (["fig:govreport_curves"], "then rovrl paper draw fig:govreport_curves --runs"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "draw", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_runs_that_are_off_or_in_the_wrong_order_disagree(tmp_path, capsys):
    found = checked(
        capsys, "tab:math_main", math_run(tmp_path / "a", "gspo"), math_run(tmp_path / "b", "rovr-gspo", -12.0)
    )
    assert [c["cell"] for c in found["cells"] if not c["agrees"]][-1].endswith("RoVR-GSPO is above GSPO")
    assert sum(not c["agrees"] for c in found["cells"]) >= 5


def test_three_decodings_of_one_model_are_one_training_run(tmp_path, capsys):
    suites = {key: {"accuracy": [0.77, 0.40, 0.60]} for key in SUITES.values()}
    run = evaluation(tmp_path / "one", ["runs/math/qwen3-4b-base/rule/gspo"], suites)
    first = checked(capsys, "tab:math_main", run)["cells"][0]
    assert (first["ours"], first["published"], first["agrees"]) == (1, 3, False)


def test_rouge_is_checked_for_each_method_and_in_its_order(tmp_path, capsys):
    table = expected("training")["tab:govreport_rouge"]["OLMo-3-7B-Instruct"]
    runs = []
    for method, title in (("gspo", "GSPO"), ("rovr-gspo", "RoVR-GSPO")):
        metrics = {m: [v] for m, v in zip(("rouge1", "rouge2", "rougeL"), table[title], strict=True)}
        runs.append(
            evaluation(
                tmp_path / method,
                [f"runs/govreport/olmo-3-7b-instruct/longdocfactscore/{method}"],
                {"govreport": metrics},
            )
        )
    assert checked(capsys, "tab:govreport_rouge", *runs)["agrees"] is True
    swapped = [f"olmo-3-7b-instruct/longdocfactscore/{m}={r}" for m, r in zip(("rovr-gspo", "gspo"), runs, strict=True)]
    assert checked(capsys, "tab:govreport_rouge", *swapped)["agrees"] is False


def test_the_best_of_the_first_four_validations_is_taken_from_verls_log(tmp_path, capsys):
    scores = {"gspo": [1.2, 1.924, 1.8, 1.7, 3.9], "rovr-gspo": [1.5, 1.9, 2.009, 2.0, 0.1]}
    runs = []
    for method, values in scores.items():
        log = tmp_path / f"qwen3-4b-base_rule_{method}.jsonl"
        lines = [
            {"step": 20 * k, "data": {"val-core/rlla/reward/mean@1": v, "actor/loss": 0.1}}
            for k, v in enumerate(values)
        ]
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        runs.append(str(log))
    found = checked(capsys, "sec:tool_call_results", *runs)
    assert found["agrees"] is True
    assert [c["ours"] for c in found["cells"]][:4] == [1.924, 4, 2.009, 4]  # 3.9 is the fifth


def test_validations_of_evaluated_checkpoints_come_in_the_order_given(tmp_path):
    run = evaluation(tmp_path / "e", ["a/checkpoint-80", "a/checkpoint-160"], {"rlla_test": {"total": [1.1, 1.4]}})
    assert validations(tmp_path / "e") == [1.1, 1.4]
    assert run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tab:math_main", "--runs", "nowhere"], "there is no nowhere"),
        (["tab:math_main", "--runs", "."], "cannot tell which run"),
        (["tab:sim_rmse", "--runs", "."], "--runs is for tab:math_main"),
        (["--runs", "."], "--runs needs a label"),
        (["tab:math_main", "--runs", "qwen3-4b-base/rule/gspo=."], "has no results.json"),
        (["sec:tool_call_results", "--runs", "qwen3-4b-base/rule/gspo=."], "has no validations"),
    ],
)
def test_what_is_not_a_run_is_a_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "check", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
