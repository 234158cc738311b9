"""Pivoted Cholesky factors of kernel matrices of any array library, where they are.

LAPACK's algorithm in the terms of the array API: the columns of a block are made one by one, and
what they explain is then taken off the matrix in one product. Rows stay in their order.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.namespace import array_namespace

Array = Any

# Columns that are made before the matrix is updated.
_BLOCK_COLUMNS = 128


def pivoted_columns(K: Array, least: float) -> tuple[Array, Array]:
    """Return L with LL' = K up to a diagonal of ``least``, and the rows where L is triangular.

    The same factor as that of ``pivoted_factor``. K is overwritten by what is left of it. The
    numbers of the rows, of which each costs a scalar, are NumPy's.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from grayzone.numerics.pivoted import pivoted_columns
    >>> pivoted_columns(xp.asarray([[1.0, 2.0], [2.0, 4.0]]), 1e-12)
    (Array([[1.],
           [2.]], dtype=array_api_strict.float64), array([1]))
    """
    xp = array_namespace(K)
    free = xp.ones(K.shape[0], dtype=xp.bool, device=device(K))
    pivots: list[int] = []
    blocks = [_next_columns(K, free, pivots, least)]
    while blocks[-1].shape[1] == _BLOCK_COLUMNS and len(pivots) < K.shape[0]:
        K -= blocks[-1] @ blocks[-1].T
        blocks.append(_next_columns(K, free, pivots, least))
    return xp.concat(blocks, axis=1), np.asarray(pivots, dtype=np.intp)


def _next_columns(K: Array, free: Array, pivots: list[int], least: float) -> Array:
    """Columns of a block; adds their pivots, which are ``free`` no longer."""
    xp, n = array_namespace(K), K.shape[0]
    none = xp.zeros_like(K[:, 0])
    L = xp.zeros((n, min(_BLOCK_COLUMNS, n - len(pivots))), dtype=K.dtype, device=device(K))
    rest = xp.linalg.diagonal(K)
    for j in range(L.shape[1]):
        rest = xp.where(free, rest, none - inf)
        pivot = int(xp.argmax(rest))
        power = float(rest[pivot])
        if not power > least:
            return L[:, :j]
        column = K[pivot, :]
        if j:
            column = column - L[:, :j] @ L[pivot, :j]
        # rows that were pivots before have nothing left but rounding errors
        column = xp.where(free, column, none) / sqrt(power)
        L[:, j] = column
        rest = rest - column**2
        free[pivot] = False
        pivots.append(pivot)
    return L
