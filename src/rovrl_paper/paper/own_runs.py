"""A reader's finished runs beside the published numbers of the tables that need GPUs: `rovrl paper check LABEL --runs ...`.

A run is named MODEL/REWARD/METHOD as in recipes/, such as qwen3-4b-base/rule/rovr-gspo. The name is read off the paths of the
evaluated models, or of the directory itself, or given: `--runs qwen3-4b-base/rule/gspo=DIR`.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines
from rovrl_paper.paper.item import Check, expected, relative
from rovrl_paper.paper.plot import axes, finish
from rovrl_paper.paper.store import write_figure

MODELS = {"qwen3-4b-base": "Qwen3-4B-Base", "olmo-3-7b-instruct": "OLMo-3-7B-Instruct"}
REWARDS = {"rule": "rule", "internlm2": "InternLM2", "longdocfactscore": "LongDocFACTScore"}
OPTIMIZERS = {"gspo": "GSPO", "rovr-gspo": "RoVR-GSPO"}
SUITES = {
    "MATH500": "math500", "Gaokao2023en": "gaokao2023en", "MinervaMath": "minervamath", "AIME2025": "aime2025",
    "AMC23": "amc23",
}  # fmt: skip
RUNS = 3
"""Independent training runs behind each cell of tab:math_main."""
VALIDATIONS = 4
"""Logged validations from which sec:tool_call_results takes the best."""
ERRORS = 3.0
"""Standard errors of the difference within which two means agree."""


@dataclass(frozen=True)
class Name:
    """Which cell of a table a run belongs to, in the words of recipes/."""

    model: str
    reward: str
    method: str


def named(words: Iterable[str]) -> list[tuple[Name, Path]]:
    """Name and directory of each word of --runs: NAME=DIR, or a DIR whose path or evaluated models give the name."""
    found = []
    for word in words:
        given, equals, rest = word.partition("=")
        path = Path(rest if equals else word)
        if not path.exists():
            raise RovrlError(
                f"there is no {path}; --runs takes what `rovrl eval --out` wrote, or logs of a training run"
            )
        texts = [given] if equals else [*_evaluated(path), str(path)]
        name = next((n for text in texts if (n := _name(text))), None)
        if name is None:
            raise RovrlError(
                f"cannot tell which run {path} is: write MODEL/REWARD/METHOD={path} with a model of {', '.join(MODELS)}, a "
                f"reward of {', '.join(REWARDS)}, a method of {', '.join(OPTIMIZERS)}"
            )
        found.append((name, path))
    return found


def _name(text: str) -> Name | None:
    """The first model, reward and method among the parts of a path; a part may continue, as in rovr-gspo-seed2."""
    parts = text.lower().replace("\\", "/").replace("_", "/").split("/")
    model, reward, method = (
        next((key for part in parts for key in keys if _is(part, key)), None) for keys in (MODELS, REWARDS, OPTIMIZERS)
    )
    return Name(model, reward, method) if model and reward and method else None


def _is(part: str, key: str) -> bool:
    return part == key or part.startswith((f"{key}-", f"{key}."))


def _evaluated(path: Path) -> list[str]:
    file = path / "settings.json"
    try:
        return [str(model) for model in json.loads(file.read_text("utf-8"))["models"]] if file.exists() else []
    except (ValueError, KeyError, TypeError):
        raise RovrlError(f"{file} is damaged or not that of `rovrl eval`") from None


def math_main(runs: Sequence[tuple[Name, Path]]) -> list[Check]:
    """Accuracy per suite, in per cent: mean over independent training runs, and RoVR-GSPO above GSPO where both are there."""
    published = expected("training")["tab:math_main"]
    means: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for name, path in runs:
        cell = means.setdefault((name.model, name.reward, name.method), {suite: [] for suite in SUITES})
        for suite, key in SUITES.items():
            cell[suite] += [100 * value for value in _per_model(path, key, "accuracy")]
    found = []
    for (model, reward, method), suites in means.items():
        cells = dict(
            zip(published["datasets"], published[MODELS[model]][REWARDS[reward]][OPTIMIZERS[method]], strict=True)
        )
        where = f"{model}/{reward}/{method}"
        count = min(map(len, suites.values()))
        found.append(Check(f"{where}: independent training runs", count, RUNS, "at least as many", count >= RUNS))
        found += [_mean_check(f"{where}, {suite}", values, *cells[suite]) for suite, values in suites.items() if values]
    return found + _direction(
        {key: {s: statistics.mean(v) for s, v in suites.items() if v} for key, suites in means.items()}
    )


def _mean_check(cell: str, values: list[float], published: float, sd: float) -> Check:
    """A mean over runs beside the published one, within standard errors from the deviations over runs, ours and theirs.

    `sd` divides by the runs, as the deviations of tab:math_main do (its AIME2025 cells are those of three whole counts of
    30); a standard error needs the one that divides by one less.
    """
    theirs = sd * math.sqrt(RUNS / (RUNS - 1))
    own = statistics.stdev(values) if len(values) > 1 else theirs
    error = ERRORS * math.hypot(max(own, theirs) / math.sqrt(len(values)), theirs / math.sqrt(RUNS))
    ours = statistics.mean(values)
    note = (
        f"sd over {len(values)} runs {statistics.pstdev(values):.2f}, published {sd:.2f}, both dividing by the runs"
        if len(values) > 1
        else "one run: its sd is taken as published"
    )
    return Check(
        cell, ours, published, f"± {error:.2f} ({ERRORS:g} standard errors)", abs(ours - published) <= error, note
    )


def _direction(means: dict[tuple[str, str, str], dict[str, float]]) -> list[Check]:
    """RoVR-GSPO above GSPO, suite by suite, for every model and reward that has both."""
    found = []
    for (model, reward, method), ours in means.items():
        base = means.get((model, reward, "gspo"))
        if method == "rovr-gspo" and base:
            both = [s for s in ours if s in base]
            above = sum(ours[s] > base[s] for s in both)
            cell = f"{model}/{reward}: numbers in which RoVR-GSPO is above GSPO"
            found.append(Check(cell, above, len(both), "all", above == len(both)))
    return found


def _per_model(path: Path, suite: str, metric: str) -> list[float]:
    """The metric's mean for each evaluated model; several decodings of one model are one value, not several runs."""
    file = path / "results.json"
    try:
        results = json.loads(file.read_text("utf-8"))
        summary = results["suites"].get(suite)
        if summary is None:
            return []
        runs = summary["metrics"][metric]["runs"]
        return list(map(float, runs)) if len(results["settings"]["models"]) > 1 else [statistics.mean(map(float, runs))]
    except OSError:
        raise RovrlError(f"{path} has no results.json: give the --out directory of a finished `rovrl eval`") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RovrlError(f"{file} is damaged or not that of `rovrl eval`") from None


