"""Data sets: the paper's by name (`sec:exp_protocol`) or rows of a file, each as examples.

An example is an id, the prompt, and the columns that its reward reads. Rows come from a local file or from the Hub, with
columns renamed; what is missing is said in a sentence.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, did_you_mean, require
from rovrl.tasks import govreport, math, toolcall
from rovrl.tasks.answers import last_boxed

Row = dict[str, Any]
Example = dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    """One named set: its task, where the Hub keeps it (None: not there) and how many rows the paper's copy has."""

    name: str
    task: str
    rows: int
    hub: str | None = None
    split: str = "test"
    hint: str = ""


_TOOLRL = "get dataset/rlla_4k/{train,test}.parquet from github.com/qiancheng0/ToolRL and give the file with --data"
SETS: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet("math_train", "math", 7500, "DigitalLearningGmbH/MATH-lighteval", "train"),
        DataSet("math500", "math", 500, "HuggingFaceH4/MATH-500"),
        DataSet("aime2025", "math", 30, "math-ai/aime25"),
        DataSet("amc23", "math", 40, "math-ai/amc23"),
        DataSet("gaokao2023en", "math", 385, "MARIO-Math-Reasoning/Gaokao2023-Math-En", "train"),
        DataSet("minervamath", "math", 272, "math-ai/minervamath"),
        DataSet("govreport_train", "govreport", 17517, "ccdv/govreport-summarization", "train"),
        DataSet("govreport", "govreport", 973, "ccdv/govreport-summarization"),
        DataSet("rlla_train", "toolcall", 3920, hint=_TOOLRL),
        DataSet("rlla_test", "toolcall", 80, hint=_TOOLRL),
    )
}
TRAINING = {"math": "math_train", "govreport": "govreport_train", "toolcall": "rlla_train"}
GOLD = {"math": "answer", "govreport": "summary", "toolcall": "ground_truth"}
"""The column that a task's reward or metric compares a response with."""


def load(
    name: str,
    data: str | Path | None = None,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Example]:
    """The examples of the set `name`: from `data` (a file, or a directory with NAME.jsonl or NAME.parquet), else from the Hub.

    A name that is not in the catalog is a set of your own: `task:file`, such as `math:problems.jsonl`, or `own:file` for
    prompts as they are; `columns` says what its file calls the task's columns ({"problem": "question"}).
    Rows without a gold answer are left out (two of MATH's 7,500 have none upstream).
    """
    if limit is not None and limit < 1:
        raise RovrlError(f"the limit must be at least 1, not {limit}")
    if name not in SETS:
        task, separator, file = name.partition(":")
        if not separator or task not in EXAMPLES:
            raise RovrlError(
                f"there is no set {name!r}: choose from {', '.join(SETS)}, or TASK:FILE with TASK in {', '.join(EXAMPLES)}"
            )
        rows, where = renamed(read_rows(Path(file)), columns or {}, file), file
    elif columns:
        raise RovrlError(
            f"columns are renamed in files of your own (TASK:FILE); {name} has the names it was published with"
        )
    else:
        task = SETS[name].task
        rows, where = _rows(SETS[name], None if data is None else Path(data))
    made = list(_examples(task, rows, str(where)))
    if not made:
        raise RovrlError(f"{where} holds no usable row for the task {task!r}")
    if len({isinstance(example["prompt"], str) for example in made}) > 1:
        raise RovrlError(
            f"{where}: some prompts are texts and some are lists of messages; make them all one or the other"
        )
    return made[:limit]


def _rows(entry: DataSet, data: Path | None) -> tuple[list[Row], str]:
    if data is not None:
        path = find_local(entry.name, data)
        return read_rows(path), str(path)
    if entry.hub is None:
        raise RovrlError(f"{entry.name} is not on the Hub: {entry.hint}")
    return hub_rows(entry.hub, entry.split), entry.hub


def _examples(task: str, rows: list[Row], where: str) -> Iterator[Example]:
    make = EXAMPLES[task]
    seen: set[str] = set()
    for number, row in enumerate(rows):
        try:
            made = make(row)
        except (KeyError, TypeError, IndexError) as error:
            raise RovrlError(f"{where}, row {number + 1}: {error.args[0] if error.args else error}") from None
        if made is None:
            continue
        name = str(row.get("id") or row.get("unique_id") or f"{task}-{number}")
        name = f"{name}#{number}" if name in seen else name  # results are kept by id
        seen.add(name)
        yield {"id": name, **made}


def _first(row: Row, *columns: str) -> str:
    for column in columns:
        if row.get(column) is not None:
            return str(row[column])
    raise _no_column(row, *columns)


def _no_column(row: Row, *columns: str) -> KeyError:
    return KeyError(f"no column {' or '.join(columns)} (found: {', '.join(map(str, row))})")


def _prepared(row: Row) -> tuple[list[dict[str, str]], str] | None:
    """The prompt and the gold answer of a row in verl's layout (RLLA-4K is published in it), or None."""
    if not isinstance(row.get("reward_model"), dict):
        return None
    messages = [{"role": message["role"], "content": message["content"]} for message in row["prompt"]]
    return messages, str(row["reward_model"]["ground_truth"])


def _math(row: Row) -> Example | None:
    if (prepared := _prepared(row)) is not None:
        return dict(zip(("prompt", "answer"), prepared, strict=True))
    problem = _first(row, "problem", "question")
    if row.get("answer") is None and row.get("solution") is not None:
        answer = last_boxed(str(row["solution"])) or ""
    else:
        answer = _first(row, "answer")
    return {"prompt": math.prompt(problem), "answer": answer} if answer.strip() else None


