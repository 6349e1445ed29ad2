"""A checkpoint engine for the harness: how rollout servers of their own get the weights, where a GPU run has NCCL."""

import asyncio

import ray
import verl.utils.fsdp_utils as fsdp
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

STORE = "harness_weights"
_save = fsdp.fsdp2_sharded_save_to_cpu


def _save_apart(model):
    # verl saves the policy before a step by .cpu(), which on a CPU is the policy itself and moves with it
    state, layout = _save(model)
    return {name: (tensor.clone(), own) for name, (tensor, own) in state.items()}, layout


fsdp.fsdp2_sharded_save_to_cpu = _save_apart


class Store:
    """The latest weights, in a process of its own; who asks for a version waits until it is there."""

    def __init__(self) -> None:
        self.version, self.weights, self.changed = None, {}, asyncio.Condition()

    async def put(self, version, weights):
        async with self.changed:
            self.version, self.weights = version, weights
            self.changed.notify_all()

    async def get(self, version):
        async with self.changed:
            await self.changed.wait_for(lambda: self.version == version)
            return self.weights


def _store():
    return ray.remote(Store).options(name=STORE, num_cpus=0, max_concurrency=64, get_if_exists=True).remote()


@CheckpointEngineRegistry.register("harness")
class ThroughRay(CheckpointEngine):
    """The first rank of the trainer puts the weights into the store, every rollout worker takes them from there."""

    def __init__(self, bucket_size: int, is_master: bool = False, **_) -> None:
        self.is_master = is_master
        self.store = _store()

    def prepare(self):
        return {}

    @classmethod
    def build_topology(cls, actor_wg_world_size, rollout_world_size, metadata):
        return {}, {}

    def init_process_group(self, **_):
        pass

    def finalize(self):
        pass

    async def send_weights(self, weights, global_steps=None):
        gathered = {
            name: tensor.detach().cpu().float().clone() for name, tensor in weights
        }  # on all ranks: a collective
        if self.is_master:
            await self.store.put.remote(global_steps, gathered)

    def receive_weights(self, global_steps=None):
        yield from ray.get(self.store.get.remote(global_steps)).items()
