"""Every experiment of the paper runs in its smoke setting and leaves everything that a full run leaves."""

import json

import pytest

from rovrl.cli import main
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import experiment, load, stem

FAST = ("sim_sweeps", "sim_outer_factor", "mechanism", "sim_estimators", "reward_contamination", "token_stress")
SLOW = ("sensitivity", "certificates")
TRAINED = ("cross_step", "language_model", "placement")
TRAINING = (pytest.mark.slow, pytest.mark.filterwarnings("ignore"))  # TRL and accelerate warn in several ways
CASES = [
    *FAST,
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    *(pytest.param(name, marks=TRAINING) for name in TRAINED),
]


def test_every_experiment_of_the_registry_has_a_smoke_test():
    assert {*FAST, *SLOW, *TRAINED} == {item.experiment for item in ITEMS.values() if item.experiment}


@pytest.mark.parametrize("name", CASES)
def test_a_smoke_run_leaves_rows_meta_tables_figures_and_checks(name, tmp_path, monkeypatch, capsys):
    """Those in TRAINED train tiny models with the real trainer on the way."""
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "run", name, "--smoke", "--out", "out"]) == 0
    capsys.readouterr()
    folder = tmp_path / "out" / name
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["smoke"] is True
    assert meta["command"] == f"rovrl paper run {name} --smoke"
    assert {"seconds", "setting", "versions"} <= set(meta)
    rows, _ = load(name, tmp_path / "out")
    module = experiment(name)
    for label, table in module.tables(rows).items():
        assert (folder / f"{stem(label)}.md").read_text().count("\n") >= len(table.body) + 2
        assert r"\toprule" in (folder / f"{stem(label)}.tex").read_text()
    for label in module.figures():
        assert (folder / f"{stem(label)}.svg").read_text().count("<path") > 5
        assert (folder / f"{stem(label)}.png").read_bytes().startswith(b"\x89PNG")
    labels = {item.label for item in ITEMS.values() if item.experiment == name}
    assert set(module.checks(rows)) == labels
    assert main(["paper", "check", next(iter(labels)), "--out", "out", "--json"]) in (0, 1)
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert found["status"] == "smoke setting"
    assert found["cells"]
