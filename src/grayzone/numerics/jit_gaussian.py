"""Values of the Gaussian kernel of dense rows, compiled: one call a thread, in either precision.

NumPy would take the interpreter's lock several times a tile, for which threads queue; and it would
pass over each tile once for the product and once for the exponentials. Products are SciPy's
``sgemm`` and ``dgemm``, or in single precision those of ``jit_products``. Nothing imports this
module until a kernel is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grayzone.numerics.compiled import loop, part
from grayzone.numerics.jit_exponential import exponential
from grayzone.numerics.jit_products import PANEL, Others, as_they_are, multiply, products_64
from grayzone.numerics.team import share

Array = Any

# Columns whose exponentials are taken at a time, rows and columns of a tile of values that are
# kept, and numbers of one of values that are not: all of it stays in the cache.
_COLUMNS, _TILE_ROWS, _TILE_COLUMNS, _VALUES = 1024, 96, 512, 2**16
_PRODUCT_ROWS = 64  # of a tile in double precision
_MODEST = 1e50  # squared distances, times gamma, whose products are far from out of range
# All that does not change the order of sums: the reduction of an argument would be lost by that.
_IN_ORDER = {"contract", "nnan", "ninf", "nsz"}
# Single precision has no smaller power of e; logarithms of two, whose sum has more digits; and the
# coefficients of a polynomial for exp(r) - 1 - r, by r^2 (S. L. Moshier's Cephes, expf).
_LEAST, _PER_TWO = np.float32(-87.0), np.float32(1.4426950408889634)
_LN2, _REST = np.float32(0.693359375), np.float32(-2.1219444e-4)
_P5, _P4, _P3 = np.float32(1.9875691e-4), np.float32(1.3981999e-3), np.float32(8.3334519e-3)
_P2, _P1, _P0 = np.float32(4.1665795e-2), np.float32(1.6666665e-1), np.float32(5.0000001e-1)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)


@part(fastmath=_IN_ORDER)
def exponentials(x: Array, bits: Array, powers: Array) -> None:
    """Set x to exp(min(x, 0)), for which ``bits`` and ``powers`` are one array of as many numbers.

    exp(x) = 2^n exp(r) with |r| <= log(2) / 2, and the power of two is put together from its bits:
    without a branch or a call, so that several are worked out by one instruction.
    """
    for k in range(x.shape[0]):
        v = x[k] if x[k] < _ZERO else _ZERO
        v = v if v > _LEAST else _LEAST
        n = np.floor(v * _PER_TWO + _HALF)
        r = v - n * _LN2 - n * _REST
        p = ((((_P5 * r + _P4) * r + _P3) * r + _P2) * r + _P1) * r + _P0
        x[k] = p * (r * r) + r + _ONE
        bits[k] = np.int32(np.int32(n) + np.int32(127)) << np.int32(23)
    for k in range(x.shape[0]):
        x[k] *= powers[k]


@loop()
def _fill(
    left: Array,
    q: int,
    depth: int,
    right: Array,
    out: Array,
    width: int,
    tile: Array,
    bits: Array,
    powers: Array,
    start: int,
    stop: int,
) -> None:
    for c in range(start, stop, _TILE_COLUMNS):
        d = min(stop, c + _TILE_COLUMNS)
        for a in range(0, q, _TILE_ROWS):
            b = min(q, a + _TILE_ROWS)
            apart, first = multiply(left, depth, a, b, right, c, d, tile)
            for r in range(b - a):
                begin = r * apart + first
                values, kept = tile[begin : begin + d - c], out[(a + r) * width + c :]
                exponentials(values, bits[: d - c], powers[: d - c])
                for k in range(d - c):
                    kept[k] = values[k]


def fill(left: Array, others: Others, out: Array, edges: Sequence[int]) -> None:
    """Set columns of out (q, m), contiguous, to kernel values of q and m rows.

    From the first of the edges to the last; columns between two of them are one thread's.
    """
    parts, (q, m) = len(edges) - 1, out.shape
    bits = np.empty((parts, _COLUMNS), dtype=np.int32)
    tile = np.empty((parts, _TILE_ROWS * (_TILE_COLUMNS + 2 * PANEL)), dtype=np.float32)
    given = as_they_are(left), q, others.depth, others.numbers, out.reshape(-1), m
    share(_fill, given, (tile, bits, bits.view(np.float32)), edges)


@part(fastmath=True)
def _dot(one: Array, other: Array) -> float:
    total = _ZERO
    for k in range(one.shape[0]):
        total += one[k] * other[k]
    return total  # type: ignore[return-value]


@loop()
def _subtract(
    values: Array,
    left: Array,
    depth: int,
    right: Array,
    coef: Array,
    step: int,
    tile: Array,
    bits: Array,
    powers: Array,
    start: int,
    stop: int,
) -> None:
    q = coef.shape[0]
    for a in range(start, stop, step):
        b = min(stop, a + step)
        width, _ = multiply(left, depth, a, b, right, 0, q, tile)
        size = (b - a) * width
        for c in range(0, size, _COLUMNS):
            d = min(size, c + _COLUMNS)
            exponentials(tile[c:d], bits[: d - c], powers[: d - c])
        for r in range(b - a):
            values[a + r] -= _dot(tile[r * width : r * width + q], coef)


def subtract(values: Array, left: Array, others: Others, coef: Array, edges: Sequence[int]) -> None:
    """Take the sums of coef (q,) times kernel values with q rows from values between edges."""
    parts, width = len(edges) - 1, others.n_rows + PANEL
    bits, step = np.empty((parts, _COLUMNS), dtype=np.int32), max(1, _VALUES // width)
    tile = np.empty((parts, step * width), dtype=np.float32)
    given = values, as_they_are(left), others.depth, others.numbers, coef, step
    share(_subtract, given, (tile, bits, bits.view(np.float32)), edges)


@part(fastmath={"reassoc", "contract"})
def _dot_64(one: Array, other: Array) -> float:
    total = 0.0
    for k in range(one.shape[0]):
        total += one[k] * other[k]
    return total


@part()
def _put_left(X: Array, centre: Array, gamma: float, left: Array, start: int, stop: int) -> bool:
    """Set left factors of rows start to stop, as ``Kernel.left``; whether they are modest."""
    d, root, modest = X.shape[1], np.sqrt(2.0 * gamma), True
    for i in range(start, stop):
        row, square = left[i - start], 0.0
        for j in range(d):
            x = X[i, j] - centre[j]
            row[j] = root * x
            square += x * x
        row[d], row[d + 1] = -gamma * square, 1.0
        modest = modest and gamma * square <= _MODEST
    return modest


@loop()
def _add_product(
    X: Array,
    centre: Array,
    gamma: float,
    right: Array,
    coef: Array,
    out: Array,
    left: Array,
    tile: Array,
    start: int,
    stop: int,
) -> float:
    m, width = right.shape[0], tile.shape[1]
    for a in range(start, stop, tile.shape[0]):
        b = min(stop, a + tile.shape[0])
        if not _put_left(X, centre, gamma, left, a, b):
            return 1.0
        for c in range(0, m, width):
            d = min(m, c + width)
            products_64(left[: b - a], right[c:d], tile, width)
            for r in range(b - a):
                values = tile[r, : d - c]
                for k in range(d - c):
                    values[k] = exponential(values[k])
                for q in range(coef.shape[0]):
                    out[a + r, q] += _dot_64(values, coef[q, c:d])
    return 0.0


def add_product(
    X: Array,
    centre: Array,
    gamma: float,
    right: Array,
    coef: Array,
    out: Array,
    edges: Sequence[int],
) -> bool:
    """Add sums of coef (m, Q) times kernel values of rows of X with m others to out (n, Q).

    ``right`` are right factors of the others, in double precision, as rows counted from a centre
    have them. False where rows are so far away that what is no number might become one: ``out`` is
    of no use then.
    """
    k, depth = len(edges) - 1, right.shape[1]
    rows, width = _PRODUCT_ROWS, min(_COLUMNS // 2, right.shape[0])
    work = np.empty((k, rows, depth)), np.empty((k, rows, width))
    given = X, centre, gamma, right, np.ascontiguousarray(coef.T), out
    return not any(share(_add_product, given, work, edges))


@part(fastmath={"reassoc", "contract"})
def _square_distance(one: Array, other: Array) -> float:
    total = 0.0
    for k in range(one.shape[0]):
        apart = one[k] - other[k]
        total += apart * apart
    return total


@loop()
def _put_columns(X: Array, points: Array, gamma: float, out: Array, start: int, stop: int) -> None:
    for a in range(start, stop, _COLUMNS):
        b = min(stop, a + _COLUMNS)
        for i in range(points.shape[0]):
            values = out[i, a:b]
            for k in range(b - a):
                values[k] = -gamma * _square_distance(X[a + k], points[i])
            for k in range(b - a):
                values[k] = exponential(values[k])


def put_columns(X: Array, points: Array, gamma: float, out: Array, edges: Sequence[int]) -> None:
    """Set columns of out (t, n), between edges, to kernel values of points with rows of X.

    Distances are those of differences, in double precision; X (n, d) is C-contiguous, and its
    distances, times gamma, are finite.
    """
    share(_put_columns, (X, points, gamma, out), (), edges)
