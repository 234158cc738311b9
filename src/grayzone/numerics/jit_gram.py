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

from grayzone.numerics.columns import sum_of_parts
from grayzone.numerics.compiled import clear, loop, part
from grayzone.numerics.team import share, sums
from grayzone.numerics.threads import longest

Array = Any

# By name, not by address: what is compiled can then be kept on disk.
binding.add_symbol(
    "grayzone_dsyrk", get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
)
dsyrk: Any = types.ExternalFunction("grayzone_dsyrk", types.void(*[types.voidptr] * 10))

# Constants: an array that is made in compiled code takes longer to compile than all the rest.
_LOWER, _AS_IT_IS = (np.array([ord(letter)], dtype=np.uint8) for letter in "LN")
_ONCE, _LESS = np.ones(1), -np.ones(1)
_DOUBLES = 8  # in a line of the cache: rows of the buffer begin with one
_NUMBERS, _LEAST_ROWS = 2**14, 128  # in a buffer, so that it stays in the cache; its rows
_ALL = np.empty(0, dtype=np.intp)


@part()
def _add(block: Array, first: int, stop: int, sign: Array, sizes: Array, total: Array) -> None:
    """Add the products of the columns of rows of a block: the triangle on the upper right."""
    sizes[1, 0] = stop - first
    # in Fortran's eyes: total += sign block block'
    dsyrk(
        _LOWER.ctypes,
        _AS_IT_IS.ctypes,
        sizes[0].ctypes,
        sizes[1].ctypes,
        sign.ctypes,
        block[first:].ctypes,
        sizes[0].ctypes,
        _ONCE.ctypes,
        total.ctypes,
        sizes[0].ctypes,
    )


@part()
def _pull(X: Array, rows: Array, residual: Array, pulled: Array, start: int, stop: int) -> None:
    """Add rows times their residuals, and the residuals."""
    for k in range(start, stop):
        x = X[rows[k]] if rows.size else X[k]
        for q in range(residual.shape[1]):
            g, into = residual[k, q], pulled[q]
            for j in range(X.shape[1]):
                into[j] += g * x[j]
            into[X.shape[1]] += g


@part()
def _put(
    X: Array,
    rows: Array,
    weights: Array,
    m: int,
    intercept: bool,
    block: Array,
    start: int,
    stop: int,
) -> tuple[int, int]:
    """Put rows times the roots of their weights into a block.

    Those of positive weights from its top on, those of negative ones at its end, those of none
    nowhere. Returns where the first stop and the others begin.
    """
    d, top, bottom = X.shape[1], 0, block.shape[0]
    for k in range(start, stop):
        w = weights[k, m]
        if w == 0.0:
            continue
        if w > 0.0:
            at, top = top, top + 1
        else:
            at = bottom = bottom - 1
        x, scaled, r = X[rows[k]] if rows.size else X[k], block[at], np.sqrt(abs(w))
        for j in range(d):
            scaled[j] = r * x[j]
        if intercept:
            scaled[d] = r
    return top, bottom


@loop()
def _sum(
    X: Array,
    rows: Array,
    weights: Array,
    residual: Array,
    intercept: bool,
    block: Array,
    sizes: Array,
    total: Array,
    pulled: Array,
    start: int,
    stop: int,
) -> None:
    """Set ``total`` and ``pulled`` to the sums of the rows start to stop.

    Rows times the roots of their weights are multiplied with themselves, which takes half of the
    work that rows and weighted rows would.
    """
    step = block.shape[0]
    clear(block)
    for m in range(total.shape[0]):
        clear(total[m])
    for a in range(start, stop, step):
        b = min(stop, a + step)
        _pull(X, rows, residual, pulled, a, b)
        for m in range(weights.shape[1]):
            top, bottom = _put(X, rows, weights, m, intercept, block, a, b)
            _add(block, 0, top, _ONCE, sizes, total[m])
            if bottom < step:
                _add(block, bottom, step, _LESS, sizes, total[m])
    for m in range(total.shape[0]):
        for i in range(total.shape[1]):
            for j in range(i):
                total[m, i, j] = total[m, j, i]


def weighted_gram(
    X: Array,
    rows: Array | None,
    weights: Array,
    residual: Array,
    intercept: bool,
    edges: Sequence[int],
) -> tuple[Array, Array]:
    """Return Gram matrices of weighted rows, and their product with ``residual``.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        C-contiguous, in single or double precision; sums are in double.
    rows : ndarray of int or None
        Which rows; None is all of them.
    weights : ndarray of shape (n, M)
        What products of each of the n rows with itself weigh in each matrix, of either sign.
    residual : ndarray of shape (n, Q)
        Factors of the sums of rows.
    intercept : bool
        Whether p is d + 1: a last column of ones.
    edges : sequence of int
        Where parts of the n rows begin and end, one for each thread.

    Returns
    -------
    grams : ndarray of shape (M, width, width)
        Their first p rows and columns are meant; the others are zero.
    pulled : ndarray of shape (Q, d + 1)
        The last of them are sums of the residuals.
    """
    d = X.shape[1]
    width = -(-(d + intercept) // _DOUBLES) * _DOUBLES
    k = len(edges) - 1
    block = np.empty((k, min(max(_LEAST_ROWS, _NUMBERS // width), max(1, longest(edges))), width))
    totals = np.empty((k, weights.shape[1], width, width))
    pulled = sums(k, residual.shape[1], d + 1)
    sizes = np.empty((k, _DOUBLES, 2), dtype=np.int32)  # a line of the cache for each thread
    sizes[:, 0, 0] = width
    given = X, _ALL if rows is None else rows, weights, residual, intercept
    share(_sum, given, (block, sizes, totals, pulled), edges)
    return sum_of_parts(totals), pulled.sum(axis=0)
