"""The protocols of other people's servers, against small servers that take and give what their schemas say."""

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from reward_servers import serving_app
from rovrl.errors import RovrlError
from rovrl.tasks.remote import HttpReward


class Strict(BaseModel):
    """Refuses a field that the schema does not have."""

    model_config = ConfigDict(extra="forbid")


def vllm(classes=1):
    """vLLM's /classify (ClassificationCompletionRequest, ClassificationChatRequest) and /score (ScoreTextRequest)."""
    app = FastAPI()

    class Classify(Strict):
        model: str | None = None
        input: list[str] | None = None
        messages: list[dict] | None = None
        add_generation_prompt: bool = False
        use_activation: bool | None = None

    class Pairs(Strict):
        model: str | None = None
        text_1: list[str]
        text_2: list[str]
        use_activation: bool | None = None

    @app.post("/classify")
    def classify(asked: Classify):
        assert (asked.input is None) != (asked.messages is None)
        texts = asked.input or ["|".join(message["content"] for message in asked.messages)]
        logits = [
            float(len(text)) if asked.use_activation is False else 1.0 for text in texts
        ]  # softmax over one class
        data = [
            {"index": n, "label": "LABEL_0", "probs": [logit] * classes, "num_classes": classes}
            for n, logit in enumerate(logits)
        ]
        return {"id": "classify-1", "object": "list", "created": 1, "model": "m", "data": data[::-1], "usage": {}}

    @app.post("/score")
    def score(asked: Pairs):
        assert asked.use_activation is False
        data = [
            {"index": n, "object": "score", "score": len(a) + 100.0 * len(b)}
            for n, (a, b) in enumerate(zip(asked.text_1, asked.text_2, strict=True))
        ]
        return {"id": "embd-1", "object": "list", "created": 1, "model": "m", "data": data, "usage": {}}

    return app


def sglang():
    """SGLang's native /classify: EmbeddingReqInput in, a list of embeddings of one number out."""
    app = FastAPI()

    class Texts(Strict):
        text: list[str]

    @app.post("/classify")
    def classify(asked: Texts):
        return [{"embedding": [float(len(text))], "meta_info": {"id": "1", "prompt_tokens": 3}} for text in asked.text]

    return app


def openrlhf():
    """OpenRLHF's serve_rm: `query` is prompt and response in one text."""
    app = FastAPI()

    @app.post("/get_reward")
    def get_reward(asked: dict):
        assert len(asked["query"]) == len(asked["prompts"])
        return {"rewards": [float(len(text)) for text in asked["query"]]}

    return app


def rendered(chat):
    return "".join(f"<{message['role']}>{message['content']}" for message in chat)


PROMPTS, COMPLETIONS = ["1+1?", "2+2?", "3?"], ["2", "four", "I say 3"]
TEXTS = [f"<user>{p}<assistant>{c}" for p, c in zip(PROMPTS, COMPLETIONS, strict=True)]


def test_vllm_classify_gets_conversations_one_at_a_time_and_its_own_template():
    with serving_app(vllm()) as address:
        reward = HttpReward(address, protocol="vllm", fields={"model": "m"})
        assert reward(PROMPTS, COMPLETIONS) == [len(f"{p}|{c}") for p, c in zip(PROMPTS, COMPLETIONS, strict=True)]
        assert reward.last.requests == 3


def test_vllm_classify_gets_rendered_texts_in_batches_and_its_order_is_by_index():
    with serving_app(vllm()) as address:
        reward = HttpReward(f"{address}/classify", protocol="vllm", template=rendered)
        assert reward(PROMPTS, COMPLETIONS) == [float(len(text)) for text in TEXTS]
        assert reward.last.requests == 1


def test_a_classifier_with_two_classes_is_no_reward():
    with serving_app(vllm(classes=2)) as address:
        reward = HttpReward(address, protocol="vllm", template=rendered, retries=0)
        assert reward(PROMPTS, COMPLETIONS) == [None] * 3
        assert "2 classes: a reward needs exactly one" in reward.last_error


def test_vllm_score_gets_pairs():
    with serving_app(vllm()) as address:
        found = HttpReward(address, protocol="vllm-score")(PROMPTS, COMPLETIONS)
        assert found == [len(p) + 100.0 * len(c) for p, c in zip(PROMPTS, COMPLETIONS, strict=True)]


@pytest.mark.parametrize(("protocol", "app"), [("sglang", sglang), ("openrlhf", openrlhf)])
def test_servers_of_texts_get_the_rendered_conversation(protocol, app):
    with serving_app(app()) as address:
        reward = HttpReward(address, protocol=protocol, template=rendered, batch=2)
        assert reward(PROMPTS, COMPLETIONS) == [float(len(text)) for text in TEXTS]
        assert reward.last.requests == 2


def test_a_template_is_the_reward_models_own_without_the_token_that_the_server_adds(tmp_path):
    import tiny

    tokens = tiny.tokenizer()
    tokens.bos_token = "<eos>"
    tokens.chat_template = "<eos>" + tokens.chat_template
    tokens.save_pretrained(tmp_path)
    with serving_app(sglang()) as address:
        reward = HttpReward(address, protocol="sglang", template=str(tmp_path))
        assert reward(["1+1?"], ["2"]) == [float(len("<user>1+1?\n<assistant>2\n"))]
    with pytest.raises(RovrlError, match="template must be the reward model's name"):
        HttpReward(address, protocol="sglang", template=str(tmp_path / "nowhere"))


def test_the_wrong_protocol_is_a_sentence():
    with (
        serving_app(sglang()) as address,
        pytest.raises(RovrlError, match=r"refuses every request \(status 422\): check that it speaks this protocol"),
    ):
        HttpReward(f"{address}/classify", protocol="vllm")(PROMPTS, COMPLETIONS)
