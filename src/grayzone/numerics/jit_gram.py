"""Weighted Gram matrices of many dense rows, compiled: one call a thread, no lock between blocks.

NumPy would take the interpreter's lock several times a block, for which sixteen threads queue; and
it mirrors every product, where one mirror at the end does. The product itself is SciPy's ``dsyrk``.
Nothing imports this module until many rows are fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import binding
from numba import types
from numba.extending import get_cython_function_address

from grayzone.numerics.compiled import loop
from grayzone.numerics.team import share

Array = Any

# By name, not by address: what is compiled can then be kept on disk.
binding.add_symbol(
    "grayzone_dsyrk", get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
)
dsyrk: Any = types.ExternalFunction("grayzone_dsyrk", types.void(*[types.voidptr] * 10))

# Constants: an array that is made in compiled code takes longer to compile than all the rest.
_LOWER, _AS_IT_IS = (np.array([ord(letter)], dtype=np.uint8) for letter in "LN")
_ONCE = np.ones(1)
_DOUBLES = 8  # in a line of the cache: rows of the buffer begin with one
_ALL = np.empty(0, dtype=np.intp)


@loop()
def _sum(
    X: Array,
    rows: Array,
    root: Array,
    residual: Array,
    intercept: bool,
    block: Array,
    sizes: Array,
    total: Array,
    pulled: Array,
    start: int,
    stop: int,
) -> None:
    """Set ``total``, which is zero, and ``pulled`` to the sums of the rows start to stop."""
    d, width = X.shape[1], total.shape[0]
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
        sizes[1, 0] = b - a
        # in Fortran's eyes: total += block block', the triangle that is the upper one here
        dsyrk(
            _LOWER.ctypes,
            _AS_IT_IS.ctypes,
            sizes[0].ctypes,
            sizes[1].ctypes,
            _ONCE.ctypes,
            block.ctypes,
            sizes[0].ctypes,
            _ONCE.ctypes,
            total.ctypes,
            sizes[0].ctypes,
        )
    for i in range(width):
        for j in range(i):
            total[i, j] = total[j, i]


def weighted_gram(
    X: Array,
    rows: Array | None,
    root: Array,
    residual: Array,
    intercept: bool,
    block_rows: int,
    edges: Sequence[int],
) -> tuple[Array, Array]:
    """Return the Gram matrix of rows times ``root``, and their product with ``residual``.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        C-contiguous, in single or double precision; sums are in double.
    rows : ndarray of int or None
        Which rows; None is all of them.
    root : ndarray of shape (n,)
        What each of the n rows is multiplied by.
    residual : ndarray of shape (n, Q)
        Factors of the sums of rows.
    intercept : bool
        Whether p is d + 1: a last column of ones.
    block_rows : int
        Rows whose scaled copy stays in the cache.
    edges : sequence of int
        Where parts of the n rows begin and end, one for each thread.

    Returns
    -------
    gram : ndarray of shape (width, width)
        Its first p rows and columns are meant; the others are zero.
    pulled : ndarray of shape (Q, d)
    """
    d = X.shape[1]
    width = -(-(d + intercept) // _DOUBLES) * _DOUBLES
    k, longest = len(edges) - 1, int(np.max(np.diff(edges)))
    block = np.empty((k, min(block_rows, max(1, longest)), width))
    total, pulled = np.zeros((k, width, width)), np.zeros((k, residual.shape[1], d))
    sizes = np.empty((k, _DOUBLES, 2), dtype=np.int32)  # a line of the cache for each thread
    sizes[:, 0, 0] = width
    given = X, _ALL if rows is None else rows, root, residual, intercept
    share(_sum, given, (block, sizes, total, pulled), edges)
    return total.sum(axis=0), pulled.sum(axis=0)
