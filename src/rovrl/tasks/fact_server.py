"""`python -m rovrl.tasks.fact_server`: LongDocFACTScore behind HTTP, so that its models are loaded once, on a GPU of their own.

Trainers reach it with ROVRL_FACT_URL. verl's reward workers have no GPU, and every rank of a TRL run would load its own copy.
It speaks `HttpReward`'s protocol: a conversation's first message is the report, its last the summary.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from rovrl.errors import RovrlError
from rovrl.tasks.chat import Chat
from rovrl.tasks.govreport import settings_from_environment
from rovrl.tasks.longdocfact import LongDocFACTScore
from rovrl.tasks.serve import ServerLimits, add_arguments, serve


def score_conversations(scorer: LongDocFACTScore, chats: Sequence[Chat]) -> list[float | None]:
    """The score of each conversation's last message given its first."""
    return scorer([chat[0]["content"] for chat in chats], [chat[-1]["content"] for chat in chats])


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m rovrl.tasks.fact_server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, port=8101)
    for name in ("embedder", "likelihood", "splitter", "device"):
        parser.add_argument(f"--{name}", help=f"default: ROVRL_FACT_{name.upper()}, or the authors'")
    args = parser.parse_args(argv)
    models = ("embedder", "likelihood", "splitter", "device")
    chosen = {name: value for name in models if (value := getattr(args, name)) is not None}
    try:
        scorer = LongDocFACTScore(replace(settings_from_environment(), **chosen))
        limits = ServerLimits(batch=args.batch)
        serve(lambda chats: score_conversations(scorer, chats), host=args.host, port=args.port, limits=limits)
    except (RovrlError, ValueError) as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
