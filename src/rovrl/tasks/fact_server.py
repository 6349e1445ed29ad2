"""`python -m rovrl.tasks.fact_server`: LongDocFACTScore behind HTTP, so that its models are loaded once, on a GPU of their own.

Trainers reach it with ROVRL_FACT_URL. verl's reward workers have no GPU, and every rank of a TRL run would load its own copy.
It speaks `HttpReward`'s protocol: a conversation's first message is the report, its last the summary.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rovrl.errors import RovrlError
from rovrl.tasks.chat import Chat
from rovrl.tasks.govreport import settings_from_environment
from rovrl.tasks.longdocfact import LongDocFACTScore


def score_conversations(scorer: LongDocFACTScore, chats: Sequence[Chat]) -> list[float | None]:
    """The score of each conversation's last message given its first."""
    return scorer([chat[0]["content"] for chat in chats], [chat[-1]["content"] for chat in chats])


def handler(score: Callable[[list[Chat]], list[float | None]]) -> type[BaseHTTPRequestHandler]:
    """The request handler: 400 for a request of another shape, 503 when the device is out of memory (worth another try)."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                self._answer(200, {"scores": score(asked["conversations"])})
            except (ValueError, KeyError, TypeError, IndexError) as error:
                self._answer(400, {"error": f"{type(error).__name__}: {error}"})
            except RuntimeError as error:
                self._answer(503, {"error": str(error)})

        def log_message(self, *_: object) -> None:
            """Quiet: a rollout is thousands of requests."""

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    Handler.do_POST.__doc__ = "Scores a batch."
    return Handler


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m rovrl.tasks.fact_server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 to serve other machines; there is no password")
    parser.add_argument("--port", type=int, default=8101, help="default: 8101; 0: any free one")
    for name in ("embedder", "likelihood", "splitter", "device"):
        parser.add_argument(f"--{name}", help=f"default: ROVRL_FACT_{name.upper()}, or the authors'")
    args = parser.parse_args(argv)
    chosen = {name: value for name, value in vars(args).items() if name not in ("host", "port") and value is not None}
    try:
        scorer = LongDocFACTScore(replace(settings_from_environment(), **chosen))
    except (RovrlError, ValueError) as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2
    server = ThreadingHTTPServer((args.host, args.port), handler(lambda chats: score_conversations(scorer, chats)))
    print(f"http://{args.host}:{server.server_port}/score", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
