"""The client of reward servers against a real server that misbehaves: right scores or None, and it says why."""

import asyncio
import math

import pytest

from reward_servers import running
from rovrl.errors import RovrlError
from rovrl.tasks.remote import HttpReward, metrics


@pytest.fixture
def server():
    with running() as started:
        yield started


def asked(reward, texts):
    return reward(prompts=["?"] * len(texts), completions=texts)


def test_scores_come_back_in_order_in_batches(server):
    reward = HttpReward(server.url, batch=3)
    assert asked(reward, ["x" * n for n in range(10)]) == [float(n) for n in range(10)]
    assert sorted(server.sizes) == [1, 3, 3, 3]
    assert asked(reward, []) == []


def test_a_batch_holds_responses_of_similar_length_since_models_pad_to_the_longest():
    together = []
    with running(lambda texts: together.append([len(text) for text in texts]) or "ok") as server:
        texts = ["x" * (n * 37 % 100) for n in range(100)]
        assert asked(HttpReward(server.url, batch=10), texts) == [float(len(text)) for text in texts]
    assert max(max(lengths) - min(lengths) for lengths in together) < 10


@pytest.mark.parametrize(
    "order", [503, 500, 429, 408, "hang up", "half", "broken", "short", "shape", "deep", "gzip", "dribble"]
)
def test_one_failure_is_tried_again(server, order):
    server.script = [order]
    reward = HttpReward(server.url, pause=0.0, timeout=2.0 if order == "dribble" else 60.0)
    assert asked(reward, ["abc"]) == [3.0]
    assert len(server.sizes) == 2
    assert reward.failures == 0
    assert reward.last.retries == 1


def test_an_answer_of_400_megabytes_is_not_read(server):
    server.script = ["huge"] * 2
    before = peak_memory()
    reward = HttpReward(server.url, retries=1, pause=0.0)
    assert asked(reward, ["abc"]) == [None]
    assert peak_memory() - before < 40 << 20
    assert reward.tally.missing == {"answer": 1}


def peak_memory():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize(("order", "reason"), [("digits", "null"), ("null", "null"), ("deep", "answer")])
def test_a_score_that_is_no_number_is_none_and_the_reason_is_counted(server, order, reason):
    server.script = [order] * 2
    reward = HttpReward(server.url, retries=1, pause=0.0)
    assert asked(reward, ["abc"]) == [None]
    assert reward.tally.missing == {reason: 1}


@pytest.mark.parametrize("status", [408, 413, 429, 500])
def test_a_batch_that_keeps_failing_is_none_and_the_others_are_kept(status):
    with running(lambda texts: status if "bb" in texts else "ok") as server:
        reward = HttpReward(server.url, batch=2, retries=1, pause=0.0)
        scores = asked(reward, ["a", "bb", "ccc", "dddd"])
        assert scores[1] is None
        assert scores[2:] == [3.0, 4.0]
        assert scores[0] == (
            1.0 if status in (413, 500) else None
        )  # 408 and 429 are about the server, not the response


@pytest.mark.parametrize("status", [400, 413, 422, 500, "hang up", "short"])
def test_one_poisonous_response_costs_its_own_score_alone(status):
    with running(lambda texts: status if "poison" in texts else "ok") as server:
        texts = ["x" * n for n in range(32)]
        texts[21] = "poison"
        reward = HttpReward(server.url, retries=1, pause=0.0)
        scores = asked(reward, texts)
        # a server that always leaves one score out is right about batches of none only
        assert scores == [None if n == 21 else float(n) for n in range(32)]
        assert reward.failures == 1
        assert len(server.sizes) < 30


@pytest.mark.parametrize("status", [401, 404, 405])
def test_an_address_that_was_never_right_is_an_error_at_once(server, status):
    server.script = [status]
    with pytest.raises(RovrlError, match=rf"refuses the request \(status {status}: check its address"):
        asked(HttpReward(server.url), ["a"])
    assert len(server.sizes) == 1


