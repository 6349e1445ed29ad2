"""`python -m rovrl.tasks.prepare TASK --out DIR`: a task's sets as files to train on.

NAME.parquet is verl's layout; the training set is also written as NAME.trl.jsonl, with `prompt` and the reward's columns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.output.files import replacing, write_lines
from rovrl.tasks.catalog import SETS, TRAINING, Example, load
from rovrl.tasks.chat import as_prompt

_GOLD = {"math": "answer", "govreport": "summary", "toolcall": "ground_truth"}


def verl_row(name: str, task: str, index: int, example: Example) -> dict[str, Any]:
    """One row of verl's Parquet layout; `extra_info` carries what rewards read besides the ground truth."""
    extra = {"index": index, "id": example["id"], "question": example["prompt"][-1]["content"]}
    if task == "govreport":
        extra = {"index": index, "id": example["id"], "report": example["report"]}
    return {
        "data_source": name,
        "prompt": example["prompt"],
        "ability": task,
        "reward_model": {"style": "rule", "ground_truth": example[_GOLD[task]]},
        "extra_info": extra,
    }


def write_verl(name: str, examples: list[Example], out: Path) -> Path:
    """Writes `out/NAME.parquet`."""
    arrow, parquet = require("pyarrow", extra="tasks"), require("pyarrow.parquet", extra="tasks")
    rows = [verl_row(name, SETS[name].task, index, example) for index, example in enumerate(examples)]
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"{name}.parquet") as file:
        parquet.write_table(arrow.Table.from_pylist(rows), file)
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
    return [example for example, count in zip(examples, counts, strict=True) if count <= limit]


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m rovrl.tasks.prepare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=sorted(TRAINING))
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--data", type=Path, metavar="DIR", help="local copies (NAME.jsonl or .parquet), not the Hub's")
    parser.add_argument("--limit", type=int, help="rows per set")
    parser.add_argument("--tokenizer", metavar="MODEL", help="leave out TRL's prompts above --max-prompt-tokens")
    parser.add_argument("--max-prompt-tokens", type=int, default=2048, metavar="N", help="default: 2048")
    args = parser.parse_args(argv)
    try:
        for name, entry in SETS.items():
            if entry.task == args.task:
                _write(name, args)
    except RovrlError as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2
    return 0


def _write(name: str, args: argparse.Namespace) -> None:
    examples = load(name, args.data, args.limit)
    print(f"{write_verl(name, examples, args.out)}: {len(examples)} rows")
    if name == TRAINING[args.task]:
        kept = within(examples, args.tokenizer, args.max_prompt_tokens) if args.tokenizer else examples
        print(f"{write_trl(name, kept, args.out)}: {len(kept)} rows")


if __name__ == "__main__":
    raise SystemExit(main())
