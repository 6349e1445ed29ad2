"""`rovrl doctor --engine trl`: the settings of a RoVRConfig, or a whole run.yaml; nothing is trained or downloaded."""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from rovrl.check import Remark
from rovrl.errors import RovrlError, did_you_mean, require
from rovrl.integrations.rewards import Completions, call, is_number

COMPLETION = "The answer is 4."
"""What a reward function is tried on: any text that a policy may write."""


def check(args: argparse.Namespace) -> Iterator[Remark]:
    """Findings about TRL, the settings as RoVRConfig takes them, and which of them change the method.

    With `--config` also about the file's model, data and reward functions, each called on one row.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trl = require("trl", extra="train")
        from rovrl.integrations.trl import RoVRConfig  # refuses a TRL outside the tested range with its own sentence
        from rovrl.train.settings import numbers

        yield Remark("ok", f"trl {trl.__version__}, RoVRTrainer imports")
        given = parse(args.settings)
        if args.config:
            yield from _file(args.config, given)
            return
        known = [field.name for field in fields(RoVRConfig)]
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known)
                raise RovrlError(f"RoVRConfig has no field {name!r}{hint} (every field of TRL's GRPOConfig is one)")
        with tempfile.TemporaryDirectory() as nowhere:
            yield from _settings(lambda: RoVRConfig(**{"output_dir": nowhere, **numbers(RoVRConfig, given)}), _method)


def parse(settings: list[str]) -> dict[str, Any]:
    """field -> value; values are read as YAML, so that `{num_blocks: 3}`, `16`, `true` and `none` mean what they look like."""
    yaml = require("yaml", extra="train")
    given = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise RovrlError(f"{setting!r} is not a setting: write field=value, as in num_generations=16")
        try:
            given[name.lstrip("+-")] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise RovrlError(f"cannot read the value of {name}: {text!r} ({str(error).splitlines()[0]})") from None
    return given


def _file(path: str, changes: dict[str, Any]) -> Iterator[Remark]:
    from rovrl.train import settings

    if not Path(path).is_file():
        raise RovrlError(f"there is no file {path}: give the YAML of `rovrl train --config` (docs/train.md)")

    def rest(custom: Any) -> Iterator[Remark]:
        names = [getattr(function, "__name__", str(function)) for function in custom.reward_funcs]
        yield Remark("ok", f"reward functions: {', '.join(names)}")
        yield from _method(custom.training)
        yield from _model_and_data(settings, custom)

    yield from _settings(lambda: settings.read(path, None, changes), rest)


def _model_and_data(settings: Any, custom: Any) -> Iterator[Remark]:
    model, data = custom.model.model_name_or_path, custom.script.dataset_name
    wrong = settings.missing_model(model)
    here = Path(model).is_dir()
    yield Remark("problem", wrong) if wrong else Remark("ok" if here else "note", _where("model", model, here))
    if settings.local_data(custom) is None and not Path(data).suffix:
        yield Remark("note", _where("dataset", data, False))
        return
    try:
        train, _ = settings.load_data(custom)
    except RovrlError as error:
        yield Remark("problem", str(error))
        return
    yield Remark("ok", f"{data}: {len(train)} prompts, columns {', '.join(train.column_names)}")
    for function in filter(callable, custom.reward_funcs):
        yield _one_call(function, train)


def _one_call(function: Any, data: Any) -> Remark:
    """What the reward function does with the first row of the data, as TRL would call it."""
    row, name = data[0], getattr(function, "__name__", type(function).__name__)
    chat = not isinstance(row["prompt"], str)
    prompt = row["prompt"][-1]["content"] if chat else row["prompt"]
    columns = {column: [value] for column, value in row.items() if column != "prompt"}
    answer = call(function, Completions([prompt], [COMPLETION], [prompt], columns), chat)
    if answer.error:
        text = f"the reward function {name} fails on the first row of the data ({answer.error})"
        return Remark("problem", f"{text}; that row has the columns {', '.join(data.column_names)}")
    if answer.no_list or len(answer.values) != 1:
        given = f"one {answer.no_list}" if answer.no_list else f"{len(answer.values)} values"
        return Remark(
            "problem", f"the reward function {name} returned {given} for 1 completion, not a list of 1 reward"
        )
    if answer.values[0] is not None and not is_number(answer.values[0]):
        return Remark("problem", f"the reward function {name} returned {answer.values[0]!r}, which is not a number")
    return Remark("ok", f"{name} gives {answer.values[0]} to a completion of the first row")


def _where(kind: str, name: str, here: bool) -> str:
    return f"the {kind} {name} is on this machine" if here else f"the {kind} {name} is the Hub's: not looked up"


def _settings(build: Callable[[], Any], rest: Callable[[Any], Iterator[Remark]]) -> Iterator[Remark]:
    """Findings from building the settings, with what they warn of; then `rest` of what was built."""
    said = _Said()
    logger = logging.getLogger("rovrl")
    logger.addHandler(said)
    try:
        made = build()
    except (ValueError, TypeError, RovrlError) as error:
        yield Remark("problem", str(error).splitlines()[0])
        return
    finally:
        logger.removeHandler(said)
    yield Remark("ok", "the settings are valid")
    for text in said.sentences:
        if not text.startswith("epsilon="):  # a problem, below
            yield Remark("warning", text)
    yield from rest(made)


def _method(config: Any) -> Iterator[Remark]:
    sequence = config.importance_sampling_level == "sequence"
    high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    if sequence and max(config.epsilon, high) > 0.05:
        yield Remark(
            "problem",
            f"the clip range {config.epsilon:g} / {high:g} never acts on a sequence weight: leave epsilon out",
        )
    else:
        yield Remark("ok", f"clip range {config.epsilon:g} / {high:g} at {config.importance_sampling_level} level")
    if sequence and config.loss_type != "grpo":
        yield Remark(
            "warning", f"loss_type={config.loss_type} does not weigh responses equally; the method is loss_type=grpo"
        )
    if config.reward_settings is not None and config.num_generations >= 2:
        from rovrl.guarantees import tolerance_of_settings

        yield Remark("note", tolerance_of_settings(config.num_generations, config.reward_settings))
    off = [name for name in ("reward_channel", "ratio_channel") if getattr(config, name) is None]
    if off:
        yield Remark("warning", f"{' and '.join(off)} off: this is not RoVR-GSPO but a baseline")
    if config.ratio_settings is not None and not config.updates_see_moved_policy:
        text = "each generation is used for one update, before the policy moves: every log-ratio is 0, the ratio channel idle"
        yield Remark("warning", f"{text}; set num_iterations or steps_per_generation above 1")
    if config.bf16 or config.fp16:
        yield Remark(
            "note",
            "half precision: log-ratios have a noise floor, watch rovr/weight_disagreement",
        )


class _Said(logging.Handler):
    """Collects what RoVRConfig warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentences: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.sentences.append(record.getMessage())
