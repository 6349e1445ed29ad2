"""`python -m rovrl.tasks.prepare TASK --out DIR`: a task's sets, or rows of your own, as files to train on.

NAME.parquet is verl's layout; the training set is also written as NAME.trl.jsonl, with `prompt` and the reward's columns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.output.files import replacing, write_lines
from rovrl.tasks.catalog import EXAMPLES, GOLD, SETS, TRAINING, Example, load, parse_columns
from rovrl.tasks.chat import as_prompt

EXAMPLE = """\
examples:
  python -m rovrl.tasks.prepare math --out data                      MATH and the paper's five test sets, from the Hub
  python -m rovrl.tasks.prepare math --out data --train-only         MATH alone
  python -m rovrl.tasks.prepare math --rows my.jsonl --columns problem=question,answer=gold --out data
                                                                     problems of your own, for the math verifier
  python -m rovrl.tasks.prepare own --rows my.csv --columns prompt=question --out data
                                                                     prompts as they are, for a reward function of your own
own: a column `prompt` (a text, or a list of messages); all other columns go to the reward function.
"""


def verl_row(name: str, task: str, index: int, example: Example) -> dict[str, Any]:
    """One row of verl's Parquet layout; `extra_info` carries what rewards read besides the ground truth."""
    prompt = example["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    extra = {"index": index, "id": example["id"]}
    if task == "govreport":
        extra["report"] = example["report"]
    elif task == "own":
        extra |= {column: value for column, value in example.items() if column not in ("id", "prompt")}
    else:
        extra["question"] = messages[-1]["content"]
    gold = example[GOLD[task]] if task in GOLD else example.get("answer", example.get("ground_truth"))
    return {
        "data_source": name,
        "prompt": messages,
        "ability": task,
        "reward_model": {"style": "rule", "ground_truth": gold},
        "extra_info": extra,
    }


def write_verl(name: str, task: str, examples: list[Example], out: Path) -> Path:
    """Writes `out/NAME.parquet`."""
    arrow, parquet = require("pyarrow", extra="tasks"), require("pyarrow.parquet", extra="tasks")
    rows = [verl_row(name, task, index, example) for index, example in enumerate(examples)]
    try:
        table = arrow.Table.from_pylist(rows)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        raise RovrlError(
            f"a column of {name} has values of several types, which Parquet does not hold ({error})"
        ) from None
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"{name}.parquet") as file:
        parquet.write_table(table, file)
    return out / f"{name}.parquet"


def write_trl(name: str, examples: list[Example], out: Path) -> Path:
    """Writes `out/NAME.trl.jsonl`."""
    out.mkdir(parents=True, exist_ok=True)
    return write_lines(out / f"{name}.trl.jsonl", examples)


def within(examples: list[Example], tokenizer: str, limit: int) -> list[Example]:
    """The examples whose prompt has at most `limit` tokens: TRL, unlike verl, does not leave the longer ones out itself."""
    transformers = require("transformers", extra="train")
    try:
        words = transformers.AutoTokenizer.from_pretrained(tokenizer)
    except (OSError, ValueError) as error:
        raise RovrlError(f"the tokenizer {tokenizer!r} could not be loaded ({str(error).splitlines()[0]})") from None
    texts = [as_prompt(words, example["prompt"]) for example in examples]
    counts = [len(ids) for ids in words(texts, add_special_tokens=False)["input_ids"]]
    kept = [example for example, count in zip(examples, counts, strict=True) if count <= limit]
    if not kept:
        raise RovrlError(
            f"no prompt has at most {limit} tokens, the shortest has {min(counts)}: raise --max-prompt-tokens"
        )
    return kept


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    args = _parser().parse_args(argv)
    try:
        for name, examples, training in _chosen(args):
            print(f"{write_verl(name, args.task, examples, args.out)}: {len(examples)} rows")
            if training:
                kept = within(examples, args.tokenizer, args.max_prompt_tokens) if args.tokenizer else examples
                print(f"{write_trl(name, kept, args.out)}: {len(kept)} rows")
    except RovrlError as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"rovrl: cannot write to {args.out} ({error.strerror or error}); choose another --out", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rovrl.tasks.prepare",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", choices=sorted(EXAMPLES), help="whose reward the rows are for; own: yours")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="rows of your own: .jsonl, .json, .csv or .parquet")
    parser.add_argument("--columns", metavar="OURS=YOURS,...", help="what --rows calls the task's columns")
    parser.add_argument("--train-only", action="store_true", help="the task's training set, without the test sets")
    parser.add_argument("--data", type=Path, metavar="DIR", help="local copies (NAME.jsonl or .parquet), not the Hub's")
    parser.add_argument("--limit", type=int, help="rows per set")
    parser.add_argument("--tokenizer", metavar="MODEL", help="leave out TRL's prompts above --max-prompt-tokens")
    parser.add_argument("--max-prompt-tokens", type=int, default=2048, metavar="N", help="default: 2048")
    return parser


def _chosen(args: argparse.Namespace) -> Iterator[tuple[str, list[Example], bool]]:
    """(name, examples, whether they are trained on) of each set that is asked for."""
    if args.rows:
        yield args.rows.stem, _own_rows(args), True
        return
    if args.task == "own" or args.columns:
        raise RovrlError("name the file that holds your rows: --rows FILE (with --columns, if it has other names)")
    for name, entry in SETS.items():
        training = name == TRAINING[args.task]
        if entry.task == args.task and (training or not args.train_only):
            yield name, load(name, args.data, args.limit), training


def _own_rows(args: argparse.Namespace) -> list[Example]:
    if args.data:
        raise RovrlError("--data holds copies of the paper's sets, --rows is a file of yours: give one of them")
    if args.rows.resolve() in [(args.out / f"{args.rows.stem}{end}").resolve() for end in (".parquet", ".trl.jsonl")]:
        raise RovrlError(f"{args.rows} would be overwritten: choose another --out")
    columns = parse_columns(args.columns) if args.columns else {}
    return load(f"{args.task}:{args.rows}", None, args.limit, columns)


if __name__ == "__main__":
    raise SystemExit(main())
