"""The flagged responses as a table, the groups as a data frame, and the audit as a cell of a notebook."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.judge.findings import percent
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.tables import pa
from rovrl.audit.show.payload import rewards_named
from rovrl.audit.show.summary import mean_reward
from rovrl.errors import RovrlError, require
from rovrl.output.files import replacing, write_text
from rovrl.output.html import element, joined, table

if TYPE_CHECKING:
    from rovrl.audit.result import AuditResult

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a text that begins so for a formula and may run it."""
COLUMNS = ("step", "group", "response", "reward", "why", "prompt", "completion", "file", "row")


def flagged(result: AuditResult) -> Any:
    """A pyarrow table of the responses that a finding or a note speaks of, each with why and with its texts."""
    why = reasons(result)
    at = np.flatnonzero([bool(word) for word in why])
    rollouts = result.rollouts
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)[at]
    texts = _texts(result, at)
    columns = {
        "step": pa.array(rollouts.step[group]),
        "group": rollouts.label.take(pa.array(group)),
        "response": pa.array(at - rollouts.start[group] + 1),
        "reward": pa.array(rollouts.reward[at], from_pandas=True),
        "why": pa.array([why[k] for k in at.tolist()], type=pa.large_string()),
        "prompt": pa.array([texts.get(k, (None, None))[0] for k in at.tolist()], type=pa.large_string()),
        "completion": pa.array([texts.get(k, (None, None))[1] for k in at.tolist()], type=pa.large_string()),
        "file": pa.array([str(rollouts.files[k]) for k in rollouts.file[at].tolist()], type=pa.large_string()),
        "row": pa.array(rollouts.row[at]),
    }
    return pa.table([columns[name] for name in COLUMNS], names=list(COLUMNS))


def reasons(result: AuditResult) -> list[str]:
    """Why each response is flagged, in words; "" for the others."""
    rollouts, groups = result.rollouts, result.groups
    found: list[list[str]] = [[] for _ in range(len(rollouts.reward))]
    for k in np.flatnonzero(np.isnan(rollouts.reward)).tolist():
        found[k].append("no finite reward")
    for why, rows in rewards_named(result.evidence):
        for k in rows.tolist():
            found[k].append(why)
    for group in np.flatnonzero(groups.dominating > 0).tolist():
        for response in result.dominating(group):
            found[int(rollouts.start[group]) + response].append("dominates its group")
    for group in np.flatnonzero(groups.flips > 0).tolist():
        for k in _flipped(result, group).tolist():
            found[int(rollouts.start[group]) + k].append("GRPO and credit push it in opposite directions")
    return ["; ".join(words) for words in found]


def check_flagged(path: Path) -> None:
    """A RovrlError for a place where no flagged responses can be written, which is better known before a long read."""
    if path.suffix.lower() not in (".csv", ".parquet") or path.is_dir():
        kind = "a folder" if path.is_dir() else path.name
        raise RovrlError(f"flagged responses are written as .csv or .parquet, not as {kind}")


def write_flagged(result: AuditResult, path: Path) -> Path:
    """Writes the flagged responses as CSV or Parquet, by the name of the file; its path."""
    check_flagged(path)
    rows = flagged(result)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".parquet":
            with replacing(path) as file:
                require("pyarrow.parquet", extra="report").write_table(rows, file)
        else:
            write_text(path, as_csv(rows))
    except OSError as error:
        raise RovrlError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def as_csv(rows: Any) -> str:
    """The table as CSV; texts that a spreadsheet would run as a formula begin with an apostrophe.

    Every text is quoted: a bare carriage return in one would end its row, and what follows would be a cell of its own.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(rows.column_names)
    for row in rows.to_pylist():
        writer.writerow([_harmless(value) for value in row.values()])
    return out.getvalue()


def group_frame(result: AuditResult) -> Any:
    """A pandas data frame with one row per group: step, label and every statistic; undefined ones are NaN."""
    pandas = require("pandas", extra="report")
    columns: dict[str, Any] = {"step": result.rollouts.step, "group": result.rollouts.label.to_pylist()}
    columns |= {f.name: getattr(result.groups, f.name) for f in fields(result.groups)}
    return pandas.DataFrame(columns)


def as_html(result: AuditResult) -> str:
    """A few lines for a notebook: verdict, findings and the main numbers, escaped."""
    s = result.summary
    rows = [
        ("groups", f"{s.groups:,}"),
        ("responses", f"{s.responses:,}"),
        ("mean reward", mean_reward(s)),
        ("contrast lost under GRPO", percent(s.contrast_lost)),
        ("dominated groups", f"{s.dominated_groups:,}"),
        ("tied groups", f"{s.tied_groups:,}"),
        ("missing rewards", f"{s.nonfinite_rewards:,}"),
    ]
    said = [element("li", element("code", f.code), f" {f.sentence}") for f in result.findings]
    return joined(
        [
            element("p", element("b", f"rovrl audit of {result.path}: "), result.verdict),
            element("ul", *said) if said else "",
            table(("", ""), rows),
            element("p", "result.write(directory) makes the page; result.to_pandas() has every group."),
        ]
    )


def _flipped(result: AuditResult, group: int) -> NDArray[np.int64]:
    """The responses between the mean and the robust reference."""
    rewards, table = result.rewards(group), result.groups
    low, high = sorted((float(table.mean[group]), float(table.reference[group])))
    edge = 1e-9 * float(table.deviation[group])  # as in the count of the group's sign changes
    return np.flatnonzero((rewards > low + edge) & (rewards < high - edge))


def _texts(result: AuditResult, at: NDArray[np.int64]) -> dict[int, tuple[str | None, str | None]]:
    rollouts = result.rollouts
    wanted = {(int(rollouts.file[k]), int(rollouts.row[k])): int(k) for k in at.tolist()}
    found: dict[int, tuple[str | None, str | None]] = {}
    for number in sorted({file for file, _ in wanted}):
        for chunk in result.reader.chunks(rollouts.files[number], frozenset({"reward", "text"}), Notes()):
            for k, row in enumerate(chunk.row.tolist()):
                place = wanted.get((number, row))
                if place is not None:
                    prompt = chunk.prompt[k].as_py() if chunk.prompt is not None else None
                    found[place] = (prompt, chunk.completion[k].as_py() if chunk.completion is not None else None)
    return found


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
