"""Tokens of a response split over ranks: the values and gradients of one rank, by messages that do not grow with its length."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import context_ranks
import reference as ref
import rovrl
from rovrl import RatioChannel, soft_rovr_context_parallel

SCRIPT = Path(context_ranks.__file__)


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def ranks(request, tmp_path_factory):
    """What each of two or four ranks found in every case."""
    out = tmp_path_factory.mktemp(f"ranks{request.param}")
    path = os.pathsep.join([str(Path(rovrl.__file__).parents[1]), str(SCRIPT.parent)])  # the rovrl that is tested here
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path}
    command = [sys.executable, str(SCRIPT), str(request.param), str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return [torch.load(out / f"rank{rank}.pt") for rank in range(request.param)]


def together(ranks, name):
    """The value, which must be the same on every rank, and the gradients of all ranks in the order of the tokens."""
    found = [rank[name] for rank in ranks]
    assert all(torch.equal(rank["value"], found[0]["value"]) for rank in found)
    places = torch.cat([rank["places"] for rank in found])
    assert sorted(places.tolist()) == list(range(len(places)))
    return found[0]["value"], torch.cat([rank["grad"] for rank in found], -1)[:, places.argsort()]


@pytest.mark.slow
@pytest.mark.parametrize("name", context_ranks.CASES)
def test_several_ranks_have_the_value_and_the_gradient_of_one(ranks, name):
    case = context_ranks.CASES[name]
    x, mask = case.whole()
    x.requires_grad_()
    expected = rovrl.soft_rovr(x, mask, RatioChannel(**case.settings))
    (expected * context_ranks.weights().to(expected)).sum().backward()
    value, grad = together(ranks, name)
    assert value.dtype == grad.dtype == case.dtype
    bound = 1e-6 if case.dtype == torch.float32 else 1e-9
    torch.testing.assert_close(value, expected.detach(), atol=bound, rtol=0)
    torch.testing.assert_close(grad, x.grad, atol=bound, rtol=0)
    assert (grad[-1] == 0).all()  # a response without tokens
    assert (grad[~mask] == 0).all()


def test_the_value_and_the_gradient_are_those_of_the_independent_reference(ranks):
    x, mask = context_ranks.CASES["even"].whole()
    rows = [row[keep].numpy() for row, keep in zip(x, mask, strict=True)]
    value, grad = together(ranks, "even")
    np.testing.assert_allclose(value, ref.soft_rovrs(rows), atol=1e-7)  # the reference has no regularizer
    h = 1e-6
    for row in (1, 3):
        tokens, ours = rows[row], grad[row, mask[row]] / context_ranks.weights()[row]
        some = range(0, len(tokens), 1 + len(tokens) // 12)
        probes = [tokens + s * h * np.eye(len(tokens))[t] for t in some for s in (1, -1)]
        slopes = ref.soft_rovrs(probes).reshape(-1, 2) @ [1, -1] / (2 * h)
        np.testing.assert_allclose(ours[list(some)], slopes, atol=2e-7)


def test_what_is_sent_does_not_depend_on_the_length(ranks):
    """The long responses are the short ones with every token sixteen times."""
    for rank in ranks:
        short, long = rank["short"], rank["long"]
        assert len(long["places"]) == 16 * len(short["places"])
        assert long["sent"] == short["sent"]
        assert max(short["sent"]) == 4 * context_ranks.ROWS * 8  # four sums per block, at the end
        assert sum(long["sent"]) < len(long["places"]) * context_ranks.ROWS / 5


def test_ranks_with_other_responses_are_refused_on_every_rank(ranks):
    for number, rank in enumerate(ranks):
        assert f"this one has {2 + number % 2}, others 2 to 3" in rank["refused"]


def test_what_cannot_be_split_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"not initialised.*rovrl\.soft_rovr"):
        soft_rovr_context_parallel(torch.zeros(2, 8))
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="implicit"):
            soft_rovr_context_parallel(torch.zeros(2, 8), None, RatioChannel(gradient="unrolled"))
        with pytest.raises(ValueError, match="contiguous or zigzag"):
            soft_rovr_context_parallel(torch.zeros(2, 8), order="striped")
        with pytest.raises(ValueError, match="two pieces of one length, not 7"):
            soft_rovr_context_parallel(torch.zeros(2, 7), order="zigzag")
        assert soft_rovr_context_parallel(torch.zeros(0, 7)).shape == (0,)
        x = torch.full((2, 3, 40), 0.25)
        x[0, 1, 5] = torch.nan
        value = soft_rovr_context_parallel(x)
        assert value.isnan().flatten().tolist() == [False, True, False, False, False, False]
        torch.testing.assert_close(value, rovrl.soft_rovr(x), equal_nan=True, atol=1e-7, rtol=0)
    finally:
        torch.distributed.destroy_process_group()