def _govreport(row: Row) -> Example | None:
    if (prepared := _prepared(row)) is not None:
        return {"prompt": prepared[0], "report": row["extra_info"]["report"], "summary": prepared[1]}
    report, summary = _first(row, "report", "document"), _first(row, "summary")
    return {"prompt": govreport.prompt(report), "report": report, "summary": summary} if summary.strip() else None


def _toolcall(row: Row) -> Example | None:
    messages, truth = _prepared(row) or (
        toolcall.prompt(_first(row, "system"), _first(row, "user")),
        _first(row, "ground_truth"),
    )
    try:
        toolcall.parts("", truth)
    except ValueError as error:
        raise TypeError(str(error)) from None
    return {"prompt": messages, "ground_truth": truth}


def _own(row: Row) -> Example:
    """Prompt and columns as they are; a text is continued as it stands, messages go through the model's chat template."""
    if (prepared := _prepared(row)) is not None:
        extra = row.get("extra_info") or {}
        return {**extra, "prompt": prepared[0], "answer": row["reward_model"]["ground_truth"]}
    prompt, others = row.get("prompt"), {name: value for name, value in row.items() if name not in ("id", "prompt")}
    if prompt is None:
        raise _no_column(row, "prompt")
    if not prompt or not (isinstance(prompt, str) or (isinstance(prompt, list) and all(map(_is_message, prompt)))):
        raise TypeError('the prompt must be a text or a list of messages {"role": ..., "content": ...}, and not empty')
    return {"prompt": prompt, **others}


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(word), str) for word in ("role", "content"))


EXAMPLES: dict[str, Callable[[Row], Example | None]] = {
    "math": _math,
    "govreport": _govreport,
    "toolcall": _toolcall,
    "own": _own,
}


ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def read_rows(path: Path) -> list[Row]:
    """The rows of a `.jsonl` file (one object per line), `.json` (the same, or a list of objects), `.csv` or `.parquet`."""
    if not path.is_file():
        raise RovrlError(f"there is no file {path}: give a {' / '.join(ENDINGS)} file")
    if path.suffix == ".parquet":
        parquet = require("pyarrow.parquet", extra="tasks")
        try:
            return parquet.read_table(path).to_pylist()
        except Exception as error:
            raise RovrlError(f"{path} is not a readable Parquet file ({str(error).splitlines()[0]})") from None
    if path.suffix not in ENDINGS:
        raise RovrlError(f"{path}: its name must end in {', '.join(ENDINGS)}")
    try:
        return _read_csv(path) if path.suffix == ".csv" else _read_list(path) or _read_lines(path)
    except UnicodeDecodeError:
        raise RovrlError(f"{path} is not UTF-8 text") from None


def parse_columns(text: str) -> dict[str, str]:
    """{"problem": "question"} for "problem=question,...": what a task calls a column -> what the file calls it."""
    pairs = [part.partition("=") for part in text.split(",")]
    columns = {word.strip(): name.strip() for word, _, name in pairs}
    if len(columns) < len(pairs) or not all([*columns, *columns.values()]):
        raise RovrlError(f"write --columns as prompt=question,answer=gold (ours=yours, each once), not {text!r}")
    return columns


def renamed(rows: list[Row], columns: Mapping[str, str], where: str) -> list[Row]:
    """The rows with the column `columns[word]` called `word`; the others keep their names."""
    known = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns.values():
        if rows and name not in known:
            near = did_you_mean(name, known)
            raise RovrlError(f"{where} has no column {name!r}{near} (found: {', '.join(map(str, known))})")
    kept = set(columns.values())
    return [
        {k: v for k, v in row.items() if k not in kept} | {w: row[c] for w, c in columns.items() if c in row}
        for row in rows
    ]


def find_local(name: str, where: Path) -> Path:
    """The file of the set `name`: `where` itself if it is a file, else `where/name.jsonl` (or .json, .parquet)."""
    if where.is_file():
        return where
    for ending in ENDINGS:
        candidate = where / f"{name}{ending}"
        if candidate.is_file():
            return candidate
    raise RovrlError(f"no data for {name!r} in {where}: expected {name}.jsonl or {name}.parquet there")


def hub_rows(hub: str, split: str, config: str | None = None) -> list[Row]:
    """The rows of a Hub data set (downloaded once, then cached by `datasets`)."""
    datasets = require("datasets", extra="tasks")
    try:
        return list(datasets.load_dataset(hub, config, split=split))
    except (
        Exception
    ) as error:  # `datasets` and the Hub client raise a dozen kinds; each means that the data is not here
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RovrlError(
            f"the data set {hub} could not be fetched from the Hub ({reason}): connect to the network once, or give a local "
            "copy with --data DIR (docs/eval.md shows the shape of the files)"
        ) from None


def _read_list(path: Path) -> list[Row]:
    """The objects of a `.json` file that is one list; [] for any other file."""
    if path.suffix != ".json":
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(row, dict) for row in found) else []


def _read_csv(path: Path) -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restkey="")
        rows: list[Row] = []
        for row in reader:
            if "" in row:
                raise RovrlError(f"{path}, line {reader.line_num}: more cells than the first line names")
            rows.append(row)
        return rows


def _read_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise RovrlError(f"{path}, line {number}: a JSON object was expected, not {type(row).__name__}")
                    rows.append(row)
        except json.JSONDecodeError as error:
            raise RovrlError(f"{path}, line {number}: not JSON ({error.msg})") from None
    return rows
