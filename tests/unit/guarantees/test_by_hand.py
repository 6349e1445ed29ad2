"""Bounds of the paper computed once more from their formulas, with the numbers written out."""

import math

import pytest
import torch

from rovrl import guarantees as g
from rovrl.guarantees.certificate import _closed_form


def test_reference_failure_is_its_formula():
    """Nine blocks of 40, q = s = 1: H = 8 honest ones, η = (5 − 1)/8."""
    tail = math.exp(-40 / 2 * (0.5 * 1.6 - 2 / 40) ** 2)
    assert g.reference_failure(1.6, (40,) * 9, 1, 1, 0.5, 1.0) == pytest.approx(2 * math.exp(-16 * (0.5 - tail) ** 2))


@pytest.mark.parametrize("error", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize(("kappa", "floor"), [(1.0, 0.9), (0.4, 0.3), (2.0, 1e-3)])
def test_the_limit_of_a_certificate_is_the_smaller_of_the_papers_bounds(kappa, floor, error):
    """In units of κ; where both settings are of one size it is the cubic one that counts."""
    limit = float(_closed_form(torch.tensor(error / kappa, dtype=torch.float64), 2, 16, floor / kappa))
    ours = g.credit_stability(0.0, error, 2, 16, kappa, floor), 2 * g.credit_bound(kappa, floor, 16)
    assert limit == pytest.approx(min(ours), rel=1e-12)
