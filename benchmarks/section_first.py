"""A newcomer's first minute: README's snippet in a fresh process with nothing compiled, from `import torch` on."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import Row

README = Path(__file__).parents[1] / "README.md"
BEGIN = "import time, torch; _began = time.perf_counter(), time.process_time()\n"
FIRST = "_first = time.perf_counter() - _began[0], time.process_time() - _began[1]\n"
END = (
    "import json, sys; print(json.dumps([*_first, time.perf_counter() - _began[0], time.process_time() - _began[1]]))\n"
)


def run(quick: bool) -> list[Row]:
    """Seconds until the snippet's first advantages, and until its last line; every run with an empty cache of its own."""
    runs = [_measure() for _ in range(1 if quick else 5)]
    wall_first, cpu_first, wall, cpu = (sorted(column) for column in zip(*runs, strict=True))
    return [
        _row("README's snippet: first advantages after `import torch`, CPU seconds", cpu_first, wall_first),
        _row("the same: all of it, SoftRoVR and its gradient too, CPU seconds", cpu, wall),
    ]


def _row(name: str, cpu: list[float], wall: list[float]) -> Row:
    return Row(name, statistics.median(cpu), cpu[0], cpu[-1], must=2.0, note=f" {statistics.median(wall):.2f} s wall")


def _measure() -> list[float]:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    first, rest = code.split("# Token log-ratios", 1)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        script = BEGIN + first + FIRST + "# " + rest + END
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])
