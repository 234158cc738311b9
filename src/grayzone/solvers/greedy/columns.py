"""Kernel values of rows with points, and sums over them, tile by tile: no large matrix exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from grayzone.numerics.kernels import WORTH_A_THREAD, Kernel, dtype_of
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import LOOPS, PRODUCTS, edges, long_product, split
from grayzone.sources.labelled import Rows

Array = Any
# Kernel values of points c to d, for rows that were settled before.
_Tile = Callable[[int, int], Array]

# A tile is long enough for BLAS and stays in the cache while all sums take what they need of it.
_COLUMNS, _ENTRIES = 512, 2**18
# On a device what counts is the number of calls.
_DEVICE_COLUMNS, _DEVICE_ENTRIES = 8192, 2**27
# Differences that take as long as an entry of a tile; compiled ones, and multiply-adds of products.
_AS_ONE, _DIFFERENCES, _PRODUCTS = 4, 2.5, 40
_DOUBLE = np.dtype(np.float64)


@dataclass(frozen=True)
class Factors:
    """Factors of kernel values of rows: each weight times each column of a row, then others.

    Parameters
    ----------
    columns : array of shape (n, q)
        Columns of the rows.
    weights : array of shape (n, t)
        What the columns are multiplied by.
    others : array of shape (n, r) or None
        Further factors, as they are.
    intercept : bool
        Whether there is one more column, of ones.
    """

    columns: Array
    weights: Array
    others: Array | None = None
    intercept: bool = False

    @property
    def size(self) -> int:
        """Number of factors of a row."""
        n_others = 0 if self.others is None else int(self.others.shape[1])
        return int(self.weights.shape[1] * (self.columns.shape[1] + self.intercept)) + n_others

    def __call__(self, a: int, b: int) -> Array:
        """Return the factors (b - a, s) of rows a to b."""
        own, weights = self.columns[a:b, :], self.weights[a:b, :]
        xp = array_namespace(weights)
        if self.intercept:
            ones = xp.ones((b - a, 1), dtype=xp.float64, device=device(weights))
            own = xp.concat([own, ones], axis=1)
        width = weights.shape[1] * own.shape[1]
        scaled = xp.reshape(weights[:, :, None] * own[:, None, :], (b - a, width))
        return scaled if self.others is None else xp.concat([scaled, self.others[a:b, :]], axis=1)


@dataclass(frozen=True)
class KernelColumns:
    """Kernel values of any rows with some points: small, for it travels with every task.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    right : array
        Right factor of the points; of a precomputed kernel, their numbers among all rows.
    dtype : dtype
        Precision of the kernel values of a tile.
    keeps : bool
        Whether rows that are held keep their left factor: the same rows will be asked again.
    many : bool
        Whether values will be so many that compiled loops are worth their loading.
    """

    kernel: Kernel
    right: Array
    dtype: Any = _DOUBLE
    keeps: bool = False
    many: bool = False

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.right.shape[0])

    def _tiles(self, rows: Rows) -> Callable[[int, int], _Tile]:
        """Return what makes tiles of rows a to b."""
        xp, left = array_namespace(rows.weight), self._left(rows)
        dtype = dtype_of(xp, self.dtype)

        def of_rows(a: int, b: int) -> _Tile:
            factor = left(a, b)

            def tile(c: int, d: int) -> Array:
                values = self.kernel.between(factor, _slice(self.right, c, d))
                return values if values.dtype == dtype else xp.astype(values, dtype)

            return tile

        return of_rows

    def _left(self, rows: Rows) -> Callable[[int, int], Array]:
        """Return what gives the left factor of rows a to b."""
        X, kernel = rows.X, self.kernel
        if sp.issparse(X) and not sp.issparse(self.right):  # points that were drawn from blocks
            X = X.tocsr()
            return lambda a, b: kernel.left(X[a:b].toarray(), self.dtype)
        here = rows.memory is not None and (sp.issparse(X) or is_numpy_array(X))
        if not (here and self.keeps) or kernel.name == "precomputed":
            return lambda a, b: kernel.left(_slice(X, a, b), self.dtype)
        whole = kept_left(rows, kernel, self.dtype)
        return lambda a, b: whole[a:b]

    def _shape(self, here: bool) -> tuple[int, int]:
        """Rows and columns of a tile."""
        columns = max(1, min(self.n_points, _COLUMNS if here else _DEVICE_COLUMNS))
        return max(1, (_ENTRIES if here else _DEVICE_ENTRIES) // max(columns, 16)), columns

    def _split(self, rows: Rows, work: Callable[[int, int], Any]) -> list[Any]:
        """Work through the rows, on all threads of this process where that pays."""
        here = is_numpy_array(rows.weight) and not callable(self.kernel.name)
        threads = rows.n_rows * self.n_points / WORTH_A_THREAD if here else 1
        if self.kernel.is_far and self.right is not None:  # differences of rows, no product
            threads *= max(1, self.right.shape[1] // _AS_ONE)
        return split(rows.n_rows, work, threads=threads, kind=PRODUCTS)

    def values(self, rows: Rows) -> Array:
        """Return all values (n, m), in double precision, one column after the other."""
        if self._is_compiled(rows, far=True) and rows.X.flags.c_contiguous:
            return self._values_compiled(rows)
        xp, m = array_namespace(rows.weight), self.n_points
        columns = xp.empty((m, rows.n_rows), dtype=xp.float64, device=device(rows.weight))
        tiles, (step, _) = self._tiles(rows), self._shape(is_numpy_array(rows.weight))

        def part(start: int, stop: int) -> None:
            for a in range(start, stop, step):
                b = min(stop, a + step)
                columns[:, a:b] = tiles(a, b)(0, m).T

        self._split(rows, part)
        return columns.T

    def sums(
        self, rows: Rows, factors: Callable[[int, int], Array], squares: Array | None = None
    ) -> tuple[Array, Array | None]:
        """Sums over rows of their kernel values with all points.

        Parameters
        ----------
        rows : Rows
            The rows.
        factors : callable
            Gives the factors (b - a, s) of rows a to b; kernel values times factors are summed.
        squares : array of shape (n, t), optional
            Factors of the squares of kernel values.

        Returns
        -------
        sums : array of shape (s, m)
            In double precision, whatever the precision of a tile is.
        square_sums : array of shape (t, m) or None
            None without ``squares``.
        """
        if isinstance(factors, Factors) and self._is_compiled(rows, far=False):
            return self._sums_compiled(rows, factors, squares)
        xp, m = array_namespace(rows.weight), self.n_points
        dtype, place = dtype_of(xp, self.dtype), device(rows.weight)
        product = long_product if is_numpy_array(rows.weight) else xp.matmul
        tiles, (step, width) = self._tiles(rows), self._shape(is_numpy_array(rows.weight))

        def part(start: int, stop: int) -> list[Array]:
            totals: list[Array] = []
            for a in range(start, stop, step):
                b = min(stop, a + step)
                tile_of, weights = tiles(a, b), [xp.astype(factors(a, b), dtype, copy=False).T]
                if squares is not None:
                    weights.append(xp.astype(squares[a:b, :], dtype, copy=False).T)
                if not totals:
                    kind = {"dtype": xp.float64, "device": place}
                    totals = [xp.zeros((w.shape[0], m), **kind) for w in weights]
                for c in range(0, m, width):
                    d = min(m, c + width)
                    tile = tile_of(c, d)
                    totals[0][:, c:d] += product(weights[0], tile)
                    if squares is not None:
                        # not in place: a tile may belong to a kernel function of the user
                        totals[1][:, c:d] += product(weights[1], tile * tile)
            return totals

        parts = [totals for totals in self._split(rows, part) if totals]
        found = [sum(of_threads) for of_threads in zip(*parts, strict=True)]
        return found[0], None if squares is None else found[1]

    def _is_compiled(self, rows: Rows, *, far: bool) -> bool:
        """Whether there is a compiled loop: for the Gaussian kernel of dense rows.

        By differences in double precision if ``far``, else by products in single precision.
        """
        if not (self.many and self.kernel.name == "rbf" and self.kernel.is_far == far):
            return False
        kind = np.float64 if far else np.float32
        dense = isinstance(rows.X, np.ndarray) and isinstance(self.right, np.ndarray)
        return dense and self.dtype == kind and self.n_points > 0

    def _values_compiled(self, rows: Rows) -> Array:
        from grayzone.numerics.jit_gaussian import put_columns  # compiles, so only when needed

        columns, gamma = np.empty((self.n_points, rows.n_rows)), self.kernel.gamma
        threads = rows.X.size * self.n_points / (_DIFFERENCES * WORTH_A_THREAD)
        parts = edges(rows.n_rows, threads=threads, kind=LOOPS)
        put_columns(rows.X, np.ascontiguousarray(self.right), gamma, columns, parts)
        return columns.T

    def _sums_compiled(
        self, rows: Rows, factors: Factors, squares: Array | None
    ) -> tuple[Array, Array | None]:
        from grayzone.numerics.jit_sums import kernel_sums  # compiles, so only when needed

        n, none = rows.n_rows, np.empty((rows.n_rows, 0))
        others = none if factors.others is None else factors.others
        given = [self._left(rows)(0, n), self.right, factors.columns.T, factors.weights, others]
        given.append(none if squares is None else squares)
        whole: list[Any] = [np.ascontiguousarray(a) for a in given]
        products = self.right.shape[1] + factors.size
        threads = n * self.n_points / WORTH_A_THREAD * (1 + products / _PRODUCTS)
        whole.append(edges(n, threads=threads, kind=LOOPS))
        sums, square_sums = kernel_sums(*whole, intercept=factors.intercept)
        return sums, None if squares is None else square_sums


@dataclass(frozen=True)
class KnownColumns(KernelColumns):
    """Kernel values that are looked up: those of few rows, which are asked again and again."""

    known: Array = None  # (n, n), a row for each point
    places: Array | None = None  # of the points; None is all of them

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.known.shape[0] if self.places is None else self.places.shape[0])

    def _tiles(self, rows: Rows) -> Callable[[int, int], _Tile]:
        places, known = self.places, self.known
        if places is None:
            return lambda a, b: lambda c, d: known[c:d, a:b].T
        return lambda a, b: lambda c, d: known[places[c:d], a:b].T

    def values(self, rows: Rows) -> Array:
        """Return all values (n, m)."""
        return (self.known if self.places is None else self.known[self.places]).T


def kept_left(rows: Rows, kernel: Kernel, dtype: Any) -> Array:
    """Left factor of rows that are held, which keep it."""
    return rows.state(f"left factor in {dtype}", kernel, lambda: kernel.left(rows.X, dtype))


def _slice(X: Array, a: int, b: int) -> Array:
    """Rows a to b of a matrix of any library, or of a list of numbers."""
    return X[a:b] if X.ndim == 1 else X[a:b, :]
