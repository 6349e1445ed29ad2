# /// script
# requires-python = ">=3.11"
# dependencies = ["rovrl[train,tasks]", "peft"]
# ///
"""RoVR-GSPO on a math dataset with TRL, in the style of TRL's own scripts.

Every field of RoVRConfig, ModelConfig and ScriptArguments is an option; `--config run.yaml` reads them from a file.
One GPU, with the paper's group size, learning rate and eight updates per generation:

    python examples/trl_gspo.py \
        --model_name_or_path Qwen/Qwen3-4B-Base --dataset_name openai/gsm8k --dataset_config main \
        --output_dir runs/rovr-gspo --record_dir runs/rovr-gspo/records \
        --learning_rate 1e-6 --max_completion_length 2048 \
        --num_generations 16 --per_device_train_batch_size 16 --steps_per_generation 8

Several GPUs: `accelerate launch examples/trl_gspo.py ...`; generation by vLLM: `--use_vllm`; LoRA: `--use_peft`.
The placement ablation: `--reward_channel none` is SoftRoVR alone, `--ratio_channel none` RoVR-Adv, both together GSPO.
"""

from __future__ import annotations

from datasets import Dataset, load_dataset
from trl import ModelConfig, ScriptArguments, TrlParser, get_peft_config

from rovrl.integrations.trl import RoVRConfig, RoVRTrainer
from rovrl.tasks.math import PROMPT, math_reward


def prepared(dataset: Dataset) -> Dataset:
    """The columns `prompt` and `answer`, from `question` or `problem` and from `answer` or `solution`."""
    question = next((name for name in ("question", "problem") if name in dataset.column_names), None)
    answer = next((name for name in ("answer", "solution") if name in dataset.column_names), None)
    if question is None or answer is None:
        raise SystemExit(f"need the columns question (or problem) and answer (or solution), not {dataset.column_names}")

    def row(example):
        truth = str(example[answer]).split("####")[-1].strip()  # GSM8K puts its answer behind ####
        return {"prompt": PROMPT.format(problem=example[question]), "answer": truth}

    return dataset.map(row)


def main(script: ScriptArguments, training: RoVRConfig, model: ModelConfig) -> None:
    data = load_dataset(script.dataset_name, name=script.dataset_config, split=script.dataset_train_split)
    trainer = RoVRTrainer(
        model=model.model_name_or_path,
        reward_funcs=math_reward,
        args=training,
        train_dataset=prepared(data),
        peft_config=get_peft_config(model),
    )
    trainer.train()
    trainer.save_model(training.output_dir)


if __name__ == "__main__":
    main(*TrlParser((ScriptArguments, RoVRConfig, ModelConfig)).parse_args_and_config())
