"""The comparison as one HTML file: differences with intervals, curves of every run, the same prompt in each."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import rovrl
from rovrl.audit.comparing.measures import LETTERS, MEASURES, by_prompt, prompts, values_by_group
from rovrl.audit.result import AuditResult
from rovrl.audit.show.details import cut, details
from rovrl.audit.show.page import render, unwritable
from rovrl.output.files import plain, write_text

if TYPE_CHECKING:
    from rovrl.audit.comparing.comparison import Comparison

SCRIPTS = ("elements.js", "estimators.js", "plots.js", "compare.js")
FORMAT = 1
PAIRS = 100
"""Prompts shown side by side, those whose mean reward differs most first."""
NORMAL = 1.959964
"""Half of a 95 % interval in standard errors."""


def write(comparison: Comparison, directory: Path) -> tuple[Path, Path]:
    """Writes compare.html and compare.json into `directory`; their paths. Both hold the same document."""
    document = payload(comparison)
    html, data = directory / "compare.html", directory / "compare.json"
    with unwritable(directory):
        directory.mkdir(parents=True, exist_ok=True)
        write_text(data, json.dumps(document, allow_nan=False, separators=(",", ":")))
        write_text(html, render(document, "compare.html", SCRIPTS))
    return html, data


def payload(comparison: Comparison) -> dict[str, Any]:
    """The document: runs, differences, curves, and the prompts that differ most."""
    values = [values_by_group(run) for run in comparison.runs]
    runs = [
        {
            "letter": LETTERS[k],
            "path": run.path,
            "title": run.reader.title,
            "status": run.status,
            "verdict": run.verdict,
        }
        | {"summary": asdict(run.summary), "curves": curves(run, values[k])}
        for k, run in enumerate(comparison.runs)
    ]
    measures = {name: {"title": m.title, "better": m.better, "share": m.share} for name, m in MEASURES.items()}
    return plain(
        comparison.to_dict()
        | {"format": FORMAT, "rovrl": rovrl.__version__, "measures": measures, "runs": runs}
        | {"pairs": pairs(comparison, [found["mean_reward"] for found in values])}
    )


def curves(run: AuditResult, values: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    """By step: the mean over its groups and a 95 % interval by the normal approximation (no interval with one group)."""
    steps, rank = np.unique(run.rollouts.step, return_inverse=True)
    out: dict[str, Any] = {"step": steps}
    for name, column in values.items():
        good = np.isfinite(column)
        count = np.bincount(rank[good], minlength=len(steps))
        some = np.maximum(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.bincount(rank[good], weights=column[good], minlength=len(steps)) / some
            square = np.bincount(rank[good], weights=(column[good] - mean[rank[good]]) ** 2, minlength=len(steps))
            half = NORMAL * np.sqrt(square / np.maximum(count - 1, 1) / some)
        mean, half = np.where(count > 0, mean, np.nan), np.where(count > 1, half, np.nan)
        out[name] = {"mean": mean, "low": mean - half, "high": mean + half}
    return out


def pairs(comparison: Comparison, means: list[NDArray[np.float64]]) -> list[dict[str, Any]]:
    """The prompts of all runs, those whose mean reward differs most first: the group of each run beside the others."""
    named = [prompts(run) or [] for run in comparison.runs]
    both = sorted(set(named[0]).intersection(*named[1:]) - {""})
    if not both:
        return []
    by_run = np.stack([by_prompt(mean, names, both) for mean, names in zip(means, named, strict=True)])
    apart = np.nan_to_num(np.nanmax(np.abs(by_run - by_run[:1]), axis=0, initial=0.0, where=np.isfinite(by_run)))
    order = np.argsort(-apart, kind="stable")[:PAIRS].tolist()
    chosen = [[names.index(both[k]) for k in order] for names in named]
    texts = [details(run, np.array(groups)) for run, groups in zip(comparison.runs, chosen, strict=True)]
    found = []
    for place, k in enumerate(order):
        sides = [
            _side(run, groups[place], text) for run, groups, text in zip(comparison.runs, chosen, texts, strict=True)
        ]
        found.append({"prompt": cut(both[k]), "means": by_run[:, k], "runs": sides})
    return found


def _side(run: AuditResult, group: int, texts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    rewards = run.rewards(group)
    known = rewards[np.isfinite(rewards)]
    centers = {"mean": float(run.groups.mean[group]), "median": float(run.groups.median[group])}
    return {
        "step": int(run.rollouts.step[group]),
        "rewards": rewards,
        "centers": centers | {"rovr": float(run.groups.reference[group])} if len(known) > 1 else None,
        "dominating": run.dominating(group),
        "completions": texts.get(group, {}).get("completions"),
    }
