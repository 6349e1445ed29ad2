"""Constants and signs of the posterior of faults: evidence, gaps, centers, priors, the scale of merit, the window."""

from mutation.mutant import Mutant, mutants

_TESTS = (
    "unit/robust/outliers/test_evidence.py unit/faults/test_find.py unit/faults/test_beside_merit.py "
    "unit/faults/test_error_rate.py unit/faults/test_channel.py unit/faults/test_merit.py"
)

FAULTS: tuple[Mutant, ...] = (
    *mutants(
        "robust/outliers/evidence.py",
        "unit/robust/outliers/test_evidence.py",
        ("CHANCE = 0.003", "CHANCE = 0.1"),
        ("RARE = 13.0", "RARE = 0.1"),
        ("ODD = 0.02", "ODD = 1e-12"),
        ("BALANCE = 1.0", "BALANCE = 9.0"),
        ("(1 - rate) * (1 - rho) / rho", "(1 - rate) / rho"),
        ("law(m - o, m)", "law(o, m)"),
        ("alone = np.logaddexp(law(0 * n, m), from_above)", "alone = law(0 * n, m)"),
        ("value = self._by_rate(logit, correlation) - 0.5", "value = self._by_rate(logit, correlation) + 0.5"),
        ("np.add.reduceat(each, first, axis=0)", "np.add.reduceat(each, first[:1], axis=0)"),
    ),
    *mutants(
        "robust/outliers/gaps.py",
        "unit/robust/outliers/test_gaps.py",
        ("1 - w**-tail", "1 - w**-(tail / 8)"),
        ("TAIL, ERROR = 0.5, 1e-3", "TAIL, ERROR = 0.5, 0.5"),
        ("SLACK = 0.15", "SLACK = 0.9"),
    ),
    *mutants(
        "robust/outliers/bulk.py",
        _TESTS,
        ("CROWDED = 0.6", "CROWDED = 0.01"),
        ("return tried[number, likelihood.argmax(1)], tried[number, drawn]", "return (tried[number, drawn],) * 2"),
    ),
    *mutants(
        "faults/posterior.py",
        _TESTS,
        ("NEAREST = 4.0", "NEAREST = 1.0"),
        ("SCALE = 8", "SCALE = 1"),
        ("LUCK = 0.005, 0.3", "LUCK = 0.0, 0.0"),
        ("SOMEWHERE = 0.1", "SOMEWHERE = 1.0"),
        ("REMOTE = 60.0", "REMOTE = 6e9"),
        ("UNEVEN = 0.1", "UNEVEN = 9.0"),
        (
            "MERIT, SLIGHT = (0.2, 0.2, 0.05), (0.3, 0.05, 0.05), 0.3",
            "MERIT, SLIGHT = (0.2, 0.2, 0.05), (0.3, 0.05, 0.05), 0.0",
        ),
        ("layer.fault *= layer.middle > WIDTHS[1] * farthest", "pass"),
    ),
    *mutants(
        "faults/find.py",
        "unit/faults/test_find.py unit/faults/test_channel.py unit/faults/test_merit.py",
        ("if witnesses is None and self.scattered:", "if self.scattered:"),
        ("groups if witnesses is None else witnesses", "groups"),
        ("own / APART < unit < own * APART", "True"),
        ("np.full(len(sizes), number)", "np.full(len(sizes), 0)"),
        ("left < LEFT * groups.size", "left < 0"),
        ("layer.middle > (1 + NARROW) * level", "False"),
        ("(2 * self.probability - 1)", "(3 * self.probability - 1)"),
    ),
    *mutants(
        "faults/window.py",
        "unit/faults/test_find.py unit/faults/test_channel.py",
        ("while len(self) > self.capacity:", "while False:"),
        ("kept = sizes[codes] >= SMALLEST", "kept = sizes[codes] >= 1"),
    ),
)
