"""`rovrl doctor --engine verl`: verl hides a plugin that fails, and meets a wrong name only after the first rollout."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import logging
import os
import socket
import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from rovrl.check import Remark
from rovrl.config import RewardChannel
from rovrl.errors import RovrlError, did_you_mean, require
from rovrl.groups import fallback_sentence, partition
from rovrl.loss import CLIP_HIGH, CLIP_LOW

UNDECLARED = ("transfer_queue", "zmq", "msgspec", "cachetools", "uvicorn", "fastapi")
"""What verl's default trainer imports and its package does not require."""
ACTOR = "actor_rollout_ref.actor"
TARGET = "rovrl.integrations.verl.RoVRPolicyLossConfig"
SEQUENCE_LOSSES = ("rovr_gspo", "gspo")
"""The losses whose weight is one number per response; for the others a clip range of 0.2 is right."""


def check(args: argparse.Namespace) -> Iterator[Remark]:
    """Findings about the installation, the configuration, and what a worker sees, in this order."""
    logging.disable(logging.WARNING)  # verl's own, about a GPU that this machine need not have
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            require("verl", extra="verl")
            yield from installation()
            config = compose(args.config_dir, args.config_name, args.settings)
            yield from settings(config)
            if not args.no_ray:
                yield from workers(config, args.ray_address)
    finally:
        logging.disable(logging.NOTSET)


def compose(config_dir: str | None, name: str, overrides: list[str]) -> Any:
    """The run's configuration, as verl's main_ppo composes it; what Hydra refuses is a RovrlError."""
    import verl
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    own = Path(verl.__file__).parent / "trainer/config"
    chosen = Path(config_dir).resolve() if config_dir else own
    if not (chosen / f"{name}.yaml").is_file():
        raise RovrlError(f"there is no configuration {name}.yaml in {chosen}: see --config-dir and --config-name")
    searched = [*overrides, "hydra.searchpath=[pkg://verl.trainer.config]"]
    try:
        with initialize_config_dir(config_dir=str(chosen), version_base=None):
            return hydra_compose(name, overrides=searched)
    except HydraException as error:
        reason = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise RovrlError(f"verl would not accept the settings: {reason}") from None


def settings(config: Any) -> Iterator[Remark]:
    """Names, both channels, and everything of verl's that changes the method."""
    yield from _names(config)
    yield from _reward_channel(config)
    yield from _policy_loss(config)
    yield from _objective(config)
    yield from _precision(config)
    yield from _verls_own(config)


def _names(config: Any) -> Iterator[Remark]:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    for key, chosen, ours, known in (
        ("algorithm.adv_estimator", config.algorithm.adv_estimator, "rovr", ADV_ESTIMATOR_REGISTRY),
        (
            f"{ACTOR}.policy_loss.loss_mode",
            config.actor_rollout_ref.actor.policy_loss.loss_mode,
            "rovr_gspo",
            POLICY_LOSS_REGISTRY,
        ),
    ):
        if chosen == ours:
            yield Remark("ok", f"{key}={chosen}")
        elif chosen in known:
            yield Remark(
                "note",
                f"{key}={chosen} is verl's own, so this is one channel of the method; the whole has {key}={ours}",
            )
        else:
            hint = did_you_mean(str(chosen), known)
            yield Remark("problem", f"{key}={chosen} is unknown to verl{hint}; it knows {', '.join(sorted(known))}")


def _reward_channel(config: Any) -> Iterator[Remark]:
    from rovrl.integrations.verl import reward_channel, reward_functions

    try:
        channel = reward_channel(config.algorithm)
        functions = reward_functions(config.algorithm)
    except (ValueError, TypeError) as error:
        yield Remark("problem", f"algorithm.rovr: {error}")
        return
    if functions is not None:
        yield Remark("ok", f"credit per reward function: {', '.join(functions.names)}, weights {functions.weights}")
    responses = config.actor_rollout_ref.rollout.n
    yield _groups(channel, responses)
    if responses >= 2 and config.algorithm.adv_estimator == "rovr":
        from rovrl.guarantees import tolerance_of_settings

        yield Remark("note", tolerance_of_settings(responses, channel))
    if config.algorithm.use_kl_in_reward:
        yield Remark(
            "note", "algorithm.use_kl_in_reward=True: rewards contain the KL penalty before the reward channel"
        )
    if config.trainer.save_freq <= 0:
        yield Remark("note", "trainer.save_freq is off: no checkpoints, so the lagged scale is not kept either")


