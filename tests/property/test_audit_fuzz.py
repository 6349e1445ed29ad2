"""Mutated dumps end in a result or in a sentence, never in a traceback.

python tests/property/test_audit_fuzz.py --files 10000        # all of them, with a progress line; any seed: --seed N
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import audit_dumps
from rovrl.audit import audit
from rovrl.audit.read.find import READERS, find_reader
from rovrl.audit.read.rows import Columns
from rovrl.errors import RovrlError

STRANGE = [
    None,
    True,
    "",
    "NaN",
    "1e400",
    "-0",
    10**400,
    -(10**20),
    1e308,
    float("inf"),
    [],
    [1.0],
    {},
    {"a": [None]},
    [[1]],
]
STRANGE += [
    "\ud800",
    "\x00",
    "x" * 5000,
    "16",
    [{"role": "user", "content": "hi"}],
    [{"role": "user"}],
    "\u202e",
    0.1,
    -1,
]
STRANGE += ["pad_0_0", "___", 2**63]
LINES = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"score": ',
    b"\xff\xfe\x00",
    b'"text"',
    b"[" * 5000,
    b'{"a":' * 3000,
    b"1" * 5000,
]


def bases(folder: Path) -> list[tuple[str, bytes]]:
    """(file name, content) of one small sound dump of every kind."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    scores = audit_dumps.rewards(6, 4)
    audit_dumps.verl(folder / "verl", scores, per_step=6)
    found = [("1.jsonl", (folder / "verl" / "1.jsonl").read_bytes())]
    texts = [f"text {k % 7}" for k in range(24)]
    prompts = [f"prompt {k // 4}" for k in range(24)]
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        audit_dumps.table(folder / name, scores, prompt=prompts, completion=texts)
        found.append((name, (folder / name).read_bytes()))
    audit_dumps.records(folder / "records", scores, tokens=8)
    found.append(("step_000001.parquet", (folder / "records" / "step_000001.parquet").read_bytes()))
    trl = {"step": [1] * 24, "prompt": prompts, "completion": texts, "score": scores.ravel(), "advantage": [0.0] * 24}
    pq.write_table(pa.table(trl), folder / "completions_00001.parquet")
    found.append(("completions_00001.parquet", (folder / "completions_00001.parquet").read_bytes()))
    swift = [json.dumps(audit_dumps.swift_line(step, scores + step)) for step in (5, 10)]
    found.append(("completions.jsonl", "\n".join(swift).encode()))
    found.append(("train_data_step3.jsonl", audit_dumps.nemo(folder, 3, scores).read_bytes()))
    found.append(("traces.jsonl", audit_dumps.prime(folder, 2, scores).read_bytes()))
    return found


def mutate(name: str, content: bytes, generator: np.random.Generator) -> bytes:
    """One to three mutations of a file: its bytes, its lines, its values, its encoding."""
    kinds = [_cut, _flip, _fill, _double, _encode, _nothing]
    kinds += [_line, _value, _value, _value, _key] if name.endswith(("jsonl", "csv")) else [_column, _column, _column]
    for _ in range(int(generator.integers(1, 4))):
        content = kinds[int(generator.integers(len(kinds)))](content, generator)
    return content


def _cut(content: bytes, g: np.random.Generator) -> bytes:
    return content[: int(g.integers(0, len(content) + 1))]


def _flip(content: bytes, g: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(g.integers(1, 9))):
        if changed:
            changed[int(g.integers(len(changed)))] = int(g.integers(256))
    return bytes(changed)


def _fill(content: bytes, g: np.random.Generator) -> bytes:
    at = int(g.integers(0, len(content) + 1))
    return content[:at] + g.bytes(int(g.integers(1, 200))) + content[at:]


def _double(content: bytes, g: np.random.Generator) -> bytes:
    return content + content[int(g.integers(0, len(content) + 1)) :]


def _encode(content: bytes, g: np.random.Generator) -> bytes:
    text = content.decode("latin-1")
    return text.encode(["utf-16", "utf-32", "utf-16-le", "utf-8", "utf-8-sig", "utf-7"][int(g.integers(6))], "replace")


def _nothing(content: bytes, g: np.random.Generator) -> bytes:
    return (
        [b"", b"\n", b"PAR1", b"PAR1PAR1", b"[", b"\xef\xbb\xbf", b"\x80\x04\x95"][int(g.integers(7))]
        if g.random() < 0.2
        else content
    )


def _line(content: bytes, g: np.random.Generator) -> bytes:
    lines = content.split(b"\n")
    lines[int(g.integers(len(lines)))] = LINES[int(g.integers(len(LINES)))]
    return b"\n".join(lines)


