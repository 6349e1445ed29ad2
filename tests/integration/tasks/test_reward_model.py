"""Learned rewards: a tiny classification model in process, and a real HTTP server that misbehaves."""

import json
import os
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from rovrl.errors import RovrlError
from rovrl.tasks import reward_model
from rovrl.tasks.chat import conversation
from rovrl.tasks.reward_model import ClassifierReward, HttpReward
from samples_tasks import classifier


class Server(ThreadingHTTPServer):
    """Scores a conversation by the length of its last message, after the misbehaviour that `script` orders for each request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.sizes, self.lock = [], [], threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/score"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        chats = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["conversations"]
        with self.server.lock:
            order = self.server.script.pop(0) if self.server.script else "ok"
            self.server.sizes.append(len(chats))
        scores = [len(chat[-1]["content"]) for chat in chats]
        if order == "hang up":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if order == "sleep":
            threading.Event().wait(1.5)
        status = order if isinstance(order, int) else 200
        body = {"short": {"scores": scores[1:]}, "shape": ["what?"], "null": {"scores": [None] * len(scores)}}.get(
            order, {"scores": scores}
        )
        text = b"{broken" if order == "broken" else json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            pass  # the client had a time-out and left

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    running = Server()
    yield running
    running.shutdown()
    running.server_close()


def test_scores_come_back_in_order_in_batches(server):
    reward = HttpReward(server.url, batch=3)
    completions = ["x" * n for n in range(10)]
    assert reward(prompts=["?"] * 10, completions=completions) == [float(n) for n in range(10)]
    assert sorted(server.sizes) == [1, 3, 3, 3]
    assert reward(prompts=[], completions=[]) == []


@pytest.mark.parametrize("order", [503, 429, "hang up", "broken", "short", "shape"])
def test_one_failure_is_tried_again(server, order):
    server.script = [order]
    reward = HttpReward(server.url, pause=0.0)
    assert reward(["?"], ["abc"]) == [3.0]
    assert len(server.sizes) == 2
    assert reward.failures == 0


def test_a_slow_answer_is_a_failure(server):
    server.script = ["sleep"]
    reward = HttpReward(server.url, pause=0.0, timeout=0.3)
    assert reward(["?"], ["abc"]) == [3.0]
    assert len(server.sizes) == 2


def test_a_batch_that_keeps_failing_is_none_and_the_others_are_kept(server):
    pauses = []
    server.script = [500, 500, 500]
    reward = HttpReward(server.url, batch=2, requests=1, retries=2, pause=0.5, sleep=pauses.append)
    assert reward(["?"] * 4, ["a", "bb", "ccc", "dddd"]) == [None, None, 3.0, 4.0]
    assert pauses == [0.5, 1.0]
    assert reward.failures == 2


def test_a_null_score_stays_none(server):
    server.script = ["null"]
    assert HttpReward(server.url)(["?"], ["a"]) == [None]


def test_a_refused_request_is_an_error_at_once(server):
    server.script = [404]
    with pytest.raises(RovrlError, match=r"refuses the request \(status 404\)"):
        HttpReward(server.url)(["?"], ["a"])
    assert len(server.sizes) == 1


def test_a_dead_server_is_borne_for_a_while_and_then_said_in_a_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/score"
    patient = HttpReward(url, retries=0)
    assert patient(["?", "?"], ["a", "b"]) == [None, None]
    with pytest.raises(RovrlError, match=r"has given no score .* start it again, then resume the run"):
        HttpReward(url, retries=0, patience=0.0)(["?"], ["a"])


def test_a_client_on_both_sides_of_a_fork_is_answered_on_both(server):
    reward = HttpReward(server.url, batch=2)
    assert reward(["?"] * 4, ["a", "bb", "ccc", "dddd"]) == [1.0, 2.0, 3.0, 4.0]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a copy that hangs ends by its own clock
        try:
            os.write(write, repr(reward(["?"] * 3, ["aaa", "bb", "a"])).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"[3.0, 2.0, 1.0]"
    os.waitpid(child, 0)
    assert reward(["?"], ["abcde"]) == [5.0]


def test_verl_and_trl_take_the_server_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("ROVRL_REWARD_URL", server.url)
    assert reward_model.learned_reward(prompts=["?"], completions=["abcd"], answer=["x"]) == [4.0]
    assert reward_model.compute_score("math", "abcd", "x", extra_info={"question": "?"}) == 4.0
    monkeypatch.delenv("ROVRL_REWARD_URL")
    with pytest.raises(RovrlError, match="export ROVRL_REWARD_URL"):
        reward_model.learned_reward(prompts=["?"], completions=["a"])
    with pytest.raises(ValueError, match="url must start with http"):
        HttpReward("localhost:80")


def test_a_batch_gives_each_conversation_the_score_it_has_alone(tmp_path):
    reward = ClassifierReward(classifier(tmp_path), batch=3)
    prompts = [f"{n}+{n}=?" for n in range(7)]
    completions = ["yes" * (n % 4 + 1) for n in range(7)]
    together = reward(prompts=prompts, completions=completions)
    alone = [reward([p], [c])[0] for p, c in zip(prompts, completions, strict=True)]
    assert together == pytest.approx(alone, abs=1e-5)  # padding changes float32 rounding only
    assert len(set(together)) > 3


def test_a_score_that_is_not_finite_is_none(tmp_path):
    reward = ClassifierReward(classifier(tmp_path))
    with torch.no_grad():
        reward.model.score.weight.fill_(float("nan"))
    assert reward(["?"], ["a"]) == [None]


def test_a_model_with_two_labels_or_none_at_all_is_refused(tmp_path):
    with pytest.raises(RovrlError, match="2 labels: a reward needs exactly one"):
        ClassifierReward(classifier(tmp_path / "two", labels=2))
    with pytest.raises(RovrlError, match="could not be loaded"):
        ClassifierReward(str(tmp_path / "nowhere"))


def test_a_conversation_keeps_the_prompts_roles():
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    chat = conversation(asked, [{"role": "assistant", "content": "a"}])
    assert [message["role"] for message in chat] == ["system", "user", "assistant"]
    assert conversation("u", "a") == [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