def govreport(runs: Sequence[tuple[Name, Path]]) -> list[Check]:
    """ROUGE-1/2/L of each run within 10 %, and RoVR-GSPO above GSPO."""
    published = expected("training")["tab:govreport_rouge"]
    means: dict[tuple[str, str, str], dict[str, float]] = {}
    found = []
    for name, path in runs:
        cells = published[MODELS[name.model]][OPTIMIZERS[name.method]]
        for metric, title, value in zip(("rouge1", "rouge2", "rougeL"), published["metrics"], cells, strict=True):
            scores = _per_model(path, "govreport", metric)
            if not scores:
                raise RovrlError(f"{path} has no suite govreport: rovrl eval RUN --suite govreport --out {path}")
            ours = statistics.mean(scores)
            means.setdefault((name.model, name.reward, name.method), {})[title] = ours
            found.append(relative(f"{name.model}/{name.method}, {title}", ours, value, 0.1, "one run each"))
    return found + _direction(means)


def tool_calls(runs: Sequence[tuple[Name, Path]]) -> list[Check]:
    """The best of the first four logged validations of each run within 10 %, and RoVR-GSPO above GSPO."""
    published = expected("training")["tool_calls"]
    means: dict[tuple[str, str, str], dict[str, float]] = {}
    found = []
    for name, path in runs:
        logged = validations(path)[:VALIDATIONS]
        best = max(logged)
        means.setdefault((name.model, name.reward, name.method), {})["best validation"] = best
        check = relative(
            f"{name.method}, best of {len(logged)} validations",
            best,
            published[OPTIMIZERS[name.method]],
            0.1,
            "one run each",
        )
        found += [
            check,
            Check(f"{name.method}: validations", len(logged), VALIDATIONS, "as many", len(logged) == VALIDATIONS),
        ]
    return found + _direction(means)


def validations(path: Path) -> list[float]:
    """The mean validation scores of a run by step: from `rovrl eval` of its checkpoints, or from verl's file logger."""
    if (path / "results.json").exists():
        return _per_model(path, "rlla_test", "total")
    by_step = curve(path, _validation)
    if not by_step:
        raise RovrlError(
            f"{path} has no validations: neither the results of `rovrl eval CHECKPOINT... --suite rlla_test`, nor "
            "val-*/reward/mean@ in a .jsonl of verl's file logger"
        )
    return list(by_step.values())


