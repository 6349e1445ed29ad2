"""How large replaced rewards can make a block's scale: brute force never passes the bound."""

import itertools

import pytest
import torch

from rovrl import RewardChannel
from rovrl.guarantees.movement import _centers, _scales
from rovrl.robust.centers import sandwich_scale
from rovrl.robust.solve import m_root

FAR = 1e9


@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("replaced", [1, 2])
def test_no_replacement_makes_a_block_wider_than_its_bound(replaced, spread, generator):
    channel = RewardChannel()
    x = spread * torch.randn(40, 1, 5, generator=generator, dtype=torch.float64)
    mask = torch.ones(1, 5, dtype=torch.bool)
    high, low = _centers(x, mask, replaced, 1.0), -_centers(-x, mask, replaced, 1.0)
    bound = _scales(x, mask, low, high, channel)[:, 0, replaced]
    values = torch.tensor([-FAR, *torch.linspace(-6, 6, 7).tolist(), FAR], dtype=torch.float64)
    found = torch.zeros(40, dtype=torch.float64)
    for hit in itertools.combinations(range(5), replaced):
        for chosen in itertools.product(values, repeat=replaced):
            y = x[:, 0].clone()
            y[:, list(hit)] = torch.stack(chosen)
            every = torch.ones_like(y, dtype=torch.bool)
            scale = sandwich_scale(y, m_root(y, 1.0, every), 1.0, every, channel.curvature_floor)
            found = torch.maximum(found, scale)
    assert bool((found <= bound * (1 + 1e-9)).all())
    if replaced == 1 and spread <= 1:  # with more, no one center is worst for all members, and the bound is far above
        assert float((found / bound).median()) > 0.4
