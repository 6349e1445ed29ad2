import torch

from rovrl_paper.paper.experiments.language_model import sparsity
from rovrl_paper.stress.recorded import RecordedResponses, together


def responses(rows, lengths, prompts):
    return RecordedResponses(
        torch.tensor(rows), torch.tensor(lengths), torch.tensor(prompts), torch.arange(float(len(rows))), 3e-4, 4e-4
    )


def test_sets_of_responses_together_keep_their_tokens_and_no_prompt_of_one_is_a_prompt_of_another():
    one = responses([[1.0, 2.0], [3.0, 0.0]], [2, 1], [0, 1])
    other = responses([[4.0, 5.0, 6.0], [7.0, 8.0, 0.0]], [3, 2], [1, 0])
    both = together([one, other])
    assert both.log_ratios.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6], [7, 8, 0]]
    assert both.length.tolist() == [2, 1, 3, 2]
    assert both.prompt.tolist() == [0, 1, 3, 2]
    assert both.advantage.tolist() == [0, 1, 0, 1]
    assert (both.clip_low, both.clip_high) == (3e-4, 4e-4)


def test_sparsity_is_the_share_of_the_largest_tenth_of_a_responses_tokens_and_unmoved_responses_do_not_count():
    ten = [3.0, -1.0, *[0.25] * 8]  # one of ten tokens: 3 of 6
    eleven = [-4.0, 2.0, *[1 / 9] * 9]  # two of eleven: 6 of 7
    rows = [[*ten, 0.0], eleven, [0.0] * 11]
    assert abs(sparsity(responses(rows, [10, 11, 11], [0, 0, 1])) - (3 / 6 + 6 / 7) / 2) < 1e-6
