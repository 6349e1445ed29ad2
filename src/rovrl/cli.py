"""`rovrl`: the command line. Each command is a module with `add_arguments(parser)` and `run(args) -> exit status`.

`args.words` are the words as typed. A module with `TAKES_MORE = True` gets the options that it did not declare in `args.more`.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence
from types import ModuleType

from rovrl import __version__
from rovrl.errors import RovrlError, did_you_mean, pages, with_places
from rovrl.output.terminal import visible

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("rovrl_paper.lab.embedded_command", "RoVR-GSPO on the embedded task, or on your model with --config"),
    "audit": ("rovrl.audit.audit_command", "what did the group statistics do to my run? Offline, on saved rollouts"),
    "check": ("rovrl.check.check_command", "before a run is paid for: `check run` is doctor, `check rewards` is lint"),
    "lint": ("rovrl.check.lint", "a dry run of reward functions on saved completions, before training"),
    "doctor": ("rovrl.check.doctor", "is this TRL or verl run set up as the method needs? Before a GPU is booked"),
    "stress": ("rovrl_paper.stress.stress_command", "the paper's stress tests on your own records"),
    "paper": (
        "rovrl_paper.paper.paper_command",
        "the paper's tables and figures, each from one command, beside the published numbers",
    ),
    "report": ("rovrl_paper.paper.html", "every table, figure and check of the paper in one HTML file"),
    "eval": (
        "rovrl.evaluate.eval_command",
        "a model on the paper's suites or on your own rows; compare two evaluations; check the scorer",
    ),
    "plugin": (
        "rovrl.integrations.plugin_command",
        "the file that plugs both channels into an engine",
    ),
}
"""command -> (module, one line of help); the module is imported only when its command is called."""
RESUMABLE = ("train", "eval", "paper")
"""Commands that can be resumed where they were stopped."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; a `RovrlError` is printed as its sentence, with status 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = words[:1] == ["--debug"]
    try:
        parser, chosen = _parser(words)
        args, rest = parser.parse_known_args(words)
        if rest and not getattr(chosen, "TAKES_MORE", False):
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        if chosen is None:
            parser.print_help()
            return 0
        args.words, args.more = words, rest
        return chosen.run(args)
    except RovrlError as error:
        if debug:
            raise
        print(f"rovrl: {visible(with_places(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"rovrl: interrupted{_how_to_go_on(words)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader (head, less) left: nothing is wrong, and nothing more can be said
        return 0


def console() -> None:
    """The `rovrl` script."""
    raise SystemExit(main())


def _how_to_go_on(words: Sequence[str]) -> str:
    """What a person who pressed Ctrl-C needs to know: for the commands that resume, how."""
    command = next((word for word in words if not word.startswith("-")), "")
    if command not in RESUMABLE:
        return ""
    again = [word for word in words if word != "--resume"] + (["--resume"] if command == "train" else [])
    return f"; what is finished is kept. To go on: rovrl {shlex.join(again)}"


def _parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, ModuleType | None]:
    parser = argparse.ArgumentParser(prog="rovrl", description="Robust group-relative policy optimization.")
    place = pages()
    parser.epilog = (
        f"docs/, recipes/ and examples/, where help and messages name them, are in {place}" if place else None
    )
    parser.add_argument("--version", action="version", version=f"rovrl {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback behind an error's sentence")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    word, chosen = next((word for word in words if not word.startswith("-")), None), None
    if word is not None and word not in COMMANDS:
        parser.error(f"there is no command {word!r}{did_you_mean(word, COMMANDS)}; they are {', '.join(COMMANDS)}")
    for name, (module, line) in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=line,
            description=line,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # --seed is not --seeds
        )
        if name == word:
            chosen = importlib.import_module(module)
            command.epilog = getattr(chosen, "EXAMPLE", None)
            chosen.add_arguments(command)
    return parser, chosen
