"""What a call leaves behind."""

import gc
from types import FrameType, TracebackType

from reward_servers import running_apart
from rovrl.tasks.remote import HttpReward

OWNERS = ("rovrl", "tenacity", "httpx", "httpcore", "anyio", "h11")


def test_calls_leave_nothing_to_the_garbage_collector_that_holds_what_the_server_sent():
    with running_apart(seed=3, share=0.6) as url:
        reward = HttpReward(url, batch=2, timeout=0.3, pause=0.001, patience=1e9)
        reward.breaker.pause = 0.01
        reward(["?"] * 8, ["a"] * 8)
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            reward(["?"] * 40, ["b"] * 40)
            gc.collect()
            left = [thing for thing in gc.garbage if isinstance(thing, FrameType | TracebackType) or owned(thing)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert reward.tally.retries > 10
    assert {type(thing).__qualname__ for thing in left} == set()


def owned(thing: object) -> bool:
    return type(thing).__module__.split(".")[0] in OWNERS
