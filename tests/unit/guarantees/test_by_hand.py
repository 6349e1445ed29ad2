"""Bounds of the paper computed once more from their formulas, with the numbers written out."""

import math

import pytest

from rovrl import guarantees as g


def test_reference_failure_is_its_formula():
    """Nine blocks of 40, q = s = 1: H = 8 honest ones, η = (5 − 1)/8."""
    tail = math.exp(-40 / 2 * (0.5 * 1.6 - 2 / 40) ** 2)
    assert g.reference_failure(1.6, (40,) * 9, 1, 1, 0.5, 1.0) == pytest.approx(2 * math.exp(-16 * (0.5 - tail) ** 2))
