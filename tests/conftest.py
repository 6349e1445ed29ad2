"""One thread, no network, no pretence of randomness: the same examples on every machine unless asked for more."""

import contextlib
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Triton's own functions are interpreted or compiled as decided at its first import, which may be any test's
os.environ["TRITON_INTERPRET"] = "1"
with contextlib.suppress(ImportError):
    import triton  # noqa: F401
del os.environ["TRITON_INTERPRET"]

import hypothesis
import pytest
import torch

# the only function-scoped fixture used with hypothesis is `gradient`, which does not change between examples
CALM = {"deadline": None, "database": None, "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture]}
hypothesis.settings.register_profile("default", max_examples=25, derandomize=True, **CALM)
hypothesis.settings.register_profile("thorough", max_examples=2000, **CALM)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded generator: every random draw of a test comes from it."""
    return torch.Generator().manual_seed(20250904)


@pytest.fixture(params=["implicit", "implicit-eager", "unrolled"])
def gradient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to differentiate SoftRoVR, the implicit one with its fused kernel and without."""
    name, _, kernel = request.param.partition("-")
    monkeypatch.setenv("ROVRL_KERNEL", kernel or "numba")
    return name


@pytest.fixture(params=["numba", "eager"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reward side computed by its fused kernel where there is one, and in plain torch."""
    monkeypatch.setenv("ROVRL_KERNEL", request.param)
    return request.param
