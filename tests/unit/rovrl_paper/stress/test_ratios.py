"""The token stress protocol: only touched blocks are solved again, and that is the same as solving all."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rovrl.config import RatioChannel
from rovrl_paper.paper.experiments import token_stress
from rovrl_paper.stress.ratios import (
    Condition,
    Perturbation,
    SoftWeights,
    conditions,
    draw_positions,
    log_ratio_sd,
    perturbation,
    recomputed,
    stress,
)
from rovrl_paper.stress.recorded import RecordedResponses, published_responses

SIZES = st.lists(st.integers(1, 70), min_size=1, max_size=5)


def responses(lengths: list[int], seed: int, still: int = 0) -> RecordedResponses:
    """Responses of these lengths; the first `still` have log-ratios of exactly zero."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.tensor(lengths)
    values = 0.05 * torch.randn(len(lengths), max(lengths), generator=generator, dtype=torch.float64)
    values[:still] = 0.0
    values = torch.where(torch.arange(max(lengths)) < length.unsqueeze(-1), values, 0.0)
    advantage = torch.randn(len(lengths), generator=generator, dtype=torch.float64)
    return RecordedResponses(values, length, torch.arange(len(lengths)) // 2, advantage, 3e-4, 4e-4)


@given(
    lengths=SIZES,
    seed=st.integers(0, 999),
    still=st.integers(0, 2),
    severity=st.sampled_from(
        [("spike", 0.0), ("spike", 16.0), ("burst", 0.01), ("burst", 0.2), ("burst", 0.9), ("burst", 1.0)]
    ),
    sign=st.sampled_from([1, -1]),
)
def test_solving_the_touched_blocks_is_solving_all(lengths, seed, still, severity, sign):
    """Bursts over several blocks, responses shorter than two blocks (B = 1), and responses of zero scale included."""
    given_ = responses(lengths, seed, min(still, len(lengths)))
    places = draw_positions(len(lengths), torch.Generator().manual_seed(seed))
    change = perturbation(given_, Condition(*severity, sign), places)
    channel = RatioChannel()
    fast = SoftWeights(given_, channel).perturbed(change)
    torch.testing.assert_close(fast, recomputed(given_, change, channel), rtol=1e-9, atol=1e-13)


def test_a_block_that_is_not_touched_is_not_solved_again(monkeypatch):
    """A spike in a response of 64 tokens touches one of its eight blocks: an eighth of the work."""
    given_ = responses([64, 64], 0)
    soft, solved = SoftWeights(given_, RatioChannel()), []
    solve = soft._solve
    monkeypatch.setattr(soft, "_solve", lambda values, keep: solved.append(len(values)) or solve(values, keep))
    soft.perturbed(
        perturbation(given_, Condition("spike", 8.0, 1), draw_positions(2, torch.Generator().manual_seed(1)))
    )
    assert solved == [2 * 5]


def test_a_perturbation_stays_inside_the_response_and_has_the_protocols_length(generator):
    given_ = responses([1, 7, 50, 64], 3)
    places = torch.cat((draw_positions(4, generator), torch.full((4, 1), 0.999999, dtype=torch.float64)), -1)
    burst = perturbation(given_, Condition("burst", 0.1, 1), places)
    assert (burst.start >= 0).all()
    assert (burst.stop <= given_.length.unsqueeze(-1)).all()
    assert (burst.stop - burst.start).unique(dim=1).flatten().tolist() == [1, 1, 5, 7]
    sigma = torch.stack([row[:n].std(correction=0) for row, n in zip(given_.log_ratios, given_.length, strict=True)])
    torch.testing.assert_close(burst.shift, 8 * sigma)
    torch.testing.assert_close(log_ratio_sd(given_), sigma)
    spike = perturbation(given_, Condition("spike", 4.0, -1), places)
    assert (spike.stop - spike.start == 1).all()
    torch.testing.assert_close(spike.shift, -4 * sigma)


def test_the_mean_moves_by_the_shift_over_the_length_and_zero_scale_responses_do_not_move():
    given_ = responses([40, 40], 5, still=1)
    places = draw_positions(2, torch.Generator().manual_seed(0))
    found = stress(given_, [Condition("spike", 16.0, 1)], RatioChannel(), places)
    sigma = float(given_.log_ratios[1].std(correction=0))
    assert float(found["D_q/gspo"][0, 0]) == pytest.approx(16 * sigma / 40 / 2)
    alone = responses([40], 5, still=1)
    for name, value in stress(alone, conditions(), RatioChannel(), places[:1]).items():
        assert value.abs().max() == 0.0, name


def test_nothing_moves_at_severity_zero_and_a_flip_is_a_changed_branch():
    given_ = responses([48] * 6, 11)
    places = draw_positions(6, torch.Generator().manual_seed(2))
    for kind in ("spike", "burst"):
        for name, value in stress(given_, [Condition(kind, 0.0, 1)], RatioChannel(), places).items():
            assert value.abs().max() <= 1e-15, name
    strong = stress(given_, [Condition("burst", 0.2, 1)], RatioChannel(), places)
    assert (strong["D_q/softrovr"] < strong["D_q/gspo"]).all()
    assert ((strong["flips/gspo"] >= 0) & (strong["flips/gspo"] <= 1)).all()


def test_positions_then_responses_then_prompts_are_averaged(generator):
    """Prompts of unequal size: the protocol's mean over prompts is not the mean over responses."""
    given_ = responses([30, 44, 52], 8)
    places = draw_positions(3, generator)
    found = stress(given_, [Condition("spike", 8.0, 1)], RatioChannel(), places)["D_q/gspo"][0]
    each = 8 * log_ratio_sd(given_) / given_.length
    torch.testing.assert_close(found, torch.stack((each[:2].mean(), each[2])))


def test_the_calibrated_tokens_have_the_published_facts(generator):
    given_ = published_responses(
        60, 16, token_stress.SIGMA, token_stress.ZERO_SHARE, token_stress.HARMONIC_LENGTH, generator
    )  # fmt: skip
    sigma = log_ratio_sd(given_)
    assert float((sigma == 0).double().mean()) == pytest.approx(0.125, abs=0.03)  # 960 draws: sd 0.011
    moves = 0.2 * 8 * sigma
    assert float(moves.mean()) == pytest.approx(49.812e-3, rel=0.05)
    assert float((16 * sigma / given_.length).mean()) == pytest.approx(1.097e-3, rel=0.1)
    assert given_.length.min() >= 16


def test_a_perturbation_can_be_given_by_hand():
    """Two blocks of ten: [8, 12) touches both."""
    given_ = responses([20], 1)
    channel = RatioChannel(num_blocks=2)
    change = Perturbation(torch.tensor([[8]]), torch.tensor([[12]]), torch.tensor([0.3], dtype=torch.float64))
    torch.testing.assert_close(SoftWeights(given_, channel).perturbed(change), recomputed(given_, change, channel))
