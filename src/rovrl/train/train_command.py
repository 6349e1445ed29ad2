"""The options of `rovrl train --config run.yaml`: a run with the user's own model, data and reward.

Any further `--field value` overrides the YAML, as with TRL's own parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rovrl.errors import RovrlError, require


def parsed(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options among the words of the command, and the words left over: TRL's fields."""
    parser = argparse.ArgumentParser(prog="rovrl train", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", required=True)
    parser.add_argument("--method")
    parser.add_argument("--out")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_known_args(words)


def run(words: Sequence[str], method_settings: Callable[[str], Mapping[str, Any]]) -> int:
    """Trains; 0. `method_settings` gives the fields of RoVRConfig behind the name of a method."""
    for package in ("trl", "transformers", "datasets"):
        require(package, extra="train")
    from rovrl.train import custom

    args, fields = parsed(words)
    changes = overrides(fields) | dict(method_settings(args.method) if args.method else {})
    return custom.run(args.config, resume=args.resume, out=args.out, changes=changes)


def overrides(words: Sequence[str]) -> dict[str, Any]:
    """`--field value`, `--field=value` and `--flag` as a mapping; values are read as YAML reads them."""
    yaml = require("yaml", extra="train")
    found: dict[str, Any] = {}
    waiting: str | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            waiting = None if equals else name
            found[name] = yaml.safe_load(value) if equals else True
        elif waiting is None:
            raise RovrlError(f"{word!r} does not belong to any option; write --field value, with lists as '[a, b]'")
        else:
            found[waiting], waiting = yaml.safe_load(word), None
    return found
