"""`rovrl check run|rewards`: what is worth a look before a run is paid for; the halves are `rovrl doctor` and `rovrl lint`."""

from __future__ import annotations

import argparse

from rovrl.check import doctor, lint

HALVES = {
    "run": (doctor, "is this TRL or verl run set up as the method needs? (rovrl doctor)"),
    "rewards": (lint, "a dry run of reward functions on saved completions (rovrl lint)"),
}
EXAMPLE = """\
examples:
  rovrl check run --engine trl --config run.yaml
  rovrl check rewards my_rewards:accuracy --completions outputs/run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Each half with its own options."""
    halves = parser.add_subparsers(title="what to check", metavar="run|rewards", required=True)
    for name, (half, line) in HALVES.items():
        command = halves.add_parser(
            name,
            help=line,
            description=line,
            epilog=half.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        half.add_arguments(command)
        command.set_defaults(half=half)


def run(args: argparse.Namespace) -> int:
    """Runs the half that was asked for; its exit status."""
    return args.half.run(args)
