"""`rovrl plugin`: the path of the file that an engine loads to get both channels."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = """\
example:
  swift rlhf --rlhf_type grpo --external_plugins $(rovrl plugin ms-swift) --importance_sampling_level sequence \\
      --epsilon 3e-4 --epsilon_high 4e-4 --num_generations 16 ...        (docs/ms-swift.md)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl plugin`."""
    parser.add_argument("engine", choices=["ms-swift"], help="the engine whose plugin file to name")


def run(args: argparse.Namespace) -> int:
    """Prints the path; an engine that is missing, or of a version that was not tested, is a RovrlError."""
    from rovrl.integrations.ms_swift import check_ms_swift

    check_ms_swift()
    print(Path(__file__).parent / "ms_swift" / "plugin" / "rovrl_ms_swift.py")
    return 0
