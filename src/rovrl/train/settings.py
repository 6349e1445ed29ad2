"""`run.yaml` read and sorted: TRL's own words for model, dataset and adapter, any field of RoVRConfig, and a few of ours.

model_name_or_path: Qwen/Qwen3-0.6B        # ModelConfig: also use_peft, lora_r, dtype, attn_implementation, ...
dataset_name: prompts.jsonl                # a local .json, .jsonl, .parquet or .csv, a folder, or a name on the Hub
reward_funcs: [rewards.correct]            # by import path; rewards.py may lie beside the YAML
reward_channel: {credit_bound: adaptive}   # RoVRConfig, as every field of GRPOConfig: learning_rate, beta, ...
contamination: [spikes:rate=0.1,size=4]    # optional: planted corruption, to try a set-up's robustness
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, did_you_mean, require
from rovrl.integrations.rewards import load

OURS = ("reward_funcs", "contamination")
SCALAR = re.compile(r"(?:<class '|typing\.Optional\[)?(bool|int|float)(?:'>|\])?(?: \| None)?")
"""How the type of a field reads that is one number or one yes or no."""
FILES = {".json": "json", ".jsonl": "json", ".parquet": "parquet", ".csv": "csv"}


@dataclass(frozen=True)
class Custom:
    """A practitioner's run."""

    source: Path
    script: Any
    training: Any
    model: Any
    reward_funcs: list[Any]
    contamination: list[str]
    changes: Mapping[str, Any]


def read(path: str, out: str | None = None, changes: Mapping[str, Any] | None = None) -> Custom:
    """The settings of a YAML file with `changes` on top; a RovrlError that names the key for anything wrong with them."""
    trl = require("trl", extra="train")
    from rovrl.integrations.trl import RoVRConfig

    source, given = Path(path), settings_in(path) | dict(changes or {})
    given = {"output_dir": f"runs/{source.stem}"} | given | ({"output_dir": out} if out else {})
    given = {"record_dir": str(Path(given["output_dir"]) / "records")} | given
    kinds = {"script": trl.ScriptArguments, "training": RoVRConfig, "model": trl.ModelConfig}
    known = {name: {f.name for f in fields(kind) if f.init} for name, kind in kinds.items()}
    _refuse_unknown(source, given, {*OURS, *known["script"], *known["training"], *known["model"]})
    for needed in ("model_name_or_path", "dataset_name", "reward_funcs"):
        if not given.get(needed):
            raise RovrlError(
                f"{source}: {needed} is missing; see `rovrl train --help` and docs/train.md for an example"
            )
    if given.get("num_generations", 2) in (0, 1):
        raise RovrlError(
            f"{source}: num_generations must be at least 2 (the paper's is 16): advantages compare responses"
        )
    built = {}
    for name, kind in kinds.items():
        chosen = {key: value for key, value in given.items() if key in known[name]}
        try:
            built[name] = kind(**numbers(kind, chosen))
        except (ValueError, TypeError) as error:
            raise RovrlError(f"{source}: {error}") from None
    names = given["reward_funcs"]
    rewards = [load_function(name, source.parent) for name in ([names] if isinstance(names, str) else names)]
    return Custom(
        source,
        **built,
        reward_funcs=rewards,
        contamination=list(given.get("contamination") or []),
        changes=changes or {},
    )


def load_function(name: str, beside: Path) -> Callable[..., Any] | str:
    """A reward function by its import path, as TRL can call it; modules and files beside the YAML count.

    A name with a slash that is not an import path is left as it is: TRL loads it as a reward model.
    """
    if not isinstance(name, str):
        raise RovrlError(f"reward_funcs must hold import paths such as rewards.correct, not {name!r}")
    if "/" in name and not name.partition(":")[0].endswith(".py"):
        return name
    found = load(name, beside)
    _check_signature(name, found)
    return found


def load_data(custom: Custom) -> tuple[Any, Any]:
    """The training set, and the evaluation set if the run evaluates; a column `prompt` is required."""
    script = custom.script
    data = _open(script, local_data(custom))
    wanted = [script.dataset_train_split]
    if str(getattr(custom.training.eval_strategy, "value", custom.training.eval_strategy)) != "no":
        wanted.append(script.dataset_test_split)
    missing = [split for split in wanted if split not in data]
    if missing:
        raise RovrlError(
            f"the dataset {script.dataset_name!r} has no split {', '.join(missing)}, it has {', '.join(data)}; "
            "set dataset_train_split (and dataset_test_split)"
        )
    train = prompt_column(data[wanted[0]], f"the dataset {script.dataset_name!r}")
    return train, data[wanted[1]] if len(wanted) > 1 else None


def prompt_column(data: Any, name: str) -> Any:
    """`data`, which has a column `prompt`; a RovrlError that says how to make one otherwise."""
    columns = data.column_names
    if columns and "prompt" not in columns:
        raise RovrlError(
            f"{name} has no column 'prompt', it has {', '.join(columns)}; "
            "rename the one that holds the prompts, or have a copy made of the file: "
            "python -m rovrl.tasks.prepare own --rows FILE --columns prompt=NAME --out DIR"
        )
    return data