def curve(path: Path, wanted: Callable[[str], bool]) -> dict[int, float]:
    """step -> the logged number whose name is wanted, in the order of the steps."""
    found = {
        step: float(value)
        for step, numbers in _logged(path)
        for key, value in numbers.items()
        if wanted(key) and isinstance(value, int | float)
    }
    return dict(sorted(found.items()))


def _logged(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(step, numbers) of every line that verl's file logger or TRL's trainer_state.json holds."""
    for file in [path] if path.is_file() else sorted(path.rglob("*.jsonl")):
        if file.suffix == ".jsonl":
            for entry in read_lines(file):
                if isinstance(entry.get("data"), dict):
                    yield int(entry["step"]), entry["data"]
    for file in [path] if path.is_file() else sorted(path.rglob("trainer_state.json")):
        if file.name == "trainer_state.json":
            try:
                history = json.loads(file.read_text("utf-8"))["log_history"]
            except (OSError, ValueError, KeyError, TypeError):
                raise RovrlError(f"{file} is damaged or not that of a trainer") from None
            yield from ((int(entry["step"]), entry) for entry in history)


def _training(key: str) -> bool:
    """verl's name of the mean reward of a step's rollouts, or TRL's."""
    return key in ("critic/score/mean", "reward")


def _validation(key: str) -> bool:
    """verl's name of the mean validation reward, or TRL's."""
    return (key.startswith("val-") and "/reward/mean@" in key) or key == "eval_reward"


CURVES = "fig:govreport_curves"
LOOKS = {"gspo": ("#1f4ebd", "o"), "rovr-gspo": ("#c23b22", "s")}
"""Colour and mark of each method, as in the paper's figure."""


def draw_curves(words: Sequence[str], folder: Path) -> Path:
    """fig:govreport_curves from a reader's runs: training and validation reward of both methods, a pair of panels per model.

    The fill is the gap between the methods. Writes the points as CSV beside the figure; the path of the SVG.
    """
    curves = {
        (name.model, name.method, kind): curve(path, wanted)
        for name, path in named(words)
        for kind, wanted in (("training", _training), ("validation", _validation))
    }
    rows = [
        {"model": model, "method": method, "kind": kind, "step": step, "reward": value}
        for (model, method, kind), points in curves.items()
        for step, value in points.items()
    ]
    if not rows:
        raise RovrlError(
            "these runs hold no rewards by step: neither critic/score/mean and val-*/reward/mean@ in a .jsonl of verl's file "
            "logger, nor reward and eval_reward in TRL's trainer_state.json"
        )
    models = list(dict.fromkeys(model for model, _, _ in curves))
    figure, panels = axes(4.2 * 2 * len(models), 3.2, 1, 2 * len(models), squeeze=False)
    panel = iter(panels[0])
    for model in models:
        for kind in ("training", "validation"):
            axis = next(panel)
            both = {method: curves.get((model, method, kind), {}) for method in LOOKS}
            for method, points in both.items():
                colour, mark = LOOKS[method]
                axis.plot(
                    list(points),
                    list(points.values()),
                    color=colour,
                    marker=mark,
                    ms=3.5,
                    lw=1.5,
                    label=OPTIMIZERS[method],
                )
            first, second = both.values()
            shared = sorted(set(first) & set(second))
            axis.fill_between(
                shared, [first[s] for s in shared], [second[s] for s in shared], color="#3a9d4f", alpha=0.2
            )
            axis.set_title(f"{MODELS[model]}, {kind} reward")
            axis.set_xlabel("step")
    finish(figure, panels[0, 0])
    return write_figure(figure, rows, folder, CURVES)


CHECKS: dict[str, Callable[[Sequence[tuple[Name, Path]]], list[Check]]] = {
    "tab:math_main": math_main,
    "tab:govreport_rouge": govreport,
    "sec:tool_call_results": tool_calls,
}
"""The labels that a reader's own runs can be checked against."""


def result(label: str, title: str, words: Sequence[str]) -> dict[str, Any]:
    """The check of one label against runs of the reader's own, in the form of `checking.result`."""
    if label not in CHECKS:
        raise RovrlError(
            f"--runs is for {', '.join(CHECKS)}, not {label}; without it the results of `rovrl paper run` are checked"
        )
    cells = CHECKS[label](named(words))
    agrees = bool(cells) and all(c.agrees for c in cells)
    base = {"id": label, "title": title, "stand_in": "", "status": "your runs", "command": "", "findings": []}
    return base | {"agrees": agrees, "cells": [asdict(c) for c in cells]}
