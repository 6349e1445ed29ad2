"""The audit's own kernels: the core's numbers, in NumPy, without torch."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rovrl.audit.measure.reference import credit, references, whole_scales
from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS
from rovrl.partition import partition
from rovrl.robust.blocks import Blocks
from rovrl.robust.kernels import use_kernel
from rovrl.robust.location import reference_parts, whole_scale

CHANNELS = (
    RewardChannel(),
    RewardChannel(score_width=0.3, num_levels=4),
    RewardChannel(scale_source="lagged"),
    RewardChannel(scale_source=0.2, partition="contiguous"),
    RewardChannel(failure_unit=None),
    RewardChannel(reference="mom"),
)


def drawn(kind: str, n: int) -> np.ndarray:
    generator = np.random.default_rng(n)
    noise = generator.normal(size=(200, n))
    return {
        "normal": noise,
        "zero_one": (generator.random((200, n)) < 0.3).astype(float),
        "spiked": noise * 0.1 + 1e12 * (generator.random((200, n)) < 0.1),
        "tiny": noise * 1e-9,
        "of any size": np.sign(noise) * 10.0 ** generator.uniform(-300, 308, (200, n)),
        "tied": np.repeat(noise[:, :1] / 3, n, axis=1),
    }[kind]


@pytest.mark.parametrize("kind", ["normal", "zero_one", "spiked", "tiny", "of any size", "tied"])
def test_references_scales_and_credit_are_the_cores(kind):
    for n in (2, 3, 5, 9, 11, 16, 33):
        rewards = drawn(kind, n)
        size = np.abs(rewards).max(1)
        for channel in CHANNELS:
            blocks = partition(n, channel)[0]
            reference, nu = references(rewards, blocks, channel)
            with use_kernel("eager"):
                core, core_nu = reference_parts(torch.from_numpy(rewards), blocks, channel)
                core_scale = whole_scale(torch.from_numpy(rewards), channel).numpy()
                core_credit = FORMULAS["credit"](torch.from_numpy(rewards), blocks, channel).advantages.numpy()
            away = np.abs(reference - core.numpy()) / np.maximum(size, channel.score_width)
            assert away.max() < 1e-11, (n, channel)
            np.testing.assert_allclose(nu, core_nu, rtol=1e-6, atol=1e-12)
            np.testing.assert_allclose(whole_scales(rewards, channel), core_scale, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(credit(rewards, core.numpy(), channel), core_credit, rtol=1e-6, atol=1e-9)


def test_the_reference_of_equal_rewards_is_that_reward_to_the_last_bit():
    for n in (2, 4, 9, 16):
        rewards = np.full((3, n), 0.1)
        assert (references(rewards, partition(n, RewardChannel())[0], RewardChannel())[0] == 0.1).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e308, 1e308), min_size=2, max_size=12))
def test_any_finite_rewards_have_a_reference_between_the_smallest_and_the_largest_up_to_the_correction(values):
    rewards = np.array([values])
    channel = RewardChannel(failure_unit=None)  # one block: nothing is added to the M-center
    reference = references(rewards, partition(len(values), channel)[0], channel)[0][0]
    assert min(values) <= reference <= max(values)


@pytest.mark.parametrize("n", [1, 2, 16, 257, 20_000])
def test_the_fixed_partition_is_the_one_that_torch_draws(n):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    assert [i for block in Blocks.random(n, 1).members for i in block] == order


HEAVY = ("torch", "pandas", "numba", "scipy", "matplotlib", "rich", "jaxtyping")


@pytest.mark.parametrize("rows", [4, 3_000])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_summary_loads_neither_torch_nor_pandas_nor_numba(tmp_path, rows, ending):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.csv import write_csv

    generator = np.random.default_rng(0)
    reward = generator.normal(size=rows) + 30 * (generator.random(rows) < 0.02)
    reward[:1] = np.nan
    group = np.arange(rows) // (2 if rows == 4 else 11)
    names = {"step": group // 9, "group": [f"g{k}" for k in group], "reward": reward, "advantages": reward}
    table, path = pa.table(names | {"completion": ["text"] * rows}), tmp_path / f"run.{ending}"
    (write_csv if ending == "csv" else pq.write_table)(table, path)
    code = (
        "import json, sys\nfrom rovrl.cli import main\n"
        f"main(['audit', {str(path)!r}, '--no-page'])\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Verdict" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == []
