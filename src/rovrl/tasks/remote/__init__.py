"""Rewards from servers: one client for several protocols, a judge, and what keeps them honest when servers are not."""

from rovrl.errors import require

for _package in ("httpx", "tenacity"):
    require(_package, extra="tasks")

from rovrl.tasks.remote.call import Limits, metrics  # noqa: E402
from rovrl.tasks.remote.client import HttpReward  # noqa: E402
from rovrl.tasks.remote.judge import JudgeReward  # noqa: E402
from rovrl.tasks.remote.protocols import PROTOCOLS  # noqa: E402
from rovrl.tasks.remote.transport import REASONS  # noqa: E402

__all__ = ["PROTOCOLS", "REASONS", "HttpReward", "JudgeReward", "Limits", "metrics"]
