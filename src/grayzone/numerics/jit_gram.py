"""Weighted Gram matrices of many dense rows, compiled: one call a thread, no lock between blocks.

NumPy would take the interpreter's lock several times a block, for which sixteen threads queue; and
it mirrors every product, where one mirror at the end does. The product itself is SciPy's ``dsyrk``.
Nothing imports this module until many rows are fitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding
from numba import njit, types
from numba.extending import get_cython_function_address

Array = Any

# By name, not by address: what is compiled can then be kept on disk.
binding.add_symbol(
    "grayzone_dsyrk", get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
)
dsyrk: Any = types.ExternalFunction("grayzone_dsyrk", types.void(*[types.voidptr] * 10))

_DOUBLES = 8  # in a line of the cache: rows of the buffer begin with one


ALL = np.empty(0, dtype=np.intp)  # stands for the rows themselves, one after the other


@njit(cache=True, nogil=True)
def weighted_gram(
    X: Array,
    rows: Array,
    root: Array,
    residual: Array,
    intercept: bool,
    block_rows: int,
    start: int,
    stop: int,
) -> tuple[Array, Array]:
    """Return the Gram matrix of rows times ``root``, and their product with ``residual``.

    It also makes room for both: another thread would wait for the lock to do so.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        C-contiguous, in single or double precision; sums are in double.
    rows : ndarray of int
        Which rows; ``ALL`` is all of them.
    root : ndarray of shape (n,)
        What each of the n rows is multiplied by.
    residual : ndarray of shape (n, Q)
        Factors of the sums of rows.
    intercept : bool
        Whether p is d + 1: a last column of ones.
    block_rows : int
        Rows whose scaled copy stays in the cache.
    start, stop : int
        The part of the n rows that is summed.

    Returns
    -------
    gram : ndarray of shape (width, width)
        Its first p rows and columns are meant; the others are zero.
    pulled : ndarray of shape (Q, d)
    """
    d = X.shape[1]
    width = -(-(d + int(intercept)) // _DOUBLES) * _DOUBLES
    block = np.empty((min(block_rows, max(1, stop - start)), width))
    total, pulled = np.zeros((width, width)), np.zeros((residual.shape[1], d))
    letters = np.array([ord("L"), ord("N")], dtype=np.uint8)
    sizes = np.array([width, 0], dtype=np.int32)
    one = np.ones(1)
    for a in range(start, stop, block.shape[0]):
        b = min(stop, a + block.shape[0])
        for k in range(a, b):
            x = X[rows[k]] if rows.size else X[k]
            scaled, r = block[k - a], root[k]
            for j in range(d):
                scaled[j] = r * x[j]
            scaled[d:] = 0.0
            if intercept:
                scaled[d] = r
            for q in range(residual.shape[1]):
                g, into = residual[k, q], pulled[q]
                for j in range(d):
                    into[j] += g * x[j]
        sizes[1] = b - a
        # in Fortran's eyes: total += block block', the triangle that is the upper one here
        dsyrk(
            letters[:1].ctypes,
            letters[1:].ctypes,
            sizes[:1].ctypes,
            sizes[1:].ctypes,
            one.ctypes,
            block.ctypes,
            sizes[:1].ctypes,
            one.ctypes,
            total.ctypes,
            sizes[:1].ctypes,
        )
    for i in range(width):
        for j in range(i):
            total[i, j] = total[j, i]
    return total, pulled
