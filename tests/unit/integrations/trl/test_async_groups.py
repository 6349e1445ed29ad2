"""The queue of the asynchronous trainer: which responses get their credit together, and that every row leaves it once."""

import queue
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

import rovrl
from rovrl.integrations.trl import async_grpo as groups
from rovrl.integrations.trl.async_grpo import CreditedQueue


def row(group, text="x", ids=(1, 2), turns=1):
    spoken = [{"role": "assistant", "content": text}] * turns
    return SimpleNamespace(group_id=group, completion=spoken, input_ids=np.array(ids), advantage=None)


def drained(rows, size=2, at_once=1):
    """(what the queue gave out, the groups that got their credit together, the queue)."""
    arriving, together = queue.Queue(), []

    def credit(whole):
        together.append([[len(conversation) for conversation in group] for group in whole])
        for group in whole:
            for place, conversation in enumerate(group):
                for each in conversation:
                    each.advantage = place

    for each in rows:
        arriving.put(each)
    made, given = CreditedQueue(arriving, credit, size, at_once), []
    with suppress(queue.Empty):
        while True:
            given.append(made.get(timeout=0.01))
    return given, together, made


def test_every_row_leaves_once_in_order_and_with_its_advantage():
    rows = [row(0), row(0), row(1), row(1)]
    given, together, _ = drained(rows)
    assert given == rows
    assert [each.advantage for each in given] == [0, 1, 0, 1]
    assert together == [[[1, 1]], [[1, 1]]]


def test_as_many_groups_as_a_step_takes_get_their_credit_together():
    given, together, waiting = drained([row(g) for g in (0, 0, 1, 1, 2, 2)], at_once=2)
    assert together == [[[1, 1], [1, 1]]]
    assert len(given) == 4
    assert waiting.qsize() == 2  # the third group waits for a fourth


def test_groups_that_wait_get_their_credit_when_nothing_more_comes(monkeypatch):
    monkeypatch.setattr(groups, "PATIENCE", 0.0)
    given, together, waiting = drained([row(g) for g in (0, 0, 1)], at_once=2)
    assert together == [[[1, 1]]]
    assert len(given) == 2
    assert waiting.qsize() == 1  # half a group is none


def test_a_group_that_lost_a_response_is_whole_when_the_next_one_begins():
    _, together, _ = drained([row(0), row(0), row(1), row(1), row(1)], size=3)
    assert together == [[[1, 1]], [[1, 1, 1]]]


def test_a_conversation_in_several_pieces_counts_once():
    pieces = [row(0, "a", (1,), turns=2), row(0, "a", (2,), turns=2), row(0, "b", (1,), turns=2), row(1), row(1)]
    given, together, _ = drained(pieces)
    assert together == [[[2, 1]], [[1, 1]]]
    assert [each.advantage for each in given] == [0, 0, 1, 0, 1]


def test_two_equal_conversations_in_pieces_count_twice():
    pieces = [row(0, "a", ids, turns=2) for ids in ((1,), (2,), (1,), (2,))]
    _, together, _ = drained(pieces)
    assert together == [[[2, 2]]]


def test_equal_answers_of_one_turn_are_responses_of_their_own_whatever_their_tokens():
    _, together, _ = drained([row(0, "5", (7,)), row(0, "5", (3, 4))])
    assert together == [[[1, 1]]]


def test_a_piece_that_comes_after_its_group_was_whole_has_the_advantage_of_its_conversation():
    arriving = queue.Queue()
    made = CreditedQueue(arriving, lambda whole: [setattr(c[0], "advantage", 7) for c in whole[0]], 2, 1)
    for each in (row(0, "a", turns=2), row(0, "b", turns=2)):
        arriving.put(each)
    assert [made.get(timeout=0.01).advantage for _ in range(2)] == [7, 7]
    arriving.put(row(0, "b", (9,), turns=2))
    assert made.get(timeout=0.01).advantage == 7


def test_a_worker_that_mixes_groups_is_told_so():
    with pytest.raises(rovrl.RovrlError, match="one behind the other, 2 of them"):
        drained([row(0), row(1), row(0), row(1)])
