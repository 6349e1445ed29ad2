"""One thread, no network, no pretence of randomness: the same examples on every machine unless asked for more."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("default", max_examples=25, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("thorough", max_examples=2000, deadline=None, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded generator: every random draw of a test comes from it."""
    return torch.Generator().manual_seed(20250904)
