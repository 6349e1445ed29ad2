"""The queue that TRL's asynchronous trainer drains: responses leave it in whole groups, with the reward channel's advantages.

TRL's rollout worker makes advantages group by group in a process of its own, where no state could be saved. They are made anew
here, in the trainer's main process, for as many groups together as one optimizer step takes.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from rovrl.errors import RovrlError

Conversation = list[Any]
"""The rows (TRL's `RolloutSample`) of one response: several where TRL cut a conversation in pieces."""
PATIENCE = 60.0
"""Seconds without a new response after which the groups at hand get their credit, though fewer than were to come together."""


class CreditedQueue:
    """The rollout worker's queue behind TRL's `get` and `qsize`.

    `credit` takes groups, each a list of conversations, and sets the advantage of every row. A group is whole when it has
    `group_size` conversations, or when the next one begins: a worker puts the rows of a group one behind the other.
    """

    def __init__(
        self, arriving: Any, credit: Callable[[list[list[Conversation]]], None], group_size: int, groups_at_once: int
    ) -> None:
        self._arriving, self._credit, self._size, self._at_once = arriving, credit, group_size, groups_at_once
        self._open: list[Conversation] = []  # the group that is arriving
        self._whole: list[list[Conversation]] = []
        self._ready: deque[Any] = deque()
        self._given: set[Any] = set()  # ids of groups that were whole
        self._latest: Conversation = []
        self._heard = time.monotonic()

    def qsize(self) -> int:
        """How many responses wait, here and with the worker."""
        held = sum(len(rows) for group in (*self._whole, self._open) for rows in group)
        return len(self._ready) + held + self._arriving.qsize()

    def get(self, timeout: float | None = None) -> Any:
        """The next row with its advantage; `queue.Empty` if none came within the timeout."""
        while not self._ready:
            try:
                self._take(self._arriving.get(timeout=timeout))
            except queue.Empty:
                if len(self._open) >= self._size:
                    self._close()
                patient = time.monotonic() - self._heard < PATIENCE
                if not self._whole or (patient and len(self._whole) < self._at_once):
                    raise
                self._give()
        return self._ready.popleft()

    def _take(self, row: Any) -> None:
        self._heard = time.monotonic()
        if row.group_id in self._given:
            self._late(row)
            return
        if self._open and row.group_id != self._open[0][0].group_id:
            self._close()
        if self._open and _continues(self._open[-1], row):
            self._open[-1].append(row)
        else:
            self._open.append([row])
        if len(self._open) == self._size and _turns(row) < 2:
            self._close()
        if len(self._whole) >= self._at_once:
            self._give()

    def _late(self, row: Any) -> None:
        """A further piece of the conversation that came last gets its advantage; anything else has no group any more."""
        if not (self._latest and row.group_id == self._latest[0].group_id and _continues(self._latest, row)):
            raise RovrlError(
                f"a response to prompt group {row.group_id} came after that group was whole: the rollout worker must put the "
                f"responses to a prompt one behind the other, {self._size} of them (num_generations), and number groups anew"
            )
        if self._whole and self._whole[-1][-1] is self._latest:
            self._latest.append(row)
        else:
            row.advantage = self._latest[0].advantage
            self._ready.append(row)

    def _close(self) -> None:
        self._given.add(self._open[0][0].group_id)
        self._latest = self._open[-1]
        self._whole.append(self._open)
        self._open = []

    def _give(self) -> None:
        groups, self._whole = self._whole, []
        self._credit(groups)
        self._ready.extend(row for group in groups for rows in group for row in rows)


def _turns(row: Any) -> int:
    """How often the policy spoke in the conversation: one that spoke once cannot have been cut."""
    spoken = row.completion if isinstance(row.completion, list) else []
    return sum(isinstance(message, dict) and message.get("role") == "assistant" for message in spoken)


def _continues(conversation: Conversation, row: Any) -> bool:
    """Whether the row is a further piece: the same messages of several turns, and not the first piece once more, with which
    another response that happens to be equal would begin."""
    first = conversation[0]
    same = _turns(row) > 1 and row.completion == first.completion
    return same and not np.array_equal(row.input_ids, first.input_ids)
