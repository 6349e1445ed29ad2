"""Which kernel computes, and what the compiled ones do with unusual tensors."""

import os
import subprocess
import sys

import pytest
import torch

from rovrl import ADVANTAGES, REFERENCES, Blocks, RewardChannel, m_center, soft_rovr
from rovrl.robust.kernels import WORTH_COMPILING, compiled, kernel_for, use_kernel
from rovrl.weight import soft_rovr_packed


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    """Small inputs too are computed by the compiled kernels here."""
    monkeypatch.setenv("ROVRL_KERNEL", "numba")


def test_the_choice_is_by_device_and_size_and_can_be_overridden(monkeypatch):
    x = torch.zeros(WORTH_COMPILING)
    monkeypatch.delenv("ROVRL_KERNEL", raising=False)
    assert kernel_for(x) == "numba"
    assert kernel_for(x[1:]) == "eager"
    with compiled():
        assert kernel_for(x[1:]) == "numba"
    assert kernel_for(x[1:]) == "eager"
    assert kernel_for(torch.zeros(2, device="meta")) == "eager"
    with use_kernel("eager"):
        assert kernel_for(x) == "eager"
    monkeypatch.setenv("ROVRL_KERNEL", "eager")
    assert kernel_for(x) == "eager"


@pytest.mark.slow
def test_a_first_small_call_compiles_nothing():
    code = (
        "import sys, torch, rovrl\n"
        "rovrl.grouped_advantages([1.0, 0.0] * 16, [0] * 16 + [1] * 16)\n"
        "rovrl.RewardRun().advantages([1.0, 0.0] * 16, [0] * 16 + [1] * 16)\n"
        "rovrl.soft_rovr(torch.zeros(4, 400).requires_grad_()).sum().backward()\n"
        "assert 'numba' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ROVRL_KERNEL"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_an_unknown_or_unfit_kernel_is_a_sentence(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="use_kernel must be one of auto, eager"), use_kernel("cuda"):
        pass
    monkeypatch.setenv("ROVRL_KERNEL", "fast")
    with pytest.raises(ValueError, match="ROVRL_KERNEL must be one of"):
        soft_rovr(torch.zeros(2, 3))
    with use_kernel("triton"), pytest.raises(ValueError, match="computes on CUDA tensors"):
        soft_rovr(torch.zeros(2, 3))


def test_rows_of_a_larger_tensor_and_transposed_ones_give_the_same(generator):
    wide = 0.05 * torch.randn(4, 100, generator=generator)
    cut = wide[:, 10:60]
    torch.testing.assert_close(soft_rovr(cut), soft_rovr(cut.clone()), atol=0, rtol=0)
    turned = wide.T.contiguous().T
    torch.testing.assert_close(soft_rovr(turned), soft_rovr(wide), atol=0, rtol=0)
    repeated = wide[:1].expand(3, -1)
    torch.testing.assert_close(soft_rovr(repeated), soft_rovr(wide[:1]).expand(3), atol=0, rtol=0)


def test_what_the_mask_hides_has_no_influence_even_as_nan(generator):
    x = 0.05 * torch.randn(3, 90, generator=generator)
    mask = torch.rand(3, 90, generator=generator) < 0.5
    poisoned = torch.where(mask, x, torch.nan).requires_grad_()
    value = soft_rovr(poisoned, mask)
    value.sum().backward()
    torch.testing.assert_close(value, soft_rovr(x, mask), atol=0, rtol=0)
    assert poisoned.grad[~mask].eq(0).all()


def test_a_nan_among_the_tokens_is_not_hidden(generator):
    x = 0.05 * torch.randn(3, 64, generator=generator)
    x[1, 7] = torch.nan
    assert soft_rovr(x).isnan().tolist() == [False, True, False]


def test_two_threads_give_what_one_gives(generator):
    x = 0.05 * torch.randn(64, 4096, generator=generator)
    mask = torch.arange(4096) < torch.randint(1, 4097, (64, 1), generator=generator)
    one = soft_rovr(x, mask)
    torch.set_num_threads(2)
    try:
        two = soft_rovr(x, mask)
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(two, one, atol=0, rtol=0)


def test_autocast_does_not_reach_inside(generator):
    x = 0.05 * torch.randn(3, 64, generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = soft_rovr(x)
    torch.testing.assert_close(inside, soft_rovr(x), atol=0, rtol=0)


@pytest.mark.parametrize("bounds", [[1, 5], [0, 4], [0, 4, 2, 5], []])
def test_wrong_cumulative_lengths_are_refused(bounds):
    with pytest.raises(ValueError, match="cu_seqlens"):
        soft_rovr_packed(torch.zeros(5), torch.tensor(bounds, dtype=torch.int64))


def test_no_packed_response_at_all_is_an_empty_tensor():
    for kernel in ("numba", "eager"):
        with use_kernel(kernel):
            assert soft_rovr_packed(torch.zeros(0), torch.tensor([0])).shape == (0,)
            assert soft_rovr_packed(torch.zeros(0), torch.tensor([0, 0])).tolist() == [0.0]


def rewards(generator: torch.Generator) -> torch.Tensor:
    x = torch.randn(300, 16, generator=generator, dtype=torch.float64)
    x[0] = 1.5
    x[1] = (x[1] > 0).double()
    x[2, 3] = 1e12
    x[3, 0], x[3, 1] = 1e300, -1e300
    x[4] *= 1e-9
    return x


@pytest.mark.parametrize("source", ["local", "lagged", 0.3])
@pytest.mark.parametrize("name", ["rovr", "global_m", "robust_mom"])
def test_the_lanes_give_the_eager_references(name, source, generator):
    x, channel = rewards(generator), RewardChannel(scale_source=source)
    blocks = Blocks.random(16, 3)
    fused = REFERENCES[name](x, blocks, channel)
    with use_kernel("eager"):
        expected = REFERENCES[name](x, blocks, channel)
    torch.testing.assert_close(fused, expected, atol=1e-13, rtol=1e-12)


@pytest.mark.parametrize("method", ["credit", "center", "loo", "grpo"])
def test_the_lanes_give_the_eager_advantages(method, generator):
    x, channel = rewards(generator), RewardChannel()
    fused = ADVANTAGES[method](x, channel)
    with use_kernel("eager"):
        expected = ADVANTAGES[method](x, channel)
    torch.testing.assert_close(fused, expected, atol=1e-10, rtol=1e-9)


def test_a_lane_does_not_depend_on_its_neighbours(generator):
    x, channel, blocks = rewards(generator), RewardChannel(), Blocks.random(16, 3)
    alone = torch.stack([REFERENCES["rovr"](row, blocks, channel) for row in x[:40]])
    torch.testing.assert_close(REFERENCES["rovr"](x, blocks, channel)[:40], alone, atol=0, rtol=0)


def test_masked_centers_of_lanes_are_eager(generator):
    x, mask = rewards(generator), torch.rand(300, 16, generator=generator) < 0.5
    mask[5] = False
    from rovrl.robust.solve import m_root

    fused = m_root(x, 0.7, mask)
    with use_kernel("eager"):
        expected = m_root(x, 0.7, mask)
    torch.testing.assert_close(fused, expected, atol=1e-13, rtol=1e-12)
    assert fused[5] == 0
    assert m_center(x[:3]).shape == (3,)


@pytest.mark.slow
def test_a_read_only_installation_without_a_cache_directory_still_computes(tmp_path):
    """numba refuses to cache where nothing can be written; the kernels then compile without a cache."""
    locked = tmp_path / "a file, not a directory"
    locked.write_text("")
    script = (
        "import torch, rovrl; print(float(rovrl.m_center(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64))[0]))"
    )
    environment = {
        **os.environ,
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        "NUMBA_CACHE_DIR": str(locked),
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(2.0)


CENTERS = """
import logging, torch, rovrl
logging.basicConfig(format="%(message)s")
x = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
rovrl.soft_rovr(torch.zeros(2, 40))
print(float(rovrl.m_center(x)[0]))
"""


def damage(directory):
    files = [file for pattern in ("*.nbi", "*.nbc") for file in directory.rglob(pattern)]
    for file in files:
        file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2])
    return len(files)


def make_unusable(directory):
    files = list(directory.rglob("*.nbi"))
    for file in files:
        file.unlink()
        file.mkdir()
    return len(files)


@pytest.mark.slow
@pytest.mark.parametrize(("harm", "reason"), [(damage, "is damaged"), (make_unusable, "IsADirectoryError")])
def test_a_cache_that_fails_costs_compile_time_and_one_sentence(harm, reason, tmp_path):
    """Truncated files, and a cache that can be neither read nor written, as on a full disk."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run():
        done = subprocess.run(
            [sys.executable, "-c", CENTERS], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
        return done.stderr

    assert run() == ""
    assert harm(tmp_path) > 0
    told = run()
    assert told.count("compiled kernels are not kept on disk") == 1
    assert reason in told
    if harm is damage:  # the damaged files were replaced
        assert run() == ""


@pytest.mark.parametrize("kernel", ["numba", "eager"])
@pytest.mark.parametrize("gap", [1e3, 1e12, 1e300])
def test_two_values_far_apart_meet_in_the_middle_although_the_score_is_flat_there(kernel, gap):
    x = torch.tensor([[gap, 0.0528]], dtype=torch.float64)
    with use_kernel(kernel):
        center = REFERENCES["global_m"](x, Blocks.contiguous(2, 1), RewardChannel(score_width=0.3))
    assert float(center) == pytest.approx((gap + 0.0528) / 2, rel=1e-12)