def _groups(channel: RewardChannel, responses: int) -> Remark:
    if responses < 2:
        return Remark(
            "problem", f"actor_rollout_ref.rollout.n={responses}: a group of one has no reference, set it to 16"
        )
    blocks, fell_back = partition(responses, channel)
    if fell_back:
        undeclared = "declares no budget, so every group falls back to the global M-center"
        text = fallback_sentence(channel, responses, "+algorithm.rovr.replaced_per_block=0") or undeclared
        return Remark("warning", f"rollout.n={responses} {text}")
    return Remark("ok", f"groups of {responses} in blocks of {', '.join(map(str, blocks.sizes))}")


def _policy_loss(config: Any) -> Iterator[Remark]:
    from verl.utils.config import omega_conf_to_dataclass

    section = config.actor_rollout_ref.actor.policy_loss
    stock = section.get("_target_") != TARGET
    surplus = [
        key for key in ("rovr", "record_dir", "record_every", "record_megabytes") if section.get(key) is not None
    ]
    if stock and surplus:
        yield Remark("problem", f"policy_loss.{surplus[0]} needs {ACTOR}.policy_loss._target_={TARGET}")
        return
    try:
        omega_conf_to_dataclass(section)
    except Exception as error:  # Hydra wraps whatever the class raises
        cause = error.__cause__ or error
        yield Remark("problem", f"{ACTOR}.policy_loss: {str(cause).splitlines()[0]}")
        return
    yield Remark(
        "ok", "the ratio channel has the paper's settings" if stock else "the ratio channel's settings are valid"
    )
    if section.get("record_dir") and not Path(section.record_dir).is_absolute():
        yield Remark(
            "problem", f"policy_loss.record_dir={section.record_dir} must be an absolute path: workers run elsewhere"
        )


def _objective(config: Any) -> Iterator[Remark]:
    from rovrl.integrations.verl import AGGREGATION, WIDE_CLIP, clip_range

    actor = config.actor_rollout_ref.actor
    if actor.policy_loss.loss_mode not in SEQUENCE_LOSSES:
        yield Remark(
            "ok", f"{actor.policy_loss.loss_mode} is a token-level loss: its clip range and aggregation are verl's own"
        )
        return
    low, high = clip_range(actor)
    if max(low, high) > WIDE_CLIP:
        wanted = f"{ACTOR}.clip_ratio_low={CLIP_LOW:g} {ACTOR}.clip_ratio_high={CLIP_HIGH:g}"
        yield Remark("problem", f"the clip range {low:g} / {high:g} never acts on a sequence weight; set {wanted}")
    else:
        yield Remark("ok", f"clip range {low:g} / {high:g}")
    if actor.loss_agg_mode != AGGREGATION:
        text = f"{ACTOR}.loss_agg_mode={actor.loss_agg_mode} does not weigh responses equally"
        yield Remark("problem", f"{text}; set {ACTOR}.loss_agg_mode={AGGREGATION}")
    else:
        yield Remark("ok", f"loss_agg_mode={AGGREGATION}")
    updates = config.data.train_batch_size // max(actor.ppo_mini_batch_size, 1) * actor.ppo_epochs
    if updates <= 1 and not (config.algorithm.get("rollout_correction") or {}).get("bypass_mode"):
        text = "one update per step: the policy has not moved when it is compared, so every log-ratio is about 0"
        yield Remark("warning", f"{text} and the ratio channel idle (the paper: 192 prompts in mini-batches of 24)")


def _precision(config: Any) -> Iterator[Remark]:
    actor = config.actor_rollout_ref.actor
    engine = actor.get("fsdp_config")
    if not str(actor.strategy).startswith("fsdp") or engine is None:
        yield Remark(
            "note", f"strategy={actor.strategy}: see that log-probabilities are float32; 3e-4 is below bfloat16"
        )
        return
    chosen = (engine.get("mixed_precision") or {}).get("param_dtype") or "bf16"
    if chosen in ("fp32", "float32"):
        yield Remark("ok", "log-probabilities in float32")
    elif config.trainer.device == "cpu":
        fix = f"+{ACTOR}.fsdp_config.mixed_precision.param_dtype=fp32"
        yield Remark("problem", f"on a CPU {chosen} rounds most token log-ratios to 0; set {fix}")
    else:
        text = f"the forward pass is {chosen}, its logits too: log-ratios have a noise floor"
        yield Remark("note", f"{text}, watch actor/rovr/weight_disagreement (docs/verl.md)")


