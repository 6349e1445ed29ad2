"""Starts `python -m verl.trainer.main_ppo` with the harness, and reads what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HARNESS = Path(__file__).resolve().parent
ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"
SEQUENCE_LOSS = (
    f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
    f"{ACTOR}.clip_ratio_low=3e-4",
    f"{ACTOR}.clip_ratio_high=4e-4",
)


@dataclass
class Run:
    """One run of the trainer in `directory`; the process group dies with `stop`."""

    directory: Path
    process: subprocess.Popen
    ray_directory: str
    log: Path
    started: float = field(default_factory=time.monotonic)

    def wait(self, timeout: float = 1500) -> int:
        """The exit status; the process is stopped, and the log's end raised, when it takes longer than `timeout`."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the trainer took over {timeout} s:\n{self.tail()}") from None
        finally:
            self.stop()

    def wait_until(self, reached, timeout: float = 1500) -> None:
        """Returns when `reached()` is true; a trainer that ends before is an AssertionError with the log's end."""
        deadline = time.monotonic() + timeout
        while not reached():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"the trainer ended or took too long before that point:\n{self.tail()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends the processes of this run that are left, and removes Ray's temporary files."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            if self.process.poll() is None or pid != self.process.pid:
                _kill(pid)
        self.process.wait()
        for pid in _of_session(self.ray_directory):
            _kill(pid)
        shutil.rmtree(self.ray_directory, ignore_errors=True)

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def metrics(self) -> dict[int, dict]:
        """step -> metrics, as verl's own file logger wrote them (validation before training is step 0)."""
        steps: dict[int, dict] = {}
        for line in (self.directory / "metrics.jsonl").read_text().splitlines():
            entry = json.loads(line)
            numbers = {name: math.nan if value is None else value for name, value in entry["data"].items()}
            steps.setdefault(entry["step"], {}).update(numbers)  # verl's logger writes NaN as null
        return steps

    def rollouts(self, step: int) -> list[dict]:
        """The rows of verl's own dump of one step."""
        return [json.loads(line) for line in (self.directory / f"rollouts/{step}.jsonl").read_text().splitlines()]

    def workers(self, title: str) -> list[int]:
        """Pids of this run's Ray processes whose title contains `title` (ray::WorkerDict, ...)."""
        return [pid for pid in descendants(self.process.pid) if title in _title(pid)]


def launch(directory: Path, tiny: Path, *overrides: str, ranks: int = 1, steps: int = 2, nan: bool = False) -> Run:
    """Starts the trainer: 4 prompts x 4 responses per step, two optimizer steps each, spiked rewards."""
    directory.mkdir(parents=True, exist_ok=True)
    ray_directory = tempfile.mkdtemp(prefix="ray-")  # short: a socket's path has at most 107 characters
    log = directory / "log.txt"
    command = [sys.executable, "-m", "verl.trainer.main_ppo"]
    command += _overrides(directory, tiny, ranks, steps, nan, ray_directory) + list(overrides)
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=_environment(directory), cwd=directory
        )
    return Run(directory, process, ray_directory, log)


def _environment(directory: Path) -> dict[str, str]:
    harness = {
        "VERL_USE_EXTERNAL_MODULES": "verl_harness.register,rovrl.audit.verl",
        "PYTHONPATH": os.pathsep.join([str(HARNESS.parent), os.environ.get("PYTHONPATH", "")]),
        "VERL_ENGINE_DEVICE": "cuda",  # the FSDP engine is registered under this name
        "VERL_FILE_LOGGER_PATH": str(directory / "metrics.jsonl"),
        "OMP_NUM_THREADS": "1",
        "HYDRA_FULL_ERROR": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_enable_worker_prestart": "0",
        "RAY_worker_niceness": "0",  # as the driver: on a busy machine its 15 would starve them
        "RAY_AUTH_MODE": "disabled",
    }
    inherited = {k: v for k, v in os.environ.items() if k not in ("RAY_ADDRESS", "PYTEST_XDIST_WORKER")}
    return inherited | harness


def _overrides(directory: Path, tiny: Path, ranks: int, steps: int, nan: bool, ray_directory: str) -> list[str]:
    return [
        f"data.train_files={tiny}/train.parquet",
        f"data.val_files={tiny}/val.parquet",
        "data.train_batch_size=4",
        "data.max_prompt_length=64",
        "data.max_response_length=16",
        "data.dataloader_num_workers=0",
        "data.return_raw_chat=True",
        f"{MODEL}.path={tiny}",
        f"{MODEL}.use_remove_padding=False",
        f"{MODEL}.enable_gradient_checkpointing=False",
        f"+{MODEL}.override_config.attn_implementation=eager",
        f"{ACTOR}.strategy=fsdp2",
        f"{ACTOR}.ppo_mini_batch_size=2",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
        f"{ACTOR}.use_dynamic_bsz=False",
        f"{ACTOR}.use_torch_compile=False",
        f"{ACTOR}.fsdp_config.use_torch_compile=False",
        f"{ACTOR}.fsdp_config.model_dtype=fp32",
        f"{ACTOR}.fsdp_config.dtype=float32",
        f"+{ACTOR}.fsdp_config.mixed_precision.param_dtype=fp32",
        f"{ACTOR}.optim.lr=1e-3",
        f"{ACTOR}.use_kl_loss=False",
        f"{ROLLOUT}.name=harness",
        f"{ROLLOUT}.n=4",
        f"{ROLLOUT}.tensor_model_parallel_size=1",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=4",
        f"{ROLLOUT}.calculate_log_probs=True",
        f"{ROLLOUT}.agent.num_workers=1",
        f"{ROLLOUT}.load_format=auto",
        f"{ROLLOUT}.free_cache_engine=False",
        f"reward.custom_reward_function.path={HARNESS}/reward.py",
        "reward.custom_reward_function.name=compute_score",
        f"+reward.custom_reward_function.reward_kwargs.nan={nan}",
        "reward.num_workers=1",
        "trainer.device=cpu",
        f"trainer.n_gpus_per_node={ranks}",
        "trainer.nnodes=1",
        f"trainer.total_training_steps={steps}",
        'trainer.logger=["console","file"]',
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
        f"trainer.default_local_dir={directory}/checkpoints",
        f"trainer.rollout_data_dir={directory}/rollouts",
        f"trainer.validation_data_dir={directory}/validation",
        "+ray_kwargs.ray_init.address=local",
        f"+ray_kwargs.ray_init._temp_dir={ray_directory}",
        f"+ray_kwargs.ray_init.num_gpus={ranks}",
        "ray_kwargs.ray_init.num_cpus=16",  # actors are counted, not run, by this
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "+ray_kwargs.ray_init.object_store_memory=300000000",
        "+ray_kwargs.ray_init.include_dashboard=False",
    ]


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _of_session(ray_directory: str) -> list[int]:
    """Ray's helpers that outlive the driver name its temporary directory in their command line."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and ray_directory in _title(pid)]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
