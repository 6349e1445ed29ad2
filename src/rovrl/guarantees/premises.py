"""Refusals: every calculator checks its arguments here; the message names the argument, its value, what is allowed."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat, SupportsIndex


def _float(name: str, value: Any, allowed: str) -> float:
    if isinstance(value, SupportsFloat) and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):  # an array of several numbers
            pass
    raise ValueError(f"{name} must be {allowed}, not {value!r}")


def _refuse_unless(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")


SLACK = 1 + 1e-12  # a mean of ψ' over equal values may exceed sup ψ' in the last bits


def finite(name: str, value: Any) -> float:
    """`value` as a float; refused unless finite."""
    number = _float(name, value, allowed := "a finite number")
    _refuse_unless(math.isfinite(number), name, value, allowed)
    return number


def positive(name: str, value: Any, *, most: float = math.inf) -> float:
    """`value` as a float; refused unless finite, above 0 and at most `most`."""
    allowed = "a finite number above 0" + (f" and at most {most:g}" if most < math.inf else "")
    number = _float(name, value, allowed)
    _refuse_unless(0 < number <= most * SLACK and math.isfinite(number), name, value, allowed)
    return number


def non_negative(name: str, value: Any, *, most: float = math.inf) -> float:
    """`value` as a float; refused unless finite, at least 0 and at most `most`."""
    allowed = "a finite number of at least 0" + (f" and at most {most:g}" if most < math.inf else "")
    number = _float(name, value, allowed)
    _refuse_unless(0 <= number <= most * SLACK and math.isfinite(number), name, value, allowed)
    return number


def error_radius(name: str, value: Any) -> float:
    """`value` as a float; refused unless at least 0. Infinite is allowed: a replaced reward may be anything."""
    number = _float(name, value, allowed := "a number of at least 0, or infinite")
    _refuse_unless(number >= 0, name, value, allowed)
    return number


def probability(name: str, value: Any, *, zero: bool = False) -> float:
    """`value` as a float; refused unless strictly between 0 and 1 (`zero`: 0 is allowed too)."""
    number = _float(name, value, allowed := "at least 0 and below 1" if zero else "strictly between 0 and 1")
    _refuse_unless(0 < number < 1 or (zero and number == 0), name, value, allowed)
    return number


def count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int; refused unless a whole number in `least` ... `most`."""
    allowed = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    _refuse_unless(not isinstance(value, bool), name, value, allowed)
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, not {value!r}") from None
    _refuse_unless(number >= least and (most is None or number <= most), name, value, allowed)
    return number


def numbers(name: str, values: Iterable[Any], least: int = 1) -> list[float]:
    """`values` as floats; refused unless there are `least` of them and all are finite."""
    out = [finite(f"{name}[{i}]", value) for i, value in enumerate(values)]
    if len(out) < least:
        raise ValueError(f"{name} must have at least {least} elements, not {len(out)}")
    return out


def block_sizes(sizes: Iterable[Any]) -> tuple[int, ...]:
    """`sizes` as ints; refused unless there is at least one block and each holds at least one observation."""
    if not isinstance(sizes, Iterable):
        raise ValueError(f"sizes must be a list of block sizes, not {sizes!r}")
    out = tuple(count(f"sizes[{b}]", n, 1) for b, n in enumerate(sizes))
    if not out:
        raise ValueError("sizes must name at least one block, not ()")
    return out


def block_budgets(replaced: int | Sequence[int], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """s_b for every block: one number for all blocks or one number each; refused if a block cannot hold its budget."""
    if isinstance(replaced, SupportsIndex) and getattr(replaced, "ndim", 0) == 0:
        return (count("replaced", replaced, 0, min(sizes)),) * len(sizes)
    if not isinstance(replaced, Iterable):
        raise ValueError(f"replaced must be a whole number or one per block ({len(sizes)}), not {replaced!r}")
    budgets = list(replaced)
    if len(budgets) != len(sizes):
        raise ValueError(f"replaced must be one number or one per block ({len(sizes)}), not {len(budgets)} numbers")
    return tuple(count(f"replaced[{b}]", s, 0, n) for b, (s, n) in enumerate(zip(budgets, sizes, strict=True)))
