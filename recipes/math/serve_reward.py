"""A reward model behind HTTP, for `rovrl.tasks.reward_model`. Needs `rovrl[serve]` and transformers, of any version.

InternLM2-1.8B-Reward brings its own code, which does not run on transformers 5, so give it an environment of its own:

    python -m venv reward-env
    reward-env/bin/pip install "transformers==4.46.3" sentencepiece einops accelerate "rovrl[serve]"
    reward-env/bin/python recipes/math/serve_reward.py internlm/internlm2-1_8b-reward --trust-remote-code --port 8100

Any model with one label that `AutoModelForSequenceClassification` loads needs no flag. Then, where the training runs:

    export ROVRL_REWARD_URL=http://HOST:8100/score

The protocol: POST {"conversations": [[{"role": .., "content": ..}, ..], ..]} -> {"scores": [number or null, ..]}; also GET
/health and /metrics (Prometheus). With ROVRL_REWARD_TOKEN set on both sides, nobody else is served.
"""

from __future__ import annotations

import argparse
import sys

import torch

from rovrl.errors import RovrlError
from rovrl.tasks.serve import ServerLimits, add_arguments, serve


class Scorer:
    """Scores of conversations."""

    def __init__(self, name: str, trust_remote_code: bool, device: str):
        import transformers

        self.device = device
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
    def __call__(self, chats: list[list[dict[str, str]]]) -> list[float]:
        """One number per conversation."""
        if hasattr(self.model, "get_score"):  # InternLM2's own method, which adds its reward token
            return [float(self.model.get_score(self.tokenizer, chat)) for chat in chats]
        texts = [self._text(chat) for chat in chats]
        words = self.tokenizer(texts, padding=True, truncation=True, max_length=8192, return_tensors="pt").to(
            self.device
        )
        logits = self.model(input_ids=words["input_ids"], attention_mask=words["attention_mask"]).logits
        return logits[:, 0].float().tolist()

    def _text(self, chat: list[dict[str, str]]) -> str:
        if self.tokenizer.chat_template:
            return self.tokenizer.apply_chat_template(chat, tokenize=False)
        return "\n".join(message["content"] for message in chat)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    add_arguments(parser, port=8100)
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run the code that the model's repository brings"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    try:
        scorer = Scorer(args.model, args.trust_remote_code, args.device)
        serve(scorer, host=args.host, port=args.port, limits=ServerLimits(batch=args.batch))
    except (RovrlError, OSError, ValueError) as error:
        print(f"serve_reward: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
