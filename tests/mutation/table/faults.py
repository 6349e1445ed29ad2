"""Constants and signs of the test of faults: moments, gaps, power, what protects merit, the scale of merit, the window."""

from mutation.mutant import Mutant, mutants

_TESTS = (
    "unit/faults/test_rules.py unit/faults/test_find.py unit/faults/test_beside_merit.py unit/faults/test_error_rate.py"
)

FAULTS: tuple[Mutant, ...] = (
    *mutants(
        "robust/outliers/dispersion.py",
        "unit/robust/outliers/test_dispersion.py",
        ("apart = p * p - p - a", "apart = p * p - p - 2 * a"),
        ("second = p * h2 + a * h3 + apart * h4", "second = p * h2 + a * h3 + apart * h5"),
        ("third = p * h2 + three * h3 + four * h4", "third = p * h2 + three * h3 + 2 * four * h4"),
        ("(found - 0.5 - expected.mean)", "(found - expected.mean)"),
        ("1 - gamma_share(shape, place)", "gamma_share(shape, place)"),
        ("rho = share * np.minimum(CORRELATION,", "rho = np.minimum(CORRELATION,"),
        ("spread - joint**2 / np.maximum(total, 1e-12)", "spread"),
    ),
    *mutants(
        "robust/outliers/beta_binomial.py",
        "unit/robust/outliers/test_dispersion.py",
        ("(a + n) / (b + m - n - 1)", "(a + n) / (b + m - n)"),
        ('"majorities": lambda m: (m + 1) // 2', '"majorities": lambda m: m // 2 - 1'),
    ),
    *mutants(
        "robust/outliers/gaps.py",
        "unit/robust/outliers/test_gaps.py",
        ("1 - width**-tail", "1 - width**-(tail / 8)"),
        ("TAIL, ERROR = 0.5, 1e-3", "TAIL, ERROR = 0.5, 0.5"),
        ("SLACK = 0.15", "SLACK = 0.9"),
    ),
    *mutants(
        "faults/candidates.py",
        _TESTS,
        ("ERROR = 0.05", "ERROR = 0.6"),
        ("MISSED = 0.03", "MISSED = 0.9"),
        ("SLIGHT, PAIRED = 0.35, 0.5", "SLIGHT, PAIRED = 1.0, 0.5"),
        ("SLIGHT, PAIRED = 0.35, 0.5", "SLIGHT, PAIRED = 0.35, 0.0"),
        ("REMOTE = 100.0", "REMOTE = 10.0"),
        ("NEGLIGIBLE, MISPLACED = 0.15, 0.1", "NEGLIGIBLE, MISPLACED = 0.3, 0.1"),
        ("NEGLIGIBLE, MISPLACED = 0.15, 0.1", "NEGLIGIBLE, MISPLACED = 0.15, 1e-9"),
        ("MEETINGS, MET, MET_IN_SMALL, TOO_FEW = 6, 0.5,", "MEETINGS, MET, MET_IN_SMALL, TOO_FEW = 6, 0.3,"),
        ("np.where((opposite > 0) & (counts == 0), self.design.sizes - opposite, counts)", "counts"),
    ),
    *mutants(
        "faults/nearest.py",
        _TESTS,
        ("LEAST, LEAST_IN_SMALL = 4.0, 12.0", "LEAST, LEAST_IN_SMALL = 1.0, 12.0"),
        ("LEAST_OF_GRADES = 12.0", "LEAST_OF_GRADES = 1.5"),
        ("LONGEST_SCALE, SPAN, OFF_SCALE = 100.5,", "LONGEST_SCALE, SPAN, OFF_SCALE = 12.5,"),
    ),
    *mutants(
        "faults/shown.py",
        _TESTS,
        ("return expected > 0 and 1 - gamma_share(spared + 1, expected) < SPARED", "return False"),
        ("gone <= SHARE * groups.size", "gone <= groups.size"),
        ("side.p_value < (DISPERSED_OF_MANY if many else DISPERSED)", "side.p_value < 0"),
        ("best, likeliest = np.where(better, found, best), np.where(better, other, likeliest)", "pass"),
    ),
    *mutants(
        "faults/merit.py",
        "unit/faults/test_merit.py unit/faults/test_rules.py",
        ("FARTHEST = 60.0", "FARTHEST = 6e9"),
        ("UNEVEN = 0.06", "UNEVEN = 6.0"),
        ("ENOUGH = 1024", "ENOUGH = 64"),
        ("NARROW = 0.6", "NARROW = 60.0"),
        ("2 / (n - 1) + (kurtosis - 3) / n", "2 / (n - 1)"),
        ("for hits in seen)", "for hits in seen[:1])"),
    ),
    *mutants(
        "faults/scattered.py",
        "unit/faults/test_merit.py unit/faults/test_rules.py",
        ("< UNSUSPICIOUS:", "< 0:"),
        ("share=share) <= ERROR", "share=share) <= 2"),
        ("dispersion.pairs(hits), self._design", "dispersion.pairs(above), self._design"),
    ),
    *mutants(
        "faults/find.py",
        "unit/faults/test_find.py unit/faults/test_channel.py unit/faults/test_merit.py",
        ("if witnesses is None and self.scattered:", "if self.scattered:"),
        ("groups if witnesses is None else witnesses", "groups"),
        ("own / APART < unit < own * APART", "True"),
        ("np.full(len(sizes), number)", "np.full(len(sizes), 0)"),
    ),
    *mutants(
        "faults/window.py",
        "unit/faults/test_find.py unit/faults/test_channel.py",
        ("while len(self) > self.capacity:", "while False:"),
        ("kept = sizes[codes] >= SMALLEST", "kept = sizes[codes] >= 1"),
    ),
)
