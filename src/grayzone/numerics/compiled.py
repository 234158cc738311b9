"""How loops are compiled: those that Python calls, and the parts of which they are made.

A loop is kept on disk and releases the interpreter's lock. A part is compiled into the loops that
call it and is Python's otherwise: what lets Python or C call a compiled function takes up to half
of the time to compile a short one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

loop: Any = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
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
