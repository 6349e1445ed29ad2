"""The answer verifier: math-verify in processes of its own, with limits."""

from rovrl.tasks.verify.memory import Memory
from rovrl.tasks.verify.pool import VerifierPool, default_workers, shared_pool
from rovrl.tasks.verify.process import Verdict

__all__ = ["Memory", "Verdict", "VerifierPool", "default_workers", "shared_pool"]
