"""How the CPU kernels are compiled: numba, without the interpreter lock, entry points cached on disk where one can write.

A cached entry holds the code of everything it calls, and numba renews it only when the entry's own file changes. So no
compiled function calls one of another file.
"""

from __future__ import annotations

from collections.abc import Callable

import numba

RELAXED = {"reassoc", "contract", "arcp", "nsz", "afn"}
"""What lets a loop run eight elements at a time. Not `nnan`, `ninf`: a NaN among the elements must come out as a NaN."""


def entry(function: Callable) -> Callable:
    """`function` compiled on its first call, or read from the cache; what Python calls."""
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to write: neither beside the package, nor in the user's cache directory
        return helper(function)


def helper(function: Callable) -> Callable:
    """`function` compiled into the entries that call it: IEEE arithmetic in the order written."""
    return numba.njit(error_model="numpy")(function)


def vectorised(function: Callable) -> Callable:
    """A helper whose loops may sum in any order and take approximate reciprocal roots (refined to the last bits)."""
    return numba.njit(error_model="numpy", fastmath=RELAXED)(function)
