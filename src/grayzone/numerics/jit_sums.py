"""Sums over rows of their Gaussian kernel values with points, compiled: one call a thread.

NumPy would take the interpreter's lock several times a tile, for which threads queue; and it would
pass over each tile once for the product, for the exponentials and for the squares. Products are
SciPy's ``sgemm``. Nothing imports this module until points are chosen for many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grayzone.numerics.columns import sum_of_parts
from grayzone.numerics.compiled import clear, loop, part
from grayzone.numerics.jit_gaussian import exponentials
from grayzone.numerics.jit_products import AS_IT_IS, NOTHING, ONCE, products, sgemm
from grayzone.numerics.team import share
from grayzone.numerics.threads import longest

Array = Any

# Points of a tile, its values, and exponentials at a time: all of it stays in the cache.
_POINTS, _VALUES, _AT_A_TIME = 512, 2**16, 1024


@part()
def _put_factors(
    columns: Array,
    weights: Array,
    others: Array,
    intercept: bool,
    block: Array,
    start: int,
    stop: int,
) -> None:
    """Set rows of the block: each weight times each column, and times one, then the others."""
    # loops, for assignments of slices take seconds to compile
    size, at = stop - start, 0
    for i in range(weights.shape[1]):
        for j in range(columns.shape[0]):
            column, factor = columns[j, start:stop], block[at]
            for k in range(size):
                factor[k] = weights[start + k, i] * column[k]
            at += 1
        if intercept:
            for k in range(size):
                block[at, k] = weights[start + k, i]
            at += 1
    for i in range(others.shape[1]):
        for k in range(size):
            block[at, k] = others[start + k, i]
        at += 1


@part()
def _times(block: Array, tile: Array, size: int, width: int, out: Array) -> None:
    """Set out (s, width) to the product of a block (s, size) with a tile (size, width)."""
    sizes = np.empty((4, 1), dtype=np.int32)
    sizes[0, 0], sizes[1, 0], sizes[2, 0] = width, block.shape[0], size
    sizes[3, 0] = block.shape[1]
    wide, high, inner, apart = sizes[0].ctypes, sizes[1].ctypes, sizes[2].ctypes, sizes[3].ctypes
    # in Fortran's eyes all are transposed, and so is the product
    sgemm(
        AS_IT_IS.ctypes,
        AS_IT_IS.ctypes,
        wide,
        high,
        inner,
        ONCE.ctypes,
        tile.ctypes,
        wide,
        block.ctypes,
        apart,
        NOTHING.ctypes,
        out.ctypes,
        wide,
    )


@part(fastmath={"contract"})
def _add_squares(
    tile: Array, weights: Array, start: int, size: int, width: int, single: Array, squares: Array
) -> None:
    """Add weighted sums of the squares of a tile's values to the squares (t, width)."""
    for i in range(squares.shape[0]):
        sums = single[:width]
        for j in range(width):
            sums[j] = 0.0
        for k in range(size):
            weight, values = np.float32(weights[start + k, i]), tile[k * width : (k + 1) * width]
            for j in range(width):
                sums[j] += weight * (values[j] * values[j])
        for j in range(width):
            squares[i, j] += sums[j]


@loop()
def _sum(
    left: Array,
    right: Array,
    columns: Array,
    weights: Array,
    others: Array,
    squares: Array,
    intercept: bool,
    block: Array,
    tile: Array,
    single: Array,
    bits: Array,
    powers: Array,
    sums: Array,
    square_sums: Array,
    start: int,
    stop: int,
) -> None:
    m, step = right.shape[0], block.shape[1]
    clear(sums)
    clear(square_sums)
    for a in range(start, stop, step):
        b = min(stop, a + step)
        _put_factors(columns, weights, others, intercept, block, a, b)
        for c in range(0, m, _POINTS):
            d = min(m, c + _POINTS)
            width, size = d - c, (b - a) * (d - c)
            products(left[a:b], right[c:d], tile, width)
            for e in range(0, size, _AT_A_TIME):
                f = min(size, e + _AT_A_TIME)
                exponentials(tile[e:f], bits[: f - e], powers[: f - e])
            _times(block, tile, b - a, width, single)
            for i in range(sums.shape[0]):
                into, found = sums[i, c:d], single[i * width : (i + 1) * width]
                for j in range(width):
                    into[j] += found[j]
            _add_squares(tile, squares, a, b - a, width, single, square_sums[:, c:d])


def kernel_sums(
    left: Array,
    right: Array,
    columns: Array,
    weights: Array,
    others: Array,
    squares: Array,
    edges: Sequence[int],
    *,
    intercept: bool,
) -> tuple[Array, Array]:
    """Return sums over rows of factors times kernel values, and of others times their squares.

    Parameters
    ----------
    left, right : ndarray of shape (n, f) and (m, f)
        Factors of the rows and of the points, in single precision; all arrays are C-contiguous.
    columns : ndarray of shape (q, n)
        What is known of the rows.
    weights : ndarray of shape (n, t)
        Factors are these times the columns, and themselves where there is an intercept.
    others : ndarray of shape (n, r)
        Further factors.
    squares : ndarray of shape (n, v)
        Factors of the squares.
    edges : sequence of int
        Where parts of the rows begin and end, one for each thread.
    intercept : bool
        Whether ones are the last of the columns.

    Returns
    -------
    sums : ndarray of shape (s, m)
        Of t (q + 1) or t q factors, and r others; tiles are summed in double precision.
    square_sums : ndarray of shape (v, m)
    """
    n_factors = weights.shape[1] * (columns.shape[0] + intercept) + others.shape[1]
    m = right.shape[0]
    k, width = len(edges) - 1, min(m, _POINTS)
    step = min(_VALUES // width, max(1, longest(edges)))
    block = np.empty((k, n_factors, step), dtype=np.float32)
    tile, bits = np.empty((k, step * width), np.float32), np.empty((k, _AT_A_TIME), np.int32)
    single = np.empty((k, max(1, n_factors) * width), dtype=np.float32)
    sums, square_sums = np.empty((k, n_factors, m)), np.empty((k, squares.shape[1], m))
    given = left, right, columns, weights, others, squares, intercept
    work = block, tile, single, bits, bits.view(np.float32)
    share(_sum, given, (*work, sums, square_sums), edges)
    return sum_of_parts(sums), sum_of_parts(square_sums)
