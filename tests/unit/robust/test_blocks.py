"""Partitions: balanced, drawn from a generator and never from the data, refused when they do not partition."""

import itertools

import pytest
import torch

import reference as ref
from rovrl import Blocks


@pytest.mark.parametrize(("n", "num_blocks"), list(itertools.product([1, 2, 3, 7, 16, 33], [1, 2, 3, 8])))
def test_blocks_are_balanced_with_the_longer_ones_first(n, num_blocks):
    if num_blocks > n:
        with pytest.raises(ValueError, match=str(num_blocks)):
            Blocks.contiguous(n, num_blocks)
        return
    for blocks in (Blocks.contiguous(n, num_blocks), Blocks.random(n, num_blocks, torch.Generator().manual_seed(1))):
        assert list(blocks.sizes) == ref.balanced_sizes(n, num_blocks)
        assert isinstance(blocks.sizes, tuple)
        assert [len(m) for m in blocks.members] == list(blocks.sizes)
        assert sorted(i for m in blocks.members for i in m) == list(range(n))


def test_contiguous_blocks_keep_the_order():
    assert Blocks.contiguous(16, 3).members == ref.contiguous(16, 3)
    assert Blocks.contiguous(5, 2).members == [[0, 1, 2], [3, 4]]


def test_a_random_partition_depends_on_its_generator_alone():
    one = Blocks.random(16, 3, torch.Generator().manual_seed(7)).members
    again = Blocks.random(16, 3, torch.Generator().manual_seed(7)).members
    other = Blocks.random(16, 3, torch.Generator().manual_seed(8)).members
    assert one == again
    assert one != other
    torch.manual_seed(0)
    unseeded = Blocks.random(16, 3, None).members
    torch.manual_seed(1)
    assert Blocks.random(16, 3, None).members == unseeded


def test_drawing_a_partition_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    Blocks.random(16, 3, None)
    Blocks.random(16, 3, torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)


def test_random_partitions_put_every_pair_together_equally_often(generator):
    """Uniformity, by Monte Carlo: P(0 and 1 share a block of 3 x 3) = 1/4; 2000 draws have a standard error of 0.0097."""
    together = 0
    for _ in range(2000):
        members = Blocks.random(9, 3, generator).members
        together += any(0 in m and 1 in m for m in members)
    assert abs(together / 2000 - 0.25) < 5 * 0.0097


def test_explicit_blocks_keep_their_members_in_order():
    blocks = Blocks.of([[0, 3], [1, 2, 4]])
    assert [list(m) for m in blocks.members] == [[0, 3], [1, 2, 4]]
    assert blocks.sizes == (2, 3)


@pytest.mark.parametrize(
    "members",
    [[[0, 1], [1, 2]], [[0, 2], [3]], [[0, 1], []], [], [[1, 2]], [[0, -1]], [[0, 0]]],
)
def test_explicit_blocks_that_do_not_partition_are_refused(members):
    with pytest.raises(ValueError, match=r"block|partition|member"):
        Blocks.of(members)


@pytest.mark.parametrize(("n", "num_blocks"), [(0, 1), (4, 0), (-1, 1), (4, -2), (3, 4)])
def test_impossible_numbers_of_blocks_are_refused_with_the_number(n, num_blocks):
    bad = n if n < 1 else num_blocks
    for make in (lambda: Blocks.contiguous(n, num_blocks), lambda: Blocks.random(n, num_blocks, None)):
        with pytest.raises(ValueError, match=str(bad)):
            make()
