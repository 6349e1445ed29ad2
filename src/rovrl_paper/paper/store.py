"""Results on disk: rows as CSV, a meta file (setting, seed, versions, seconds), tables as Markdown and LaTeX, figures."""

from __future__ import annotations

import csv
import importlib
import io
import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

import rovrl
from rovrl.errors import RovrlError
from rovrl.output.files import write_json, write_text
from rovrl_paper.paper.item import Experiment, Progress, Row, Table
from rovrl_paper.paper.registry import ITEMS

RESULTS = Path("results/paper")


def experiment(name: str) -> Experiment:
    """The module that makes it."""
    return cast(Experiment, importlib.import_module(f"rovrl_paper.paper.experiments.{name}"))


def make(name: str, out: Path, smoke: bool, progress: Progress) -> list[Row]:
    """Runs an experiment and writes everything it has into `out`/<name>; what was there stays until all is done."""
    module = experiment(name)
    setting = module.SMOKE if smoke else module.FULL
    with _writing(out / name):
        (out / name).mkdir(parents=True, exist_ok=True)  # before the work: a wrong --out must not cost an hour
    start, began = time.perf_counter(), time.process_time()
    rows = module.run(setting, progress)
    seconds, cpu = time.perf_counter() - start, time.process_time() - began
    folder = out / name
    with _writing(folder):
        write_rows(folder / "rows.csv", rows)
        meta = {
            "experiment": name,
            "command": f"rovrl paper run {name}" + (" --smoke" if smoke else ""),
            "setting": asdict(setting),
            "smoke": smoke,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "versions": {"rovrl": rovrl.__version__, "torch": torch.__version__, "python": platform.python_version()},
        }
        write_json(folder / "meta.json", meta)
    draw(name, load(name, out)[0], folder)
    return rows


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What is written here goes to `folder`; a full disk or a wrong place is reported in a sentence."""
    try:
        yield
    except OSError as error:
        raise RovrlError(f"cannot write the results to {folder}: {error.strerror}; choose another --out") from None


def draw(name: str, rows: list[Row], folder: Path) -> None:
    """Every table of the experiment as Markdown and LaTeX, every figure as SVG and PNG, from its rows alone."""
    module = experiment(name)
    with _writing(folder):
        for label, table in module.tables(rows).items():
            write_text(folder / f"{stem(label)}.md", markdown(table))
            write_text(folder / f"{stem(label)}.tex", latex(table, label))
        for label, figure in module.figures().items():
            _save(figure(rows), folder / stem(label))


def write_figure(drawn: Any, rows: list[Row], folder: Path, label: str) -> Path:
    """A figure that no experiment makes, with its rows beside it; the path of its SVG."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / f"{stem(label)}.csv", rows)
        return _save(drawn, folder / stem(label))


def _save(drawn: Any, place: Path) -> Path:
    """The figure as SVG and PNG; the path of the SVG."""
    drawn.savefig(place.with_suffix(".svg"), metadata={"Date": None})
    drawn.savefig(place.with_suffix(".png"))
    importlib.import_module("matplotlib.pyplot").close(drawn)
    return place.with_suffix(".svg")


def stem(label: str) -> str:
    """The file name of a label: tab:sim_rmse -> tab-sim_rmse."""
    return label.replace(":", "-")


def load(name: str, out: Path) -> tuple[list[Row], dict[str, Any]]:
    """Rows and meta of a finished experiment."""
    folder = out / name
    try:
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        with (folder / "rows.csv").open(newline="", encoding="utf-8") as file:
            return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)], meta
    except FileNotFoundError:
        label = next(i.label for i in ITEMS.values() if i.experiment == name)
        raise RovrlError(f"no results of {name} in {out}; make them first: rovrl paper run {label}") from None
    except (OSError, ValueError) as error:
        raise RovrlError(
            f"the results in {folder} cannot be read ({error}); make them again with rovrl paper run"
        ) from None


def write_rows(path: Path, rows: list[Row]) -> None:
    """Rows as CSV, all columns of any row."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def markdown(table: Table) -> str:
    """The table for a README."""
    lines = [table.header, ["---"] * len(table.header), *table.body]
    return table.caption + "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


ESCAPES = {
    "%": r"\%", "_": r"\_", "#": r"\#", "&": r"\&", "^": r"\^{}", "±": r"$\pm$", "α": r"$\alpha$", "κ": r"$\kappa$",
    "γ": r"$\gamma$", "η": r"$\eta$", "σ": r"$\sigma$", "×": r"$\times$",
}  # fmt: skip
"""What pdflatex would stumble over, and how it is written."""


def latex(table: Table, label: str) -> str:
    """The table for a paper (booktabs)."""
    escape = str.maketrans(ESCAPES)
    cells = [" & ".join(c.translate(escape) for c in line) + r" \\" for line in (table.header, *table.body)]
    top = [r"\begin{table}", r"\centering", rf"\caption{{{table.caption.translate(escape)}}}", rf"\label{{{label}}}"]
    begin = [rf"\begin{{tabular}}{{{'l' * len(table.header)}}}", r"\toprule", cells[0], r"\midrule"]
    return "\n".join([*top, *begin, *cells[1:], r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])
