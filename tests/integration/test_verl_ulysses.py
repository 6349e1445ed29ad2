"""Responses split over two ranks by verl's Ulysses: gathered by verl, the loss and its gradient are those of one rank."""

import socket

import pytest
import torch

import verl_ulysses


@pytest.mark.slow
def test_two_gloo_ranks_with_half_of_every_response_have_the_loss_and_the_gradient_of_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(verl_ulysses.spawn, (port, str(tmp_path)), nprocs=verl_ulysses.RANKS)
    ranks = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(verl_ulysses.RANKS)]
    given = verl_ulysses.batch()
    whole = given["new"].clone().requires_grad_()
    loss = verl_ulysses.loss_of(whole, given)
    loss.backward()
    for rank in ranks:
        torch.testing.assert_close(rank["loss"], loss.detach(), rtol=1e-6, atol=1e-9)
    # verl scales a shard's gradient by the number of ranks, over which its optimizer takes the mean
    shards = torch.cat([rank["gradient"] for rank in ranks])[: len(whole)] / verl_ulysses.RANKS
    torch.testing.assert_close(shards, whole.grad, rtol=1e-5, atol=1e-9)
    assert whole.grad.abs().max() > 1e-3
