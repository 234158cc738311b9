"""Columns of a kernel matrix and sums over them, tile by tile: no large matrix ever exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from grayzone.numerics.kernels import WORTH_A_THREAD, Kernel
from grayzone.numerics.threads import split

Array = Any

# A tile is long enough for BLAS and stays in the cache while all sums take what they need of it.
_COLUMNS, _ENTRIES = 512, 2**18
# Values that are kept, because they are few: rows are candidates again and again. 16 MB at most,
# whatever n is.
_KEPT = 2**21


def _tile_rows(n_columns: int) -> int:
    return _ENTRIES // min(max(n_columns, 16), _COLUMNS)


class KernelColumns:
    """Kernel values between some rows of X and points among them.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : {array, sparse matrix} of shape (n, n_features)
        Data; square, with kernel values, for a precomputed kernel.
    rows : array of int
        Rows of X that columns have entries for; points count within them.
    dtype : dtype
        Precision of the sums' kernel values; columns are in double precision.
    """

    def __init__(self, kernel: Kernel, X: Array, rows: Array, dtype: Any) -> None:
        self.kernel, self.X, self.rows = kernel, X, rows
        self.dtype = np.dtype(dtype)
        self.precomputed = kernel.name == "precomputed"
        self.n_rows = rows.size
        self._whole = rows.size == X.shape[0] and bool(np.all(rows == np.arange(rows.size)))
        self._threads = not callable(kernel.name)
        self._left = None if self.precomputed else kernel.left(self._data(slice(None)), dtype)
        self._keeps = not self.precomputed and self.dtype == np.float64 and rows.size**2 <= _KEPT

    def in_double(self) -> KernelColumns:
        """Give the same columns with sums in double precision."""
        return KernelColumns(self.kernel, self.X, self.rows, np.float64)

    def _data(self, rows: slice) -> Array:
        return self.X[rows] if self._whole else self.X[self.rows[rows]]

    def diagonal(self) -> Array:
        """Kernel values of the rows with themselves."""
        if self.precomputed:
            return np.asarray(self.X.diagonal(), dtype=np.float64)[self.rows]
        return self.kernel.diagonal(self._data(slice(None)))

    def _right(self, points: Array, dtype: Any) -> Array:
        chosen = self.rows[points]
        return chosen if self.precomputed else self.kernel.right(self.X[chosen], dtype)

    @cached_property
    def _kept(self) -> Array:
        """Columns of all rows, one after the other."""
        return self._computed(np.arange(self.n_rows)).T

    def column(self, points: Array) -> Array:
        """Columns of these points in double precision, (n, m), Fortran order."""
        return self._kept[points].T if self._keeps else self._computed(points)

    def _computed(self, points: Array) -> Array:
        out = np.empty((self.n_rows, points.size), order="F")
        right, tile_rows = self._right(points, np.float64), _tile_rows(points.size)

        def part(start: int, stop: int) -> None:
            for a in range(start, stop, tile_rows):
                some = slice(a, min(stop, a + tile_rows))
                left = self.kernel.left(self._data(some))
                out[some] = self.kernel.between(left, right)

        split(self.n_rows, part, worth=self._threads and out.size > WORTH_A_THREAD)
        return out

    def _tile(self, a: int, b: int, right: Array) -> Array:
        if self._left is None:
            return self._data(slice(a, b))[:, right].astype(self.dtype, copy=False)
        return self.kernel.between(self._left[a:b], right).astype(self.dtype, copy=False)

    def sums(
        self,
        points: Array,
        n_rows: int,
        factors: Callable[[int, int], Array],
        squares: Array | None = None,
    ) -> tuple[Array, Array]:
        """Sums over the first ``n_rows`` rows of their kernel values with all points.

        Parameters
        ----------
        points : array of int (m,)
            The points.
        n_rows : int
            How many rows are summed over.
        factors : callable
            Gives the factors (b - a, s) of rows a to b; kernel values times factors are summed.
        squares : array of shape (n_rows, t), optional
            Factors of the squares of kernel values.

        Returns
        -------
        sums : ndarray of shape (s, m)
            In double precision, whatever the precision of a tile is.
        square_sums : ndarray of shape (t, m)
            None of them without ``squares``.
        """
        # kept values are computed here, by all threads, not within one of them
        kept = self._kept if self._keeps else None
        right = points if self._keeps else self._right(points, self.dtype)
        m, tile_rows = points.size, _tile_rows(points.size)
        t = 0 if squares is None else squares.shape[1]

        def part(start: int, stop: int) -> tuple[Array, Array]:
            total, square = np.zeros((factors(start, start).shape[1], m)), np.zeros((t, m))
            for a in range(start, stop, tile_rows):
                b = min(stop, a + tile_rows)
                left = factors(a, b).astype(self.dtype, copy=False).T
                for c in range(0, m, _COLUMNS):
                    some = right[c : c + _COLUMNS]
                    tile = self._tile(a, b, some) if kept is None else kept[some, a:b].T
                    total[:, c : c + _COLUMNS] += left @ tile
                    if squares is not None:
                        weights = squares[a:b].astype(self.dtype, copy=False).T
                        # not in place: a tile may belong to a kernel function of the user
                        square[:, c : c + _COLUMNS] += weights @ (tile * tile)
            return total, square

        parts = split(n_rows, part, worth=self._threads and n_rows * m > WORTH_A_THREAD)
        totals, squared = zip(*parts, strict=True)
        return sum(totals), sum(squared)
