"""What a user sees when something is missing or wrong: sentences."""

import numpy as np
import pytest
import torch

import rovrl
from rovrl.errors import RovrlError, did_you_mean, pages, require, with_places
from rovrl.groups import fallback_sentence, partition


def test_a_missing_optional_package_is_a_sentence_with_the_way_to_get_it():
    with pytest.raises(RovrlError, match="no_such_package_of_ours") as error:
        require("no_such_package_of_ours.part", extra="report")
    assert "pip install 'rovrl[report]'" in str(error.value)
    assert error.value.__suppress_context__


def test_a_present_package_is_returned():
    import json

    assert require("json", extra="report") is json
    assert require("json.decoder", extra="report") is json.decoder


def test_a_package_that_fails_inside_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "breaks_inside.py").write_text("import a_dependency_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_dependency_that_is_not_there"):
        require("breaks_inside", extra="report")


def test_the_nearest_names_are_offered_and_none_where_none_is_near():
    assert did_you_mean("num_generation", ["num_generations", "seed"]) == "; did you mean num_generations?"
    assert did_you_mean("xyz", ["num_generations", "seed"]) == ""


def test_a_page_that_a_sentence_names_can_be_opened_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = pages()
    assert place is not None
    said = with_places("see docs/train.md, and my/docs/train.md or docs/none.md")
    assert said == f"see {place / 'docs' / 'train.md'}, and my/docs/train.md or docs/none.md"
    monkeypatch.chdir(place)
    assert with_places("see docs/train.md") == "see docs/train.md"


REWARDS, IDS, TOKENS = [0.1, 0.7, 0.3, 0.9], ["a", "a", "b", "b"], torch.zeros(2, 8)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rovrl.grouped_advantages(REWARDS, IDS, {"num_blocks": 3}), r"write RewardChannel\(\*\*settings\)"),
        (
            lambda: rovrl.grouped_advantages(REWARDS, IDS, rovrl.RatioChannel()),
            "must be a RewardChannel, not a RatioChannel",
        ),
        (lambda: rovrl.ADVANTAGES["credit"](torch.zeros(2, 4), {}), "channel must be a RewardChannel, not a dict"),
        (lambda: rovrl.RewardRun({"num_blocks": 3}), "channel must be a RewardChannel, not a dict"),
        (lambda: rovrl.grouped_advantages(IDS, REWARDS), "the rewards come first, then the group ids"),
        (lambda: rovrl.grouped_advantages([0, 0, 1, 1], REWARDS), "Were rewards and group ids swapped"),
        (lambda: rovrl.grouped_advantages(REWARDS, [["a"], ["a"], ["b"], ["b"]]), "group_ids must be flat"),
        (lambda: rovrl.soft_rovr(np.zeros(8)), "must be a torch tensor, not a ndarray"),
        (lambda: rovrl.soft_rovr([0.0] * 8), "must be a torch tensor, not a list"),
        (lambda: rovrl.soft_rovr(TOKENS > 0, TOKENS), "the log-ratios come first, then the mask"),
        (lambda: rovrl.soft_rovr(TOKENS, rovrl.RatioChannel()), "a channel is given as channel="),
        (lambda: rovrl.soft_rovr(TOKENS, None, {"num_blocks": 4}), "channel must be a RatioChannel, not a dict"),
        (lambda: rovrl.RewardChannel.from_dict({"num_block": 3}), "no field num_block; did you mean num_blocks"),
    ],
)
def test_a_wrong_argument_gets_a_sentence_that_says_what_to_write(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_columns_of_a_table_are_rewards_and_ids():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"reward": REWARDS, "prompt": IDS})
    assert torch.equal(
        rovrl.grouped_advantages(table["reward"], table["prompt"]), rovrl.grouped_advantages(REWARDS, IDS)
    )


@pytest.mark.parametrize("size", range(2, 17))
def test_each_way_out_of_the_fallback_is_one(size):
    channel = rovrl.RewardChannel()
    sentence = fallback_sentence(channel, size)
    assert bool(sentence) == partition(size, channel)[1]
    if sentence:
        assert "at least 9 responses per group" in sentence
        assert not partition(9, channel)[1]
        declared_less = rovrl.RewardChannel(replaced_per_block=0)
        assert ("'replaced_per_block': 0" in sentence) == (not partition(size, declared_less)[1])