def test_a_server_that_has_answered_is_not_given_up_for_a_404(server):
    reward = HttpReward(server.url, pause=0.0)
    assert asked(reward, ["a"]) == [1.0]
    server.script = [404]
    assert asked(reward, ["bb"]) == [2.0]


def test_a_server_that_refuses_every_request_is_an_error():
    with (
        running(lambda texts: 422) as server,
        pytest.raises(RovrlError, match=r"refuses every request \(status 422\): check that it speaks this protocol"),
    ):
        asked(HttpReward(server.url, batch=4), ["a"] * 8)


def test_trl_gets_latency_retries_and_what_is_missing_by_reason(server):
    server.script = [503, "null"]
    logged = {}
    reward = HttpReward(server.url, pause=0.0)
    reward(prompts=["?"], completions=["a"], log_metric=logged.__setitem__, answer=["x"])
    assert logged["reward_server/retries"] == 1.0
    assert logged["reward_server/requests"] == 2.0
    assert logged["reward_server/none"] == logged["reward_server/none/null"] == 1.0
    assert logged["reward_server/none/timeout"] == 0.0
    assert 0.0 < logged["reward_server/seconds/p50"] <= logged["reward_server/seconds/p95"]


def test_fields_beside_single_scores_add_up_to_the_metrics_of_a_call(server):
    server.script = [503, "null"]
    reward = HttpReward(server.url, batch=2, requests=1, pause=0.0)

    async def ask_all():
        return await asyncio.gather(*(reward.one_told("?", "x" * n) for n in range(1, 7)))

    told = asyncio.run(ask_all())
    assert [math.isnan(each["score"]) for each in told] == [True, True, False, False, False, False]
    assert [each["score"] for each in told[2:]] == [3.0, 4.0, 5.0, 6.0]
    assert [each["reward_server/none"] for each in told] == ["null", "null", "", "", "", ""]
    assert len({tuple(each) for each in told}) == 1  # verl's batches need the same fields everywhere
    found = metrics([*told, {"acc": 1.0}])  # a response that another function scored
    assert list(found) == list(reward.metrics())
    assert found["reward_server/requests"] == pytest.approx(4.0)
    assert found["reward_server/retries"] == pytest.approx(1.0)
    assert found["reward_server/none"] == found["reward_server/none/null"] == pytest.approx(2 / 6)
    assert 0.0 < found["reward_server/seconds/p50"] <= found["reward_server/seconds/p95"]
    assert found["reward_server/breaker_open"] == 0.0
    assert metrics([{"acc": 1.0}]) == {}


def test_what_is_missing_is_told_once_a_minute(server, caplog):
    server.script = ["null"] * 3
    reward = HttpReward(server.url)
    for _ in range(3):
        asked(reward, ["a", "b"])
    assert [record.getMessage() for record in caplog.records] == [f"{server.url}: 2 of 2 scores are None (2 null); "]


def test_the_token_is_sent_and_settings_that_cannot_work_are_refused(server):
    asked(HttpReward(server.url, token="secret\n"), ["a"])
    assert server.headers[0]["Authorization"] == "Bearer secret"
    for settings, message in (
        ({"batch": 0}, "batch must be above zero"),
        ({"batch": 1.5}, "batch must be a whole number"),
        ({"timeout": "5"}, "timeout must be a number"),
        ({"timeout": float("nan")}, "timeout must be above zero"),
        ({"retries": -1}, "retries must not be negative"),
        ({"patience": -1.0}, "patience must not be negative"),
        ({"token": "two\nlines"}, "token must be one line"),
        ({"protocol": "grpc"}, "protocol must be one of rovrl, vllm"),
        ({"protocol": "sglang"}, "give template="),
    ):
        with pytest.raises(ValueError, match=message):
            HttpReward(server.url, **settings)


@pytest.mark.parametrize(
    "address", ["localhost:80", "http://", "http://[::1/score", "http://127.0.0.1:99999/score", "http://a host/score"]
)
def test_an_address_that_cannot_be_one_is_refused_before_anything_is_asked(address):
    with pytest.raises(ValueError, match=r"^url "):
        HttpReward(address)
