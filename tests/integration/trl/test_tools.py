"""RoVRTrainer with a tool: TRL parses the calls and runs the tool; the ratio channel sees only the policy's own tokens."""

import pytest
from datasets import Dataset
from trl.chat_template_utils import qwen3_chat_template

import tiny
from rovrl.records import read_steps

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'


def tokens_with_a_call():
    """The tiny tokenizer with Qwen3's template, and one token that is a whole call: a random model makes some."""
    tokens = tiny.tokenizer()
    tokens.add_special_tokens({"eos_token": "<|im_end|>"})
    tokens.add_tokens(["<|im_start|>", CALL], special_tokens=False)
    tokens.chat_template = qwen3_chat_template
    return tokens


@pytest.mark.slow
def test_two_steps_train_with_a_tool_whose_tokens_have_no_part_in_the_weight(tmp_path):
    called = []

    def add(a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        called.append((a, b))
        return a + b

    def asks(completions, **_):
        return [float(sum("tool_calls" in message for message in messages)) for messages in completions]

    tokens = tokens_with_a_call()
    policy = tiny.model(tokens=tokens, positions=2048)
    before = [value.detach().clone() for value in policy.parameters()]
    allowed = {tokens.eos_token_id, tokens.convert_tokens_to_ids(CALL), tokens.convert_tokens_to_ids("0")}
    trainer = tiny.trainer(
        tmp_path,
        rewards=asks,
        start=policy,
        tokens=tokens,
        tools=[add],
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": "2+3="}]] * 16}),
        max_completion_length=160,
        max_tool_calling_iterations=1,
        record_dir=str(tmp_path / "records"),
        generation_kwargs={"suppress_tokens": [i for i in range(len(tokens)) if i not in allowed]},
    )
    trainer.train()
    assert trainer.state.global_step == 2
    assert called
    assert set(called) == {(2, 3)}
    assert any(entry.get("tools/call_frequency", 0) > 0 for entry in trainer.state.log_history)
    assert any((old != new).any() for old, new in zip(before, policy.parameters(), strict=True))
    [(_, table)] = list(read_steps(tmp_path / "records"))
    whole = [batch["completion_mask"].sum().item() for batch in trainer._buffered_inputs]
    own = [(batch["completion_mask"] * batch["tool_mask"]).sum().item() for batch in trainer._buffered_inputs]
    assert sum(table["length"].to_pylist()) == sum(own) < sum(whole)
