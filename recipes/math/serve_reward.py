"""A reward model behind HTTP, for `rovrl.tasks.reward_model`. Stands alone: it needs torch and transformers, not rovrl.

InternLM2-1.8B-Reward brings its own code, which does not run on transformers 5, so give it an environment of its own:

    python -m venv reward-env && reward-env/bin/pip install "transformers==4.46.3" torch sentencepiece einops accelerate
    reward-env/bin/python recipes/math/serve_reward.py internlm/internlm2-1_8b-reward --trust-remote-code --port 8100

Any model with one label that `AutoModelForSequenceClassification` loads needs no flag. Then, where the training runs:

    export ROVRL_REWARD_URL=http://HOST:8100/score

The protocol: POST {"conversations": [[{"role": .., "content": ..}, ..], ..]} -> {"scores": [number or null, ..]}.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch


class Scorer:
    """Scores of conversations; one batch at a time, whoever asks."""

    def __init__(self, name: str, trust_remote_code: bool, device: str):
        import transformers

        self.lock, self.device = threading.Lock(), device
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
        kind = transformers.AutoModel if trust_remote_code else transformers.AutoModelForSequenceClassification
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        self.model = (
            kind.from_pretrained(name, trust_remote_code=trust_remote_code, torch_dtype=dtype).to(device).eval()
        )
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if getattr(self.model.config, "pad_token_id", None) is None:
            self.model.config.pad_token_id = self.tokenizer.pad_token_id

    @torch.no_grad()
    def __call__(self, chats: list[list[dict[str, str]]]) -> list[float | None]:
        """One number per conversation, None where it is not finite."""
        with self.lock:
            if hasattr(self.model, "get_score"):  # InternLM2's own method, which adds its reward token
                numbers = [float(self.model.get_score(self.tokenizer, chat)) for chat in chats]
            else:
                texts = [self._text(chat) for chat in chats]
                words = self.tokenizer(texts, padding=True, truncation=True, max_length=8192, return_tensors="pt").to(
                    self.device
                )
                logits = self.model(input_ids=words["input_ids"], attention_mask=words["attention_mask"]).logits
                numbers = logits[:, 0].float().tolist()
        return [number if math.isfinite(number) else None for number in numbers]

    def _text(self, chat: list[dict[str, str]]) -> str:
        if self.tokenizer.chat_template:
            return self.tokenizer.apply_chat_template(chat, tokenize=False)
        return "\n".join(message["content"] for message in chat)


def handler(scorer: Scorer) -> type[BaseHTTPRequestHandler]:
    """The request handler around a scorer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                asked: Any = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                self.answer(200, {"scores": scorer(asked["conversations"])})
            except (ValueError, KeyError, TypeError) as error:
                self.answer(400, {"error": f'expected {{"conversations": [[{{"role", "content"}}]]}}: {error}'})
            except RuntimeError as error:  # out of memory: the client tries again
                self.answer(503, {"error": str(error)})

        def do_GET(self) -> None:
            self.answer(200, {"ready": True})

        def answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 to serve other machines; there is no password")
    parser.add_argument("--port", type=int, default=8100, help="0: any free one")
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run the code that the model's repository brings"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    scorer = Scorer(args.model, args.trust_remote_code, args.device)
    server = ThreadingHTTPServer((args.host, args.port), handler(scorer))
    print(f"http://{args.host}:{server.server_port}/score", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
