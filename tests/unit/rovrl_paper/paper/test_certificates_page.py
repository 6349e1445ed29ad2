"""docs/certificates.md shows what the commands print."""

from pathlib import Path

from rovrl import RewardChannel, guarantees
from rovrl_paper.paper.store import load

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "certificates.md").read_text()
RESULTS = ROOT / "results" / "paper"


def test_the_table_is_the_one_that_the_command_writes():
    made = (RESULTS / "certificates" / "beyond-certificates.md").read_text()
    table = [line for line in made.splitlines() if line.startswith("|")]
    assert len(table) > 30
    assert "\n".join(table) in PAGE


def test_the_sentence_of_the_settings_is_the_doctors():
    assert f"    {guarantees.tolerance_of_settings(16, RewardChannel())}\n" in PAGE


def test_the_committed_rows_hold_what_the_calculators_say_now():
    """The single numbers; the rest takes a minute."""
    rows = {(r["statement"], r["setting"]): r for r in load("certificates", RESULTS)[0]}
    envelope = rows["outer correction", "blocks of 6, 5, 5, ν_max = 10"]
    assert round(envelope["ours"], 2) == 2.34
    assert envelope["ours"] == guarantees.sharp_correction_envelope((6, 5, 5), 9, 10.0)
    loads = rows["bad rewards in one block", "9 of 900, δ = 0.02"]
    assert (loads["paper"], loads["ours"]) == (19, 4)
    entropy = rows[
        "P(reference off by more than 4 + Ĉ_B), q = 1, s = 1", "blocks of 6, 5, 5, normal law, relative entropy"
    ]
    assert round(entropy["ours"], 3) == 0.195
