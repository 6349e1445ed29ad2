"""A platform in verl's sense whose device is the CPU."""

import types
from contextlib import contextmanager

import torch
from verl.plugin.platform import PlatformBase

_ANSWERS = {
    "get_device_name": lambda *_, **__: "CPU",
    "get_rng_state": lambda *_, **__: torch.get_rng_state(),
    "set_rng_state": lambda state, *_, **__: torch.set_rng_state(state),
    "mem_get_info": lambda *_, **__: (1 << 33, 1 << 33),
}


class _DeviceModule(types.ModuleType):
    """Answers what verl asks of `torch.cuda`: from torch.cpu where it can, memory as zero, the rest as nothing."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _ANSWERS:
            return _ANSWERS[name]
        if hasattr(torch.cpu, name):
            return getattr(torch.cpu, name)
        return (lambda *_, **__: 0) if "memory" in name else (lambda *_, **__: None)


_MODULE = _DeviceModule("cpu_as_device")


class PlatformCPU(PlatformBase):
    """One CPU per rank; Ray counts ranks by pretended GPUs, so that verl's resource pools work unchanged."""

    device_name = property(lambda _: "cpu")
    vendor_name = property(lambda _: "cpu")
    device_module = property(lambda _: _MODULE)

    def is_available(self):
        return True

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 1

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "GPU"

    def ray_resource_options(self, num_gpus):
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self):
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None