def read_file(path: Path, split: str = "train") -> Any:
    """The rows of a local .json, .jsonl, .parquet or .csv under the name `split`."""
    datasets = require("datasets", extra="train")
    if not path.is_file() or path.suffix not in FILES:
        raise RovrlError(f"{path} is not a data file: give a file that ends in {', '.join(FILES)}")
    with _sentences(str(path), path):
        return datasets.load_dataset(FILES[path.suffix], data_files={split: str(path)})


@contextlib.contextmanager
def _sentences(name: str, local: Path | None) -> Iterator[None]:
    """Turns what `datasets` raises about the data `name` into a RovrlError, and keeps what it logs to itself."""
    from datasets import logging as said
    from datasets.exceptions import DatasetsError

    before = said.get_verbosity()
    said.set_verbosity(said.CRITICAL)  # it logs pyarrow's row of a damaged file, counted from 0 and by blocks
    try:
        yield
    except (OSError, ValueError, DatasetsError) as error:
        reason = re.sub(r" in row \d+$", "", str(error.__cause__ or error).splitlines()[0])
        damaged = damaged_line(local) if local else None
        raise RovrlError(damaged or f"the dataset {name!r} cannot be read: {reason}") from None
    finally:
        said.set_verbosity(before)


def damaged_line(path: Path) -> str | None:
    """The sentence about the first line of a file of JSON lines that is not a JSON object; None if every line is one.

    None too for every other file.
    """
    if not path.is_file() or FILES.get(path.suffix) != "json":
        return None
    with path.open("rb") as file:
        if path.suffix == ".json" and file.read(1) == b"[":  # one array, not lines
            return None
        file.seek(0)
        for number, line in enumerate(file, 1):
            try:
                whole = not line.strip() or isinstance(json.loads(line), dict)
            except ValueError:
                whole = False
            if not whole:
                shown = line.decode("utf-8", "replace").strip()[:60]
                return f"{path}, line {number} is not a JSON object: {shown!r}; repair or delete that line"
    return None


def missing_model(name: str) -> str | None:
    """What is wrong with a model's name that can only be a path on this machine; None if nothing is, or the Hub decides."""
    path = Path(name).expanduser()
    if path.is_dir():
        whole = any((path / file).exists() for file in ("config.json", "adapter_config.json"))
        return (
            None
            if whole
            else f"model_name_or_path: the directory {name} holds no model (there is no config.json in it)"
        )
    a_path = name.startswith((".", "/", "~")) or name.count("/") > 1 or (name.count("/") == 1 and path.parent.is_dir())
    return f"model_name_or_path: there is no directory {name}" if a_path else None


def local_data(custom: Custom) -> Path | None:
    """The dataset's file or folder on this machine, as named or beside the YAML; None if there is none."""
    name = custom.script.dataset_name
    return next((p for p in (Path(name), custom.source.parent / name) if p.exists()), None)


def _open(script: Any, local: Path | None) -> Any:
    datasets = require("datasets", extra="train")
    name = script.dataset_name
    if local is None and Path(name).suffix in FILES:
        raise RovrlError(f"the dataset file {name} does not exist")
    if local and local.is_file() and local.suffix in FILES:
        return read_file(local, script.dataset_train_split)
    with _sentences(name, local):
        if local is None:
            return datasets.load_dataset(name, name=script.dataset_config, streaming=script.dataset_streaming)
        if (local / "dataset_dict.json").exists() or (local / "dataset_info.json").exists():
            loaded = datasets.load_from_disk(str(local))
            return loaded if isinstance(loaded, dict) else {"train": loaded}
        return datasets.load_dataset(str(local), name=script.dataset_config)


def settings_in(path: str) -> dict[str, Any]:
    """The settings of a YAML file as they stand there; a RovrlError that says what is wrong with the file."""
    yaml = require("yaml", extra="train")
    try:
        given = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise RovrlError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise RovrlError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict):
        raise RovrlError(f"{path} must hold settings as `name: value` lines")
    return given


def _refuse_unknown(source: Path, given: dict[str, Any], known: set[str]) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), known)
            raise RovrlError(f"{source}: there is no setting {key!r}{hint} (RoVRConfig, ModelConfig, ScriptArguments)")


def numbers(kind: type, chosen: dict[str, Any]) -> dict[str, Any]:
    """`chosen` with numbers where the fields are numbers: YAML reads 1e-5 as text. ValueError for anything else there."""
    hints = {f.name: SCALAR.fullmatch(str(f.type)) for f in fields(kind)}
    return {name: _scalar(name, hint[1], value) if (hint := hints[name]) else value for name, value in chosen.items()}


def _scalar(name: str, kind: str, value: Any) -> Any:
    """`value` for a field that is a bool, an int or a float; None and what is right already stay as they are."""
    if value is None or (kind == "bool" and isinstance(value, bool)):
        return value
    read = {"int": int, "float": float}.get(kind)
    if read and isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            if isinstance(value, str) or read(value) == value:
                return read(value)
    wanted = {"bool": "true or false", "int": "a whole number", "float": "a number"}[kind]
    raise ValueError(f"{name} must be {wanted}, not {value!r}")


def _check_signature(name: str, function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    names = {p.name for p in parameters}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    raise RovrlError(
        f"the reward function {name!r} takes ({', '.join(names)}); TRL calls it with prompts, completions, the dataset's "
        "columns and more by name, so its last parameter must be **kwargs"
    )
