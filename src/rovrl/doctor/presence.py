"""Is everything there? verl, what its trainer imports, the plugin in this process and in a worker on every node."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Iterator
from importlib.metadata import entry_points, version
from typing import Any

from rovrl.doctor.remark import Remark
from rovrl.errors import RovrlError

UNDECLARED = ("transfer_queue", "zmq", "msgspec", "cachetools", "uvicorn", "fastapi")
"""What verl's default trainer imports and its package does not require."""


def installation() -> Iterator[Remark]:
    """verl's version, the packages that its trainer needs, the plugin in this process."""
    plugin = _plugin()  # first: what is imported next registers both names by itself
    from rovrl.integrations.verl.settings import untested

    problem = untested(version("verl"))
    yield Remark("warning", problem) if problem else Remark("ok", f"verl {version('verl')}")
    missing = [name for name in UNDECLARED if importlib.util.find_spec(name) is None]
    if missing:
        yield Remark("problem", f"verl's trainer needs {', '.join(missing)}: pip install 'rovrl[verl]'")
    yield plugin
    from rovrl.integrations.verl.compat import trl_lacks_value_head

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
