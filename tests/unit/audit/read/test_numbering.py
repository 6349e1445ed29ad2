"""Row numbers: what stands for an array of them answers as the array would."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rovrl.audit import audit
from rovrl.audit.read.numbering import Consecutive, numbered, shortest


@pytest.mark.parametrize(
    "index", [0, -1, np.int64(3), slice(2, 5), slice(None, None, 2), np.array([4, 0]), np.arange(6) % 2 == 0]
)
def test_consecutive_numbers_are_indexed_like_the_array_they_stand_for(index):
    np.testing.assert_array_equal(Consecutive(7, 13)[index], np.arange(7, 13)[index])
    assert Consecutive(7, 13).tolist() == list(range(7, 13))


@pytest.mark.parametrize("rows", [[3, 4, 5], [3, 5, 4], [3, 4, 6], [3, 3, 5], [5, 4, 3]])
def test_only_numbers_without_a_gap_are_shortened_and_none_is_lost(rows):
    short = shortest(np.array(rows))
    assert isinstance(short, Consecutive) == (rows == [3, 4, 5])
    assert short.tolist() == rows


def test_chunks_that_follow_each_other_need_no_memory_and_others_keep_their_numbers():
    assert numbered([Consecutive(0, 4), Consecutive(4, 6)]) == Consecutive(0, 6)
    assert numbered([Consecutive(0, 2), Consecutive(3, 5)]).tolist() == [0, 1, 3, 4]
    assert numbered([Consecutive(0, 2), np.array([9, 2])]).tolist() == [0, 1, 9, 2]


@pytest.mark.parametrize("dictionary", [False, True])
def test_names_of_groups_that_are_not_utf8_are_shown_with_a_mark_in_place_of_what_cannot_be_read(tmp_path, dictionary):
    raw = pa.array([b"a\xff"] * 4 + [b"b"] * 4, pa.binary())
    names = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    if dictionary:
        names = pa.DictionaryArray.from_arrays(pa.array([0] * 4 + [1] * 4, pa.int32()), names.take(pa.array([0, 4])))
    pq.write_table(pa.table({"group": names, "reward": [0.0, 1.0] * 4}), tmp_path / "run.parquet")
    found = audit(tmp_path / "run.parquet")
    assert found.rollouts.label.to_pylist() == ["a\ufffd", "b"]
