"""The short forms of `make soak`: chaos, a deadline, interruptions of the verifier, a job with a failing reward server."""

import pytest

from soak import chaos, generations, verifier


def test_every_score_is_right_or_none_whatever_the_server_does():
    found = chaos.run(400, deadline=60.0, seed=5)
    assert found["wrong"] == 0
    assert found["poison"] <= found["none"] < 100


def test_a_call_with_too_little_time_ends_in_time():
    found = chaos.run(3000, deadline=1.0, share=0.9, seed=6)
    assert found["wrong"] == 0
    assert found["none: deadline"] > 0
    assert found["seconds beyond the deadline"] < 1.0


@pytest.mark.slow
def test_no_verdict_is_wrong_and_no_process_left_after_interruptions_forks_kills_and_hostile_answers():
    found = verifier.run(interruptions=200)
    assert found["wrong"] == found["zombies"] == found["processes left"] == 0
    assert found["interrupted"] > 20


@pytest.mark.slow
def test_a_job_with_a_failing_reward_server_leaks_nothing_and_records_every_step(tmp_path):
    found = generations.run(15, tmp_path)
    assert found["records missing"] == 0
    assert found["retries in the notes"] == found["retries"] > 0
    assert found["descriptors grown in the second half"] <= 8
    assert found["megabytes grown in the second half"] < 50
