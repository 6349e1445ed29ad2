"""What an experiment of the paper is here: settings, a run that yields rows, tables, figures, and checks of its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

from rovrl.output.progress import Progress

Row = dict[str, Any]
"""One row of an experiment's results: column -> value."""


@dataclass(frozen=True, kw_only=True)
class Bootstrapped:
    """The settings of every experiment with bootstrap intervals; each adds its own sizes."""

    replicates: int = 500
    """Of the bootstrap."""
    seed: int = 0


@dataclass(frozen=True)
class Check:
    """One of our numbers beside the published one."""

    cell: str
    ours: float
    published: float
    tolerance: str
    agrees: bool
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table as a person reads it."""

    header: Sequence[str]
    body: Sequence[Sequence[str]]
    caption: str


class Experiment(Protocol):
    """A module of this package that makes one or more labels; `findings(rows)` (sentences by label) is optional."""

    FULL: Any
    SMOKE: Any

    def run(self, setting: Any, progress: Progress) -> list[Row]: ...  # noqa: D102

    def tables(self, rows: list[Row]) -> dict[str, Table]: ...  # noqa: D102

    def figures(self) -> dict[str, Callable[[list[Row]], Any]]: ...  # noqa: D102

    def checks(self, rows: list[Row]) -> dict[str, list[Check]]: ...  # noqa: D102


@dataclass(frozen=True)
class Item:
    """One label of the paper: what it shows, which experiment makes it, and if none can, what it would need."""

    label: str
    title: str
    experiment: str | None = None
    minutes: float = 0.0
    """Of the full setting, on two cores."""
    stand_in: str = ""
    """If ours is not the paper's own data: what it is instead."""
    recipe: str = ""
    """For what needs a cluster: the command of this project that would make it there."""
    published: Sequence[str] = field(default_factory=tuple)
    """For what needs a cluster: the published numbers, in words."""


@lru_cache
def expected(name: str) -> dict[str, Any]:
    """The published numbers of expected/<name>.json, typed once from the paper."""
    return json.loads(resources.files("rovrl_paper.paper").joinpath(f"expected/{name}.json").read_text("utf-8"))


def within(cell: str, ours: float, published: float, error: float, reason: str) -> Check:
    """A check that allows an absolute error."""
    return Check(cell, ours, published, f"± {error:.3g} ({reason})", abs(ours - published) <= error)


def relative(cell: str, ours: float, published: float, share: float, reason: str) -> Check:
    """A check that allows a share of the published value."""
    return Check(cell, ours, published, f"± {share:.0%} ({reason})", abs(ours - published) <= share * abs(published))