def _value(content: bytes, g: np.random.Generator) -> bytes:
    """A strange value in place of one value: of a random line (JSON), or of a random field (CSV)."""
    lines = content.split(b"\n")
    at = int(g.integers(len(lines)))
    strange = STRANGE[int(g.integers(len(STRANGE)))]
    try:
        row = json.loads(lines[at])
        row[list(row)[int(g.integers(len(row)))]] = strange
        lines[at] = json.dumps(row).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        fields = lines[at].split(b",")
        fields[int(g.integers(len(fields)))] = str(strange).encode("utf-8", "replace")
        lines[at] = b",".join(fields)
    return b"\n".join(lines)


def _key(content: bytes, g: np.random.Generator) -> bytes:
    names = [b"score", b"uid", b"step", b"input", b"reward", b"group", b"prompt"]
    return content.replace(names[int(g.integers(len(names)))], names[int(g.integers(len(names)))])


def _column(content: bytes, g: np.random.Generator) -> bytes:
    """A Parquet file with one column of another type, renamed, dropped, emptied or filled with nulls."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(content))
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError):  # mutated before: no table any more, or a name that is no text
        return content
    if not names:
        return content
    at, n = int(g.integers(len(names))), table.num_rows
    name = names[at]
    columns = [
        pa.array([str(k) for k in range(n)]),
        pa.nulls(n),
        pa.array([[float(k)] * (k % 3) for k in range(n)]),
        pa.array([{"a": k} for k in range(n)]),
        pa.array([b"\xff\xfe"] * n),
        pa.array([True] * n),
        pa.array([float("nan"), float("inf")] * n)[:n],
        pa.array([2**62] * n),
        pa.array([[{"role": "user", "content": str(k // 4)}] for k in range(n)]),
        pa.array(["a"] * n).dictionary_encode(),
        pa.array([k % 2 for k in range(n)], type=pa.decimal128(20, 3)) if n else pa.nulls(0),
    ]
    choice = int(g.integers(len(columns) + 3))
    if choice < len(columns):
        table = table.set_column(at, name, columns[choice])
    elif choice == len(columns):
        table = table.drop_columns([name])
    elif choice == len(columns) + 1:
        table = table.rename_columns([f"other{k}" if k == at else c for k, c in enumerate(names)])
    else:
        table = table.slice(0, 0)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def outcome(path: Path, whole: bool) -> str:
    """ "result" or "sentence"; any other exception passes through. `whole`: page and JSON as well."""
    try:
        result = audit(path)
    except RovrlError as error:
        return "sentence" if len(str(error).split()) > 3 else "no sentence"
    assert result.status in (0, 1)
    assert result.show()
    if whole:
        html, data = result.write(path.parent / "audit")
        json.loads(data.read_text())
        assert "</html>" in html.read_text()[-20:]
    return "result"


def run(files: int, seed: int, folder: Path, told: bool = False) -> Counter:
    """Audits `files` mutated files; how many ended how."""
    sound = bases(folder / "sound")
    generator = np.random.default_rng(seed)
    ends: Counter = Counter()
    for number in range(files):
        name, content = sound[number % len(sound)]
        place = folder / "mutated" / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(mutate(name, content, generator))
        try:
            ends[outcome(place, whole=number % 40 == 0)] += 1
        except Exception:
            kept = Path(tempfile.gettempdir()) / f"rovrl-audit-fuzz-{seed}-{number}-{name}"
            kept.write_bytes(place.read_bytes())
            print(f"file {number} of seed {seed} ended in a traceback; it is kept as {kept}", file=sys.stderr)
            raise
        place.unlink()
        if told and number % 500 == 499:
            print(f"{number + 1:,} files: {dict(ends)}", flush=True)
    return ends


def test_a_sound_dump_of_every_reader_is_among_those_that_are_mutated(tmp_path):
    (tmp_path / "sound").mkdir()
    for name, content in bases(tmp_path / "sound"):
        (tmp_path / name).write_bytes(content)
    found = {find_reader(tmp_path / name, "auto", Columns())[0].name for name, _ in bases(tmp_path / "sound")}
    assert found == set(READERS)


@pytest.mark.slow
def test_three_hundred_mutated_files_end_in_a_result_or_a_sentence(tmp_path):
    (tmp_path / "sound").mkdir()
    ends = run(300, 1, tmp_path)
    assert ends["result"] > 60  # not everything is refused
    assert ends["sentence"] > 60
    assert sum(ends.values()) == 300


@pytest.mark.slow
def test_three_thousand_more_end_in_a_result_or_a_sentence(tmp_path):
    (tmp_path / "sound").mkdir()
    ends = run(3000, 2, tmp_path)
    assert sum(ends.values()) == 3000


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as where:
        (Path(where) / "sound").mkdir()
        print(dict(run(args.files, args.seed, Path(where), told=True)))
