"""The threads behind a pool: each asks a process of its own, one question at a time, from a common queue."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from rovrl.errors import RovrlError
from rovrl.tasks.verify.process import LOST, Verdict, VerifierProcess

_ATTEMPTS = 4  # a question whose process is killed from outside is asked again
_FAREWELL = 4.0  # seconds in which a thread ends its process, before the process is killed


class Batch:
    """One call: where its verdicts arrive, and whether its caller has left."""

    def __init__(self):
        self.verdicts: SimpleQueue[tuple[int, Verdict | BaseException]] = SimpleQueue()
        self.abandoned = False


class Question(NamedTuple):
    """A question and the place of its verdict."""

    batch: Batch
    index: int
    answer: str
    gold: str


class Crew:
    """Up to `size` threads with their processes, hired when there is something to ask."""

    def __init__(self, size: int, time_limit: float, memory: int):
        self.size, self.limits = size, (time_limit, memory)
        self.questions: SimpleQueue[Question | None] = SimpleQueue()
        self.closed = False
        self._hands: list[_Hand] = []
        self._joining = threading.Lock()

    def ask(self, batch: Batch, pairs: Sequence[tuple[str, str]]) -> None:
        """Queues the questions of a batch; interrupted in the middle, those that were queued are judged in vain."""
        for index, pair in enumerate(pairs):
            self.questions.put(Question(batch, index, *pair))
        for _ in range(min(self.size, len(pairs)) - len(self._hands)):
            _Hand(self).start()  # one too many, by a race or an interruption, finds no place and ends

    def next_verdict(self, batch: Batch) -> tuple[int, Verdict]:
        """A verdict of the batch with its index; an error if the pool was closed or its process does not start."""
        while True:
            if self.closed:
                raise RovrlError("this VerifierPool was closed: make a new one")
            try:
                index, verdict = batch.verdicts.get(timeout=1.0)
            except Empty:
                continue
            if isinstance(verdict, BaseException):
                raise verdict
            return index, verdict

    def drop(self, batch: Batch) -> None:
        """Nobody waits for this batch any more: its questions are skipped, and those under way end early."""
        batch.abandoned = True
        for hand in list(self._hands):
            question = hand.question
            if question is not None and question.batch is batch:
                hand.process.drop()  # if the next question has begun meanwhile, that one is asked again

    def join(self, hand: _Hand) -> bool:
        """Whether there is a place for this hand, which it then has."""
        with self._joining:
            if self.closed or len(self._hands) >= self.size:
                return False
            self._hands.append(hand)
            return True

    def end(self) -> None:
        """Ends the threads and their processes, whatever they are doing."""
        with self._joining:
            self.closed = True
            hands, self._hands = self._hands, []
        for hand in hands:
            self.questions.put(None)
            hand.process.drop()
        for hand in hands:
            if hand is not threading.current_thread():
                hand.join(_FAREWELL)
                hand.process.kill()  # nothing is left to kill, unless it was starting or stuck
                hand.join(_FAREWELL)

    def pids(self) -> list[int]:
        """The numbers of the running processes."""
        return [pid for hand in list(self._hands) if (pid := hand.process.pid) is not None]

    def in_a_copy(self) -> Crew:
        """The crew of a forked copy: nobody hired yet; the parent's pipes are closed here and its processes left alone."""
        for hand in self._hands:
            hand.process.forget()
        mine = Crew(self.size, *self.limits)
        mine.closed = self.closed
        return mine


class _Hand(threading.Thread):
    """A thread and its process. Signals are handled in the main thread, so nothing interrupts a question here."""

    def __init__(self, crew: Crew):
        super().__init__(name="verifier", daemon=True)
        self.crew = crew
        self.process = VerifierProcess(*crew.limits)
        self.question: Question | None = None

    def run(self) -> None:
        """Judges until the crew is ended."""
        if not self.crew.join(self):
            return
        try:
            while (question := self.crew.questions.get()) is not None and not self.crew.closed:
                verdict = LOST if question.batch.abandoned else self._judged(question)
                if not (self.crew.closed and verdict == LOST):  # dropped by the closing, which its caller is told of
                    question.batch.verdicts.put((question.index, verdict))
        finally:
            self.process.end()

    def _judged(self, question: Question) -> Verdict | BaseException:
        self.question = question
        try:
            verdict = LOST
            for _ in range(_ATTEMPTS):
                verdict = self.process.ask(question.answer, question.gold)
                if verdict != LOST or question.batch.abandoned or self.crew.closed:
                    break
        except BaseException as error:
            return error
        finally:
            self.question = None
        return verdict
