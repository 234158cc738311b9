"""How loops are compiled: those that Python calls, and the parts of which they are made.

A loop is kept on disk and releases the interpreter's lock. A part is compiled into the loops that
call it and is Python's otherwise: what lets Python or C call a compiled function takes up to half
of the time to compile a short one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.extending import register_jitable


class _Cache(FunctionCache):
    """What is kept on disk, which must not keep anything from being compiled."""

    def load_overload(self, *asked: Any) -> Any:
        try:
            return super().load_overload(*asked)
        except Exception:  # whatever a damaged file makes pickle do
            return None

    def save_overload(self, *made: Any) -> None:
        try:
            super().save_overload(*made)
        except Exception:
            with suppress(Exception):  # no room is left, or the folder is no longer to be written
                self.flush()  # a damaged index
                super().save_overload(*made)


def loop(**settings: Any) -> Callable[[Any], Any]:
    """Return what compiles a loop."""

    def compiled(function: Any) -> Any:
        compiler: Any = njit
        made = compiler(nogil=True, no_cfunc_wrapper=True, **settings)(function)
        with suppress(RuntimeError):  # no folder can be written: each process compiles it
            made._cache = _Cache(function)
        return made

    return compiled


part: Any = partial(register_jitable, no_cfunc_wrapper=True)

# A row's number as a place in arrays. Of one with a sign each array would have to ask whether it
# counts from the end, and several rows are no longer one instruction: that is eight times as slow.
place: Any = np.uint64


@part()
def clear(matrix: Any) -> None:
    """Set a matrix to zero: who sums sets its own, as zeros of all threads would keep one busy."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0
