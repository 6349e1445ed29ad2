"""`rovrl check`: the common name of lint and doctor."""

import json

import pytest

from rovrl.cli import main


def test_check_rewards_is_lint_and_check_run_is_doctor(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def short(completions, **_): return [1.0]\n")
    rows = [{"prompt": f"p{k // 4}", "completion": "x" * k} for k in range(16)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [f"{tmp_path / 'mine.py'}:short", "--completions", str(tmp_path / "rows.jsonl"), "--json"]
    told = []
    for command in (["lint"], ["check", "rewards"]):
        assert main([*command, *words]) == 1
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    for command in (["doctor"], ["check", "run"]):
        assert main([*command, "--engine", "trl", "num_generation=16"]) == 2
        assert "did you mean num_generations" in capsys.readouterr().err


def test_check_of_nothing_names_its_halves(capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["check"])
    assert leaving.value.code == 2
    assert "run|rewards" in capsys.readouterr().err