def _verls_own(config: Any) -> Iterator[Remark]:
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    except Exception as error:  # assertions, ValueErrors, whatever a section's class raises
        reason = (str(error.__cause__ or error).splitlines() or [type(error).__name__])[0]
        yield Remark("problem", f"verl's own check of the configuration: {reason}")
    else:
        yield Remark("ok", "verl's own check of the configuration passes")
    if not config.trainer.get("use_v1", True):
        yield Remark("warning", "trainer.use_v1=False: verl's legacy trainer is not tested, and gives no records")
    if config.actor_rollout_ref.rollout.get("agent", {}).get("agent_loop_manager_class"):
        yield Remark(
            "note", "a custom agent loop: a session with several outputs counts once per output (docs/verl.md)"
        )


def installation() -> Iterator[Remark]:
    """verl's version, the packages that its trainer needs, the plugin in this process."""
    plugin = _plugin()  # first: what is imported next registers both names by itself
    from rovrl.integrations.verl.run import untested

    problem = untested(version("verl"))
    yield Remark("warning", problem) if problem else Remark("ok", f"verl {version('verl')}")
    missing = [name for name in UNDECLARED if importlib.util.find_spec(name) is None]
    if missing:
        yield Remark("problem", f"verl's trainer needs {', '.join(missing)}: pip install 'rovrl[verl]'")
    yield plugin
    from rovrl.integrations.verl.step import trl_lacks_value_head

    if trl_lacks_value_head():
        yield Remark("note", f"trl {version('trl')} has no value-head model, so verl is told that trl is absent")


def _plugin() -> Remark:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    if "rovr" in ADV_ESTIMATOR_REGISTRY and "rovr_gspo" in POLICY_LOSS_REGISTRY:
        return Remark("ok", "the driver knows rovr and rovr_gspo")
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto")
    if policy.strip().lower() != "auto":
        reason = f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps the plugin out: unset it, or add rovrl to it"
    elif not any(e.name == "rovrl" for e in entry_points(group="verl.plugins")):
        reason = "rovrl's entry point is not installed: pip install --force-reinstall --no-deps rovrl"
    else:
        reason = _import_error()
    return Remark("problem", f"verl did not load the plugin: {reason}")


def _import_error() -> str:
    try:
        import rovrl.integrations.verl  # noqa: F401
    except Exception as error:  # whatever verl swallowed
        return f"{type(error).__name__}: {error}"
    return "verl was imported before rovrl was installed; start again"


def workers(config: Any, address: str) -> Iterator[Remark]:
    """Whether a worker process on each node of the cluster knows both names, under the environment that verl gives it."""
    import ray
    from omegaconf import OmegaConf
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    def missing() -> list[str]:  # in here, so that Ray sends it whole and the node needs nothing of ours to run it
        import verl  # noqa: F401
        from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

        wanted = {"rovr": ADV_ESTIMATOR_REGISTRY, "rovr_gspo": POLICY_LOSS_REGISTRY}
        return [name for name, known in wanted.items() if name not in known]

    environment = OmegaConf.to_container(OmegaConf.create(get_ppo_ray_runtime_env(config)))
    wanted = (config.ray_kwargs.get("ray_init") or {}).get("runtime_env") or {}
    environment["env_vars"] = {**environment.get("env_vars", {}), **(wanted.get("env_vars") or {})}  # pyright: ignore
    start = {"num_cpus": 1, "include_dashboard": False} if address == "local" else {}
    try:
        _reach(address)
        ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR, **start)
    except Exception as error:  # a cluster that cannot be reached
        raise RovrlError(
            f"cannot reach Ray at {address}: {error}; give --ray-address, or --no-ray to leave workers out"
        ) from None
    try:
        look = ray.remote(num_cpus=0, max_retries=0)(missing)
        for node in ray.nodes():
            if node["Alive"]:
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                yield _worker(node["NodeManagerHostname"], look.options(scheduling_strategy=there))
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """An OSError within seconds if nobody listens at host:port; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _worker(host: str, look: Any) -> Remark:
    import ray

    try:
        missing = ray.get(look.remote(), timeout=300)
    except Exception as error:  # the worker's own, of any kind
        return Remark("problem", f"a worker on {host} cannot import verl: {str(error).strip().splitlines()[-1]}")
    if missing:
        return Remark("problem", f"a worker on {host} does not know {', '.join(missing)}: install rovrl there as here")
    return Remark("ok", f"a worker on {host} knows rovr and rovr_gspo")
