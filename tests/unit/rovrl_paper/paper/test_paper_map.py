"""docs/paper-map.md is true both ways: what it names exists and says so, and what the source says is named there."""

import ast
import re
from pathlib import Path

import pytest

from mutation.paper_map import SOURCE, TESTS, file_of, parsed, rows
from mutation.rows import by_row
from rovrl import guarantees

LABEL = re.compile(r"\b(?:eq|prop|thm|cor|alg|ass|tab|fig|sec|app):[a-z0-9_]+")

NUMBERED = LABEL.findall("""
eq:grpo_advantage prop:grpo_broadcast eq:grpo_spike_exact eq:grpo_broadcast_limit prop:center_only_impossibility
eq:gspo_ratio eq:gspo_objective eq:clipping_branch_derivative eq:burst_ratio eq:convex_score eq:block_m eq:m_functional
eq:robust_sandwich_scale eq:mid_indicator eq:rovr eq:effective_sample_size prop:calibration eq:bounded_credit_map
eq:credit_advantage eq:credit_global_bound eq:credit_clean_fidelity eq:loo_advantage eq:smooth_median eq:softrovr_ratio
eq:resolution_frontier alg:rovr_gspo thm:main_finite_credit eq:main_finite_group eq:main_credit_stability
thm:main_clean_efficiency eq:main_clean_efficiency prop:main_softrovr_stability prop:block_replacement
eq:block_replacement_sensitivity eq:block_mixed_tail prop:random_partition eq:random_partition_load
eq:correction_magnitude thm:finite_group eq:finite_rovr_bound cor:partition_to_estimator eq:partition_estimator_bound
prop:asymmetric_bias eq:asymmetric_functional_bias eq:third_moment_bias prop:population_contamination
eq:population_contamination_bias prop:credit_stability eq:credit_scale_stability eq:credit_stability cor:finite_credit
eq:finite_credit_bound eq:credit_contrast_retention prop:oracle_unequal_efficiency eq:oracle_unequal_variance
prop:scale_orthogonality eq:scale_orthogonality eq:orthogonal_expansion ass:transfer thm:efficiency_transfer
eq:efficiency_linearization eq:total_are prop:smoothing eq:smoothing_margin_bound eq:rovr_lipschitz
eq:rovr_translation_calibration eq:sequence_weight_relative_error prop:branch_flip_count eq:flip_count_bounds
prop:policy_stability eq:policy_value_stability eq:policy_gradient_stability thm:crossfit_baseline
eq:loo_scaled_direction prop:credit_gradient_distortion eq:credit_gradient_distortion
""")
"""Every numbered equation, proposition, theorem, corollary, assumption and algorithm of the paper."""
OTHERS = LABEL.findall("""
fig:frame tab:reference_estimators tab:advantage_variants tab:math_main tab:govreport_rouge fig:govreport_curves
tab:placement_ablation fig:placement_ablation fig:softrovr_spike_burst tab:softrovr_local_stress fig:reward_contamination
tab:reward_contamination fig:softrovr_negative_stress fig:softrovr_cross_step tab:sim_outer_factor fig:sim_outer_factor
fig:sim_variance tab:sim_variance tab:sim_rmse fig:sim_contamination_rmse fig:sim_dispersed_sweep fig:sim_block_sweep
sec:introduction sec:background sec:method sec:reward_credit sec:theory_summary sec:clean_efficiency sec:experiments
sec:exp_protocol sec:downstream_results sec:math_results sec:summarization sec:tool_call_results sec:robust_scale_exp
sec:softrovr_token_stress sec:reward_contamination sec:conclusion sec:related app:theory_statements
app:additional_experiments app:finite_group app:target_scale app:policy app:exp_protocol app:softrovr_stress
app:implementation app:simulation
""")
"""Its tables, figures, sections and appendices."""


def docstrings(path: Path) -> dict[str, str]:
    """Qualified name -> docstring of everything documented in a file: the module (""), definitions, attributes."""
    found: dict[str, str] = {}

    def visit(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> None:
        found[name] = ast.get_docstring(node) or ""
        before: ast.stmt | None = None
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                visit(child, f"{name}.{child.name}".strip("."))
            elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(before, ast.stmt):
                targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
                for target in targets:
                    if isinstance(target, ast.Name):
                        found[f"{name}.{target.id}".strip(".")] = str(child.value.value)
            before = child

    visit(parsed(path), "")
    return found


def documentation(dotted: str) -> str | None:
    """The docstring of a dotted name of the map, or None if there is no such thing."""
    path, inside = file_of(dotted) or (None, [])
    return docstrings(path).get(".".join(inside)) if path else None


def spoken_labels() -> list[tuple[str, str]]:
    """(label, where) for every label in a docstring below src."""
    return [
        (label, f"{path.relative_to(SOURCE)} {name}".strip())
        for path in sorted(SOURCE.rglob("*.py"))
        for name, text in docstrings(path).items()
        for label in LABEL.findall(text)
    ]


def test_every_numbered_statement_of_the_paper_has_a_row_of_its_own():
    labels = [label for label, _, _ in rows()]
    assert sorted(set(NUMBERED) - set(labels)) == []
    assert sorted({label for label in labels if labels.count(label) > 1}) == []


def test_every_label_is_one_of_the_papers():
    known = {*NUMBERED, *OTHERS}
    assert sorted({label for label, _, _ in rows()} - known) == []
    assert sorted((label, where) for label, where in spoken_labels() if label not in known) == []


def test_every_function_named_exists_and_its_docstring_carries_the_label():
    named = [(label, function) for label, functions, _ in rows() for function in functions]
    missing = [name for _, name in named if documentation(name) is None]
    assert missing == []
    silent = [(label, name) for label, name in named if label not in LABEL.findall(documentation(name) or "")]
    assert silent == []


def test_every_label_in_a_docstring_has_a_row():
    listed = {label for label, _, _ in rows()}
    missing = sorted({f"{label}   (src/{where})" for label, where in spoken_labels() if label not in listed})
    assert not missing, "add a row to docs/paper-map.md for\n" + "\n".join(missing)


def test_every_guarantee_is_listed_under_each_label_of_its_first_line():
    """The calculators' own labels lead back to them."""
    listed = {(label, function) for label, functions, _ in rows() for function in functions}
    wanted = {
        (label, f"guarantees.{path.stem}.{name}")
        for path in (SOURCE / "rovrl" / "guarantees").glob("*.py")
        for name, text in docstrings(path).items()
        if name in guarantees.__all__ and name.islower()
        for label in LABEL.findall(text.splitlines()[0])
        if text.splitlines()[0].rstrip(".").endswith(label) or f"{label}," in text.splitlines()[0]
    }
    assert len(wanted) > 30
    assert sorted(wanted - listed) == []


def test_every_numbered_statement_has_a_test_and_every_test_named_exists():
    for label, _, tests in rows():
        assert tests or label in OTHERS, f"{label} has no test"
        for test in tests:
            file, _, name = test.partition("::")
            path = TESTS / file
            assert path.is_file(), f"{label}: there is no tests/{file}"
            assert name in docstrings(path), f"{label}: tests/{file} has no {name}"


def test_a_wrong_formula_is_planted_for_every_numbered_statement_that_has_a_function_and_a_test():
    """`make mutate ROWS=1` then shows that the tests of each row see it."""
    assert sorted(label for label, planted in by_row().items() if label in NUMBERED and not planted) == []


@pytest.mark.parametrize("name", ["guarantees.no_such", "nowhere.at_all", "robust.blocks.Blocks.no_such"])
def test_a_name_that_does_not_exist_is_found_missing(name):
    assert documentation(name) is None
