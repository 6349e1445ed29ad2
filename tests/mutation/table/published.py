"""Wrong corrections and numbers of levels that the paper's own tables must notice, and what compares with them."""

from mutation.mutant import Mutant, mutants

SIMULATED = "reproduction/test_published.py::test_the_tables_of_estimators_refuse_a_wrong_correction"
CORRECTION = "reference[first + i] = start[i] - moved"

PUBLISHED: tuple[Mutant, ...] = (
    *mutants(
        "robust/kernels/lanes.py",
        f"{SIMULATED}[right]",
        (CORRECTION, CORRECTION.replace("- moved", "- 0.5 * moved")),
        (CORRECTION, CORRECTION.replace("- moved", "- 0.7 * moved")),
        (CORRECTION, CORRECTION.replace("- moved", "- 1.4 * moved")),
    ),
    *mutants(
        "rovrl_paper/paper/experiments/simulation.py",
        f"{SIMULATED}[right]",
        ("num_levels=9", "num_levels=3"),
        ("num_levels=9", "num_levels=31"),
    ),
    *mutants(
        "rovrl_paper/paper/experiments/sim_estimators.py",
        SIMULATED,
        ("[[2 * mine[name]", "[[200 * mine[name]"),
        ("[[2 * mine[name]", "[[0.2 * mine[name]"),
    ),
)
