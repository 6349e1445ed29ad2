"""How the CPU kernels are compiled: numba, without the interpreter lock, entry points cached on disk where one can write.

A cached entry holds the code of everything it calls, and numba renews it only when the entry's own file changes. So no
compiled function calls one of another file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache

RELAXED = {"reassoc", "contract", "arcp", "nsz", "afn"}
"""What lets a loop run eight elements at a time. Not `nnan`, `ninf`: a NaN among the elements must come out as a NaN."""


logger = logging.getLogger("rovrl")
_told = threading.Event()


class _Cache(FunctionCache):
    """numba's cache of one function, which may fail: the function is compiled in memory then, and the user is told once."""

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:  # numba's own guard, around both loading and saving
        try:
            yield
        except OSError as error:  # a full disk, a directory that is gone
            _tell(f"{type(error).__name__}: {error}")
        except Exception as error:  # a damaged file says whatever unpickling it raises
            _tell(f"a file in {self.cache_path} is damaged ({type(error).__name__})")
            with suppress(OSError):
                self.flush()


def _tell(reason: str) -> None:
    if not _told.is_set():
        _told.set()
        logger.warning(f"compiled kernels are not kept on disk, so each process compiles them anew (seconds): {reason}")


def entry(function: Callable) -> Callable:
    """`function` compiled on its first call, or read from the cache; what Python calls."""
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    with suppress(RuntimeError):  # nowhere to write: neither beside the package, nor in the user's cache directory
        compiled._cache = _Cache(function)
    return compiled


def helper(function: Callable) -> Callable:
    """`function` compiled into the entries that call it: IEEE arithmetic in the order written."""
    return numba.njit(error_model="numpy")(function)


def vectorised(function: Callable) -> Callable:
    """A helper whose loops may sum in any order and take approximate reciprocal roots (refined to the last bits)."""
    return numba.njit(error_model="numpy", fastmath=RELAXED)(function)
