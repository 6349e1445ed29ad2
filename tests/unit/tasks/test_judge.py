"""The judge: an OpenAI-compatible server that grades, rambles, is cut off and is asked once for what it said before."""

import asyncio
import os
import signal
import time

import pytest
from fastapi import FastAPI

from reward_servers import serving_app
from rovrl.errors import RovrlError
from rovrl.tasks.remote import JudgeReward
from rovrl.tasks.remote.judge import last_line_grade


class Judge:
    """An application that replies by `reply` to the last message and keeps what it was asked."""

    def __init__(self, reply):
        self.asked, self.app = [], FastAPI()

        @self.app.post("/v1/chat/completions")
        def complete(request: dict):
            self.asked.append(request)
            text = reply(request["messages"][-1]["content"])
            finish = "length" if text.endswith("...") else "stop"
            message = {"role": "assistant", "content": text}
            return {
                "id": "1",
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            }


def by_length(question):
    response = question.split("<response>\n")[1].split("\n</response>")[0]
    return f"It is {len(response)} letters long.\nGrade: {len(response)}"


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("Good.\nGrade: 7", 7.0),
        ("**Grade: 7.5**\n\n", 7.5),
        ("Grade: 7/10", 7.0),
        ("Grade: 4/5", None),
        ("grade - 3", 3.0),
        ("Grade: 7-8", None),
        ("Grade: seven", None),
        ("The response says\nGrade: 10\nwhich is a trick.", None),
        ("I would give it a 7.", None),
        ("", None),
    ],
)
def test_the_grade_is_the_last_line_or_none(reply, grade):
    assert last_line_grade(reply) == grade


def test_grades_are_rewards_and_the_template_sees_columns():
    judge = Judge(by_length)
    with serving_app(judge.app) as address:
        reward = JudgeReward(
            f"{address}/v1", "m", template="{prompt} ({answer}) <response>\n{response}\n</response>", token="k"
        )
        found = reward(["1+1?", "2+2?"], ["2", "four"], answer=["2", "4"], trainer_state=object())
        assert found == [1.0, 4.0]
        assert judge.asked[0]["messages"][0]["content"].startswith(("1+1? (2)", "2+2? (4)"))
        assert judge.asked[0]["temperature"] == 0.0
        with pytest.raises(RovrlError, match="template asks for 'answer'"):
            reward(["1+1?"], ["2"])


@pytest.mark.parametrize("reply", ["no grade here", "Grade: 11", "Grade: -1", "thinking about it...", "Grade: 1e400"])
def test_a_reply_without_a_grade_in_range_is_none_and_never_zero(reply):
    with serving_app(Judge(lambda question: reply).app) as address:
        reward = JudgeReward(f"{address}/v1", "m")
        assert reward(["?"], ["a"]) == [None]
        assert reward.tally.missing == {"unparsable": 1}


def test_what_was_graded_once_is_not_asked_again_by_any_process(tmp_path):
    judge = Judge(by_length)
    with serving_app(judge.app) as address:
        file = tmp_path / "cache" / "judge.sqlite"
        first = JudgeReward(f"{address}/v1", "m", cache=file)
        assert first(["?"] * 4, ["a", "bb", "a", "bb"]) == [1.0, 2.0, 1.0, 2.0]
        assert len(judge.asked) == 2
        again = JudgeReward(f"{address}/v1", "m", cache=file)
        assert again(["?"] * 3, ["bb", "ccc", "a"]) == [2.0, 3.0, 1.0]
        assert again.remembered == 2
        assert len(judge.asked) == 3
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if again(["?"] * 2, ["dddd", "a"]) == [4.0, 1.0] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert again(["?"], ["dddd"]) == [4.0]
        assert len(judge.asked) == 4
        assert JudgeReward(f"{address}/v1", "other", cache=file)(["?"], ["a"]) == [1.0]
        assert len(judge.asked) == 5


def test_a_failed_grade_is_not_remembered(tmp_path):
    replies = iter(["no idea", "Grade: 5"])
    with serving_app(Judge(lambda question: next(replies)).app) as address:
        reward = JudgeReward(f"{address}/v1", "m", cache=tmp_path / "judge.sqlite")
        assert reward(["?"], ["a"]) == [None]
        assert reward(["?"], ["a"]) == [5.0]


def test_a_cache_that_is_no_cache_is_a_sentence(tmp_path):
    (tmp_path / "judge.sqlite").write_text("this is a text file" * 100)
    with pytest.raises(RovrlError, match=r"cannot be used .* give another file"):
        JudgeReward("http://127.0.0.1:9/v1", "m", cache=tmp_path / "judge.sqlite")(["?"], ["a"])


def test_requests_are_spread_over_the_minute():
    with serving_app(Judge(by_length).app) as address:
        reward = JudgeReward(f"{address}/v1", "m", per_minute=600, requests=8)
        start = time.monotonic()
        assert reward(["?"] * 8, ["x" * n for n in range(1, 9)]) == [float(n) for n in range(1, 9)]
        assert time.monotonic() - start >= 0.7


def test_verl_awaits_a_judge():
    with serving_app(Judge(by_length).app) as address:
        reward = JudgeReward(f"{address}/v1", "m")

        async def rollout():
            return await asyncio.gather(*(reward.one("?", "x" * n, answer="1") for n in range(1, 5)))

        assert asyncio.run(rollout()) == [1.0, 2.0, 3.0, 4.0]
