"""The math reward: right answers in any spelling, wrong ones, and completions that are meant to break it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rovrl.errors import RovrlError
from rovrl.tasks import math
from rovrl.tasks.verify import Verdict, VerifierPool, default_workers

RIGHT = [
    (r"\boxed{\frac{1}{2}}", "0.5"),
    (r"\boxed{0.5}", r"\frac{1}{2}"),
    (r"\boxed{2x+1}", "1+2x"),
    (r"\boxed{6, 5}", "5, 6"),
    (r"\boxed{1,000}", "1000"),
    (r"\boxed{5 \text{ cm}}", "5"),
    (r"\boxed{x = 5}", "5"),
    (r"\boxed{\sqrt{8}}", r"2\sqrt{2}"),
    (r"\boxed{(3, \frac{\pi}{2})}", r"\left( 3, \frac{\pi}{2} \right)"),
    (r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    ("Adding up, the final answer is $12$.", "12"),
    ("so there are 12 apples.", "12"),
]
WRONG = [
    (r"\boxed{\frac{1}{3}}", "0.5"),
    (r"\boxed{2x-1}", "1+2x"),
    (r"\boxed{5}", "5, 6"),
    (r"\boxed{4} at first, but \boxed{3}", "4"),
    ("I do not know.", "12"),
    ("", "12"),
    (None, "12"),
    (r"\boxed{}", "12"),
    (r"\boxed{12}", ""),
]


@pytest.fixture(scope="module")
def pool():
    """Two workers whose limits are tight, so that what is meant to exceed them does so quickly."""
    with VerifierPool(2, time_limit=1.0, memory=512 << 20) as guarded:
        yield guarded


@pytest.mark.parametrize(("completion", "answer"), RIGHT)
def test_a_right_answer_in_another_spelling_is_1(completion, answer):
    assert math.score(completion, answer) == 1.0


@pytest.mark.parametrize(("completion", "answer"), WRONG)
def test_a_wrong_or_missing_answer_is_0(completion, answer):
    assert math.score(completion, answer) == 0.0


HOSTILE = {
    "power tower": r"\boxed{9^{9^{9^{9}}}}",
    "factorial": r"\boxed{(10^9)!}",
    "product": r"\boxed{\prod_{k=1}^{10000000} k}",
    "a hundred thousand digits": r"\boxed{" + "9" * 100_000 + "}",
    "a hundred thousand digits, no box": "9" * 100_000,
    "nested parentheses": r"\boxed{" + "(" * 400 + "1" + ")" * 400 + "}",
    "nested fractions": r"\boxed{" + r"\frac{1}{" * 100 + "2" + "}" * 100 + "}",
    "braces": "{" * 1_000_000,
    "boxes": "\\boxed{" * 100_000,
    "null bytes": "\x00" * 10_000 + r"\boxed{" + "\x00" * 10_000 + "}",
    "lone surrogates": "\ud800\udfff" * 1000,
    "dollars": "$" * 20_000,
    "backslashes": "\\" * 20_001,
    "sqrt forever": r"\boxed{" + r"\sqrt{" * 150 + "2" + "}" * 150 + "}",
    "python": r"\boxed{__import__('os').system('exit 1')}",
}


@pytest.mark.slow
def test_hostile_completions_are_refused_and_the_next_answer_is_still_judged(pool):
    verdicts = math.verdicts(list(HOSTILE.values()), ["5"] * len(HOSTILE), pool=pool)
    assert [name for name, verdict in zip(HOSTILE, verdicts, strict=True) if verdict.accepted] == []
    assert verdicts[0].reason == "over the time limit"  # stopped inside one uninterruptible power
    assert math.verdicts([r"\boxed{\frac{2}{4}}"], ["1/2"], pool=pool) == [Verdict(True)]


@pytest.mark.slow
def test_a_verifier_over_its_memory_is_stopped_by_the_kernel():
    with VerifierPool(1, time_limit=20.0, memory=160 << 20) as small:
        greedy = r"\boxed{2^{2^{33}}}"  # a gigabyte of digits
        verdict = small.verify([(greedy, "5")])[0]
        assert not verdict.accepted
        assert verdict.reason != "over the time limit"
        assert small.verify([(r"\boxed{0.5}", "1/2")]) == [Verdict(True)]


def test_a_killed_worker_is_replaced(pool):
    assert pool.verify([(r"\boxed{0.5}", "1/2")]) == [Verdict(True)]
    for pid in pool.pids():
        os.killpg(pid, 9)
    assert pool.verify([(r"\boxed{0.25}", "1/4")] * 4) == [Verdict(True)] * 4


def test_threads_share_the_pool_and_each_gets_its_own_answer(pool):
    pairs = [(rf"\boxed{{\frac{{{n}}}{{7}}}}", f"{n + n % 2}/7") for n in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda pair: math.verdicts([pair[0]], [pair[1]], pool=pool)[0].accepted, pairs))
    assert found == [n % 2 == 0 for n in range(40)]


def test_each_different_answer_is_judged_once_and_every_response_is_reported():
    asked = []

    class Counting(VerifierPool):
        def verify(self, pairs, *, on_done=None):
            asked.extend(pairs)
            return super().verify(pairs, on_done=on_done)

    reported = []
    with Counting(1) as counting:
        completions = [r"\boxed{\frac{3}{12}}", r"thus \boxed{\frac{3}{12}}", r"\boxed{3}", r"\boxed{\frac{4}{12}}"]
        scores = math.scores(completions, ["0.25"] * 4, pool=counting, on_done=reported.append)
    assert scores == [1.0, 1.0, 0.0, 0.0]
    assert len(asked) == len(set(asked)) == 3
    assert sum(reported) == 4


def test_a_problem_without_an_answer_is_not_scored():
    """0 would say that the response is wrong."""
    assert math.math_reward(completions=[r"\boxed{3}"] * 2, answer=[None, "3"]) == [None, 1.0]


def test_trl_and_verl_call_the_same_score():
    conversation = [[{"role": "assistant", "content": r"\boxed{0.5}"}]]
    assert math.math_reward(prompts=["?"], completions=conversation, answer=["1/2"], level=[3]) == [1.0]
    assert math.compute_score("math500", r"\boxed{0.5}", "1/2", extra_info={"index": 0}, step=3) == 1.0


def test_a_batch_with_the_wrong_number_of_answers_is_an_error():
    with pytest.raises(ValueError, match="2 completions but 1 answers"):
        math.scores(["a", "b"], ["a"])


def test_the_workers_end_with_the_interpreter(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from rovrl.tasks import math\n"
        "from rovrl.tasks.verify import shared_pool\n"
        "assert math.score(r'\\boxed{0.5}', '1/2') == 1.0\n"
        "print(*shared_pool().pids())\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=True)
    pids = [int(word) for word in done.stdout.split()]
    assert pids
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_a_failing_progress_bar_reaches_the_caller():
    with VerifierPool(2) as pool:

        def explode():
            raise ZeroDivisionError("the progress bar broke")

        with pytest.raises(ZeroDivisionError):
            pool.verify([(r"\boxed{0.5}", "1/2")] * 6, on_done=explode)
        assert pool.verify([(r"\boxed{0.5}", "1/3")] * 6) == [Verdict(False)] * 6


def test_settings_outside_their_range_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        VerifierPool(0)
    with pytest.raises(ValueError, match="time_limit must be a positive number"):
        VerifierPool(1, time_limit=0)
    monkeypatch.setenv("ROVRL_VERIFIER_WORKERS", "many")
    with pytest.raises(RovrlError, match="ROVRL_VERIFIER_WORKERS must be a whole number"):
        default_workers()
    monkeypatch.setenv("ROVRL_VERIFIER_WORKERS", "3")
    assert VerifierPool().workers == 3
