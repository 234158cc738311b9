"""Systems with a Cholesky factor for many right-hand sides, compiled: some of these a thread.

NumPy's arrays are transposed ones in LAPACK's eyes, which would copy them there and back. Nothing
imports this module until points are chosen for many rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding
from numba import types
from numba.extending import get_cython_function_address

from grayzone.numerics.compiled import loop
from grayzone.numerics.team import share
from grayzone.numerics.threads import LOOPS, edges

Array = Any

# By name, not by address: what is compiled can then be kept on disk.
binding.add_symbol(
    "grayzone_dtrsm", get_cython_function_address("scipy.linalg.cython_blas", "dtrsm")
)
_dtrsm: Any = types.ExternalFunction("grayzone_dtrsm", types.void(*[types.voidptr] * 11))

_RIGHT, _LOWER, _TURNED, _AS_IT_IS = (np.array([ord(k)], dtype=np.uint8) for k in "RLTN")
_ONCE = np.ones(1)
_WORTH_A_THREAD = 500_000  # products that take a fifth of a millisecond


@loop()
def _solve(turned: Array, out: Array, start: int, stop: int) -> None:
    sizes = np.empty((3, 1), dtype=np.int32)
    sizes[0, 0], sizes[1, 0], sizes[2, 0] = stop - start, out.shape[0], out.shape[1]
    some, p, apart = sizes[0].ctypes, sizes[1].ctypes, sizes[2].ctypes
    # in Fortran's eyes these are rows of out': first times the inverse of L', then times that of L
    for how in (_TURNED, _AS_IT_IS):
        _dtrsm(
            _RIGHT.ctypes,
            _LOWER.ctypes,
            how.ctypes,
            _AS_IT_IS.ctypes,
            some,
            p,
            _ONCE.ctypes,
            turned.ctypes,
            p,
            out[0, start:].ctypes,
            apart,
        )


def solved(lower: Array, right: Array) -> Array:
    """Return the solutions (p, m) of L L' X = R.

    Parameters
    ----------
    lower : ndarray of shape (p, p)
        L, as LAPACK leaves it: one column after the other, with anything above its diagonal.
    right : ndarray of shape (p, m)
        R.
    """
    out = np.array(right, order="C")
    p, m = out.shape
    parts = edges(m, threads=p * p * m / _WORTH_A_THREAD, kind=LOOPS)
    share(_solve, (lower.T, out), (), parts)
    return out
