"""The committed full results against the published numbers, cell by cell."""

import dataclasses
import json
from pathlib import Path

import pytest

from rovrl import REFERENCES
from rovrl.cli import main
from rovrl_paper.paper.checking import result
from rovrl_paper.paper.experiments import sim_estimators
from rovrl_paper.paper.experiments.simulation import CHANNEL
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import experiment, load

RESULTS = Path(__file__).parents[2] / "results" / "paper"
RUN = sorted({item.experiment for item in ITEMS.values() if item.experiment})
CELLS = {
    "tab:sim_outer_factor": 18, "tab:sim_variance": 44, "tab:sim_rmse": 22, "fig:sim_dispersed_sweep": 8,
    "fig:sim_block_sweep": 8, "tab:reward_contamination": 9, "tab:softrovr_local_stress": 30, "sec:robust_scale_exp": 8,
}  # fmt: skip
"""How many published numbers a label is checked against."""


@pytest.mark.parametrize("name", RUN)
def test_the_committed_results_are_those_of_the_full_setting(name):
    _, meta = load(name, RESULTS)
    assert meta["smoke"] is False
    setting = json.loads(json.dumps(vars(experiment(name).FULL)))
    assert meta["setting"] == setting


@pytest.mark.parametrize("label", CELLS)
def test_every_published_number_agrees_with_ours(label):
    found = result(ITEMS[label], RESULTS)
    assert len(found["cells"]) == CELLS[label]
    assert [c for c in found["cells"] if not c["agrees"]] == []


@pytest.mark.parametrize("name", ["sim_estimators", "sim_outer_factor", "reward_contamination", "token_stress"])
def test_a_result_that_is_off_by_a_fifth_disagrees(name):
    """The tolerances are tight enough to notice a wrong number in any row that is compared."""
    value = {
        "sim_estimators": "rmse", "sim_outer_factor": "oracle", "reward_contamination": "contrast_retention",
        "token_stress": "softrovr",
    }[name]  # fmt: skip
    rows, _ = load(name, RESULTS)
    module = experiment(name)
    before = sum(not c.agrees for cells in module.checks(rows).values() for c in cells)
    wrong = [row | {value: 1.2 * row[value]} for row in rows]
    after = sum(not c.agrees for cells in module.checks(wrong).values() for c in cells)
    assert before == 0
    assert after > 0


def _corrected(share):
    """RoVR with this share of its quantile correction."""
    full, none = REFERENCES["rovr"], REFERENCES["robust_mom"]
    return lambda x, blocks, channel: (
        none(x, blocks, channel) + share * (full(x, blocks, channel) - none(x, blocks, channel))
    )


def _levels(number):
    """RoVR with another number of quantile levels than the channel has."""
    full = REFERENCES["rovr"]
    return lambda x, blocks, channel: full(x, blocks, dataclasses.replace(CHANNEL, num_levels=number))


@pytest.mark.parametrize(
    ("wrong", "agrees"),
    [
        (_corrected(1.0), True),
        *((_corrected(f), False) for f in (0.5, 0.7, 1.4)),
        *((_levels(k), False) for k in (3, 31)),
    ],
    ids=["right", "half", "seven tenths", "too much", "3 levels", "31 levels"],
)
def test_the_tables_of_estimators_refuse_a_wrong_correction(wrong, agrees, monkeypatch):
    """Cell by cell these pass; all estimators share their data, so that the cells of a scenario together do not."""
    monkeypatch.setitem(REFERENCES, "rovr", wrong)
    rows = sim_estimators.run(sim_estimators.Setting(replicates=20), lambda done, total: None)
    cells = [c for c in sim_estimators.checks(rows)["tab:sim_variance"] if "together" in c.cell]
    assert len(cells) == 4
    assert all(c.agrees for c in cells) == agrees, cells


def test_check_prints_json_for_every_label_and_its_status_is_one_only_for_a_disagreement(capsys):
    status = main(["paper", "check", "--json", "--out", str(RESULTS)])
    results = json.loads(capsys.readouterr().out)["results"]
    assert [r["id"] for r in results] == list(ITEMS)
    assert all(r["agrees"] in (True, False, None) for r in results)
    assert status == int(any(r["agrees"] is False for r in results))
    for r in results:
        assert (r["status"] == "needs GPUs") == (ITEMS[r["id"]].experiment is None)
        assert bool(r["cells"]) == (r["agrees"] is not None)


def test_every_stand_in_is_labelled_as_one():
    ours = {"reward_contamination", "token_stress", "cross_step", "mechanism", "placement", "language_model"}
    assert {i.experiment for i in ITEMS.values() if i.stand_in} == ours


def test_the_page_is_what_the_check_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(RESULTS.parents[1])
    main(["paper", "check", "--markdown", str(tmp_path / "page.md")])
    capsys.readouterr()
    assert (tmp_path / "page.md").read_text() == Path("docs/reproduce.md").read_text()
