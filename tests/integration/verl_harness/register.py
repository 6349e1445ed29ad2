"""What verl imports in every process of the harness: the CPU platform and the rollout on transformers."""

from verl.plugin.platform import PlatformRegistry, set_platform

from verl_harness.platform import PlatformCPU

PlatformRegistry.register(platform="cpu")(PlatformCPU)
set_platform(PlatformCPU())

# these look at the platform while they are imported
import verl.utils.distributed as distributed  # noqa: E402
from verl.workers.rollout.base import _ROLLOUT_REGISTRY  # noqa: E402
from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: E402


def _load_replica():
    from verl_harness.rollout import Replica

    return Replica


import verl_harness.sessions  # noqa: E402, F401

_ROLLOUT_REGISTRY[("harness", "async")] = "verl_harness.rollout.Adapter"
RolloutReplicaRegistry.register("harness", _load_replica)

_initialize = distributed.initialize_global_process_group_ray


def _initialize_with_gloo(timeout_second=None, backend=None):
    # verl would ask for "cpu:gloo,cpu:gloo", which torch refuses
    return _initialize(timeout_second, backend or "gloo")


distributed.initialize_global_process_group_ray = _initialize_with_gloo
