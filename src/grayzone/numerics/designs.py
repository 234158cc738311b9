"""What scores are linear in: dense and sparse matrices behind one contract.

A design answers four questions and keeps its matrix to itself:

``scores(coef)``
    (n, Q) scores of coefficients (Q, p); p counts the intercept, last, where there is one.
``gradient(residual)``
    (Q, p) transposed product of residuals (n, Q).
``gram(weights, residual, rows)``
    (M, p, p) matrices, the sums of w x x' over these rows for weights (len(rows), M), and the
    transposed product of these rows with residuals (len(rows), Q), in one pass.
``take(rows)``
    the design of these rows.

Everything is computed over blocks of rows that fit the cache: X is never copied whole, whatever
its order, precision or storage (memory-mapped or not), and all sums are in double precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import (
    LOOPS,
    ONE_PRODUCT,
    PRODUCTS,
    edges,
    long_product,
    split,
)

Array = Any

# Doubles in a block: half a megabyte, so that a block and its scaled copy stay in the L2 cache.
_BLOCK_SIZE = 2**16
# The same on devices, where what counts is the number of calls, and memory.
_DEVICE_BLOCK_SIZE = 2**26
# BLAS needs a minimum of rows for its inner products to reach their speed.
_MIN_BLOCK_ROWS = 128
# Stored values from which compiled loops are worth their loading.
MANY_STORED = 50_000
# Cost of a pair of entries of a sparse row, in multiply-adds of a dense product.
_PAIR = 4.0
# Multiply-adds for which the hand-over to a thread pays, and entries that are read once.
_WORTH_A_THREAD = 2_000_000
_READ_BY_A_THREAD = 250_000
# Entries of X from which a compiled Gram matrix is worth its loading.
_MANY_ENTRIES = 1_000_000


class Design(ABC):
    """What scores are linear in: the contract of dense and sparse matrices, and of kernels.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The matrix.
    fit_intercept : bool
        Whether there is an intercept, the last coefficient.

    See Also
    --------
    as_design : Makes one of a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import Design, as_design
    >>> design = as_design(np.eye(3), fit_intercept=True)
    >>> isinstance(design, Design), design.n_rows, design.n_coef
    (True, 3, 4)
    """

    # whether Gram matrices of its coefficients can be had
    forms_gram = True
    # whether exact Gram matrices of some rows cost more than coarse ones of all
    exact_is_dear = False

    def __init__(self, X: Array, fit_intercept: bool) -> None:
        self.X = X
        self.fit_intercept = fit_intercept
        self.n_rows, self.n_features = X.shape
        self.n_coef = self.n_features + int(fit_intercept)

    @cached_property
    def is_loaded(self) -> bool:
        """Whether compiled loops are at work on the rows, so that others cost little to load."""
        return False

    @cached_property
    def block_rows(self) -> int:
        """Rows in a block."""
        here = is_numpy_array(self.X) or sp.issparse(self.X)
        size = _BLOCK_SIZE if here else _DEVICE_BLOCK_SIZE
        return max(_MIN_BLOCK_ROWS, size // max(1, self.n_features))

    def blocks(
        self, start: int = 0, stop: int | None = None, copies: int = 1
    ) -> Iterator[tuple[int, int]]:
        """Return the consecutive row ranges that make up rows start to stop.

        Work that holds several copies of a block takes shorter ones.
        """
        stop = self.n_rows if stop is None else stop
        rows = max(_MIN_BLOCK_ROWS, self.block_rows // copies)
        for a in range(start, stop, rows):
            yield a, min(stop, a + rows)

    def _append_sums(self, slopes: Array, columns: Array) -> Array:
        """Add the intercept's entry, the sum of each column, to (Q, d) products."""
        if not self.fit_intercept:
            return slopes
        xp = array_namespace(columns)
        return xp.concat([slopes, xp.sum(columns, axis=0)[:, None]], axis=1)

    @abstractmethod
    def scores(self, coef: Array) -> Array:
        """Scores (n, Q) of coefficients (Q, p)."""

    @abstractmethod
    def gradient(self, residual: Array) -> Array:
        """Transposed product (Q, p) of residuals (n, Q)."""

    @abstractmethod
    def gram(
        self, weights: Array, residual: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        """Weighted Gram matrices (M, p, p) and transposed product (Q, p) of the given rows.

        ``weights`` (len(rows), M) and ``residual`` (len(rows), Q) belong to ``rows``; both are
        had from one reading of the data.
        """

    @abstractmethod
    def square_sums(self, weights: Array) -> Array:
        """Diagonals (M, p) of the weighted Gram matrices of all rows, for weights (n, M)."""

    @abstractmethod
    def row_squares(self) -> Array:
        """Squared norms (n,) of the rows, the intercept left out."""

    @abstractmethod
    def take(self, rows: Array) -> Design:
        """Design of these rows."""

    def part(self, rows: Array) -> Design:
        """Design of rows that stand for all: as exact as this one, where that is not exact."""
        return self.take(rows)

    @abstractmethod
    def inner(self, rows: Array, others: Array) -> Array:
        """Inner products of two sets of rows, the intercept left out."""

    def dot(self, coef: Array, other: Array, scores: Array | None = None) -> float:
        """Inner product of two functions, intercepts left out.

        ``scores`` are those of ``other``, for designs that can make use of them.
        """
        d = self.n_features
        return float(array_namespace(coef).sum(coef[:, :d] * other[:, :d]))

    def square_at_most(self, coef: Array) -> float:
        """Bound on the squared norm of a function that is cheaper than the norm; else infinite."""
        return np.inf

    @cached_property
    def _penalised(self) -> Array:
        mask = np.ones(self.n_coef)
        mask[self.n_features :] = 0.0
        return mask if sp.issparse(self.X) else moved(mask, self.X)

    def penalised(self) -> Array:
        """Ones for penalised coefficients, zero for the intercept."""
        return self._penalised


def _double(block: Array) -> Array:
    """Block in double precision; the block itself where it is so already."""
    xp = array_namespace(block)
    return block if block.dtype == xp.float64 else xp.astype(block, xp.float64)


def _gram_of(block: Array, weights: Array) -> Array:
    """Weighted Gram matrix; half of the work (syrk) with roots of the weights, where they exist."""
    if weights.size and weights.min() < 0:
        return (weights * block).T @ block
    scaled = np.sqrt(weights) * block
    return scaled.T @ scaled


class DenseDesign(Design):
    """A dense matrix of any array API namespace, C or Fortran order, any floating precision."""

    @cached_property
    def _whole_products(self) -> bool:
        """Whether BLAS can multiply X as it lies, with no hidden copy."""
        X = self.X
        contiguous = is_numpy_array(X) and (X.flags.c_contiguous or X.flags.f_contiguous)
        return contiguous and X.dtype == np.float64

    def extended(self) -> Array:
        """Rows (n, p) in double precision, a one for the intercept last."""
        rows, xp = _double(self.X), array_namespace(self.X)
        if not self.fit_intercept:
            return rows
        ones = xp.ones((self.n_rows, 1), dtype=xp.float64, device=device(self.X))
        return xp.concat([rows, ones], axis=1)

    @cached_property
    def _small(self) -> Array | None:
        """The same where that is one block: what surrounds products would cost more than these."""
        size, work = self.n_rows * self.n_coef, self.n_rows * self.n_coef**2
        small = size <= _BLOCK_SIZE and work <= _WORTH_A_THREAD and is_numpy_array(self.X)
        return self.extended() if small else None

    @cached_property
    def is_loaded(self) -> bool:
        """Whether compiled loops are worth their loading; what is taken of many rows is told so."""
        return is_numpy_array(self.X) and self.X.size > _MANY_ENTRIES

    def _taken(self, X: Array) -> DenseDesign:
        """Return the design of rows of this one: what was loaded for many serves fewer, too."""
        design = DenseDesign(X, self.fit_intercept)
        design.is_loaded = self.is_loaded
        return design

    def scores(self, coef: Array) -> Array:
        if self._small is not None:
            return self._small @ coef.T
        if self._looped:
            return self._scores_looped(coef)
        xp = array_namespace(coef)
        d = self.n_features
        slopes = coef[:, :d].T
        if self._whole_products:
            out = np.empty((self.n_rows, slopes.shape[1]))
            self._split(lambda a, b: np.matmul(self.X[a:b], slopes, out=out[a:b]))
        else:
            out = xp.concat([xp.matmul(_double(self.X[a:b, :]), slopes) for a, b in self.blocks()])
        return out + coef[:, d] if self.fit_intercept else out

    def gradient(self, residual: Array) -> Array:
        if self._small is not None:
            return residual.T @ self._small
        xp = array_namespace(residual)
        if self._looped:
            return self._pull_looped(residual)
        if self._whole_products:
            slopes = sum(self._split(lambda a, b: long_product(residual[a:b].T, self.X[a:b])))
        else:
            slopes = sum(
                xp.matmul(residual[a:b, :].T, _double(self.X[a:b, :])) for a, b in self.blocks()
            )
        return self._append_sums(slopes, residual)

    @cached_property
    def _looped(self) -> bool:
        """Whether compiled loops read X: they are loaded, and there is more of it than a block."""
        return self.is_loaded and self.X.flags.c_contiguous and self.X.size > _BLOCK_SIZE

    def _scores_looped(self, coef: Array) -> Array:
        # compile, so only when needed
        from grayzone.numerics.jit_rows import scores
        from grayzone.numerics.team import share

        known = np.zeros((coef.shape[0], self.n_features + 1))
        known[:, : coef.shape[1]] = coef
        out = np.empty((self.n_rows, coef.shape[0]))
        share(scores, (self.X, known, out), (), self._parts(self.n_rows))
        return out

    def _pull_looped(self, residual: Array) -> Array:
        from grayzone.numerics.jit_rows import pull
        from grayzone.numerics.team import share, sums

        parts = self._parts(self.n_rows)
        totals = sums(len(parts) - 1, residual.shape[1], self.n_features + 1)
        share(pull, (self.X, residual), (totals,), parts)
        return totals.sum(axis=0)[:, : self.n_coef]

    def _parts(self, n_rows: int) -> list[int]:
        values = n_rows * self.n_features
        return edges(n_rows, threads=values / _READ_BY_A_THREAD, kind=LOOPS)

    def _split(self, work: Callable[[int, int], Array]) -> list[Array]:
        # one product a thread, which leaves the interpreter alone
        threads = self.X.size / _READ_BY_A_THREAD
        return split(self.n_rows, work, threads=threads, kind=ONE_PRODUCT)

    def gram(
        self, weights: Array, residual: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        xp = array_namespace(weights)
        n, p, m = weights.shape[0], self.n_coef, weights.shape[1]
        if m == 1 and self._small is not None:
            block = self._small if rows is None else self._small[rows]
            return _gram_of(block, weights)[None], residual.T @ block
        threads = n * p * p * m / _WORTH_A_THREAD if is_numpy_array(self.X) else 1
        if threads > 1 and self.is_loaded and self.X.flags.c_contiguous:
            return self._gram_looped(weights, residual, rows, threads)
        # a multinomial Hessian has weights of both signs, a binary one has not
        rooted = m == 1 and is_numpy_array(self.X) and bool(xp.all(weights >= 0))
        if rooted:
            weights, residual = np.sqrt(weights), np.ascontiguousarray(residual)
        part = self._gram_rooted if rooted else self._gram_signed
        work = partial(part, weights, residual, rows)
        grams, pulls = zip(*split(n, work, threads=threads, kind=PRODUCTS), strict=True)
        return sum(grams), self._append_sums(sum(pulls), residual)

    def _gram_signed(
        self, weights: Array, residual: Array, rows: Array | None, start: int, stop: int
    ) -> tuple[Array, Array]:
        xp = array_namespace(self.X)
        p, m = self.n_coef, weights.shape[1]
        place = device(self.X)
        total = xp.zeros((p, m * p), dtype=xp.float64, device=place)
        pulled = xp.zeros((residual.shape[1], self.n_features), dtype=xp.float64, device=place)
        for a, b in self.blocks(start, stop, copies=m):
            block = _double(self.X[a:b, :] if rows is None else self._rows(rows[a:b]))
            pulled += xp.matmul(residual[a:b, :].T, block)
            if self.fit_intercept:
                ones = xp.ones((b - a, 1), dtype=xp.float64, device=place)
                block = xp.concat([block, ones], axis=1)
            scaled = xp.reshape(weights[a:b, :, None] * block[:, None, :], (b - a, m * p))
            total += xp.matmul(block.T, scaled)
        return xp.permute_dims(xp.reshape(total, (p, m, p)), (1, 0, 2)), pulled

    def _gram_rooted(
        self, root: Array, residual: Array, rows: Array | None, start: int, stop: int
    ) -> tuple[Array, Array]:
        """The same from square roots of weights: one operand twice halves the work (syrk)."""
        total = np.zeros((1, self.n_coef, self.n_coef))
        pulled = np.zeros((residual.shape[1], self.n_features))
        # in the order of X: transposing on the way costs as much as the product
        shape = min(self.block_rows, stop - start), self.n_coef
        buffer = np.empty(shape, order="C" if self.X.flags.c_contiguous else "F")
        for a, b in self.blocks(start, stop):
            block = self.X[a:b] if rows is None else self._rows(rows[a:b])
            scaled = buffer[: b - a]
            np.multiply(block, root[a:b], out=scaled[:, : self.n_features])
            if self.fit_intercept:
                scaled[:, -1:] = root[a:b]
            total[0] += scaled.T @ scaled
            pulled += long_product(residual[a:b].T, block)
        return total, pulled

    def _gram_looped(
        self, weights: Array, residual: Array, rows: Array | None, threads: float
    ) -> tuple[Array, Array]:
        """Do the same for many rows in one piece of compiled code."""
        from grayzone.numerics.jit_gram import weighted_gram

        p, residual = self.n_coef, np.ascontiguousarray(residual)
        parts = edges(weights.shape[0], threads=threads, kind=LOOPS)
        totals, pulled = weighted_gram(self.X, rows, weights, residual, self.fit_intercept, parts)
        return totals[:, :p, :p], pulled[:, :p]

    def square_sums(self, weights: Array) -> Array:
        xp = array_namespace(weights)
        slopes = sum(
            xp.matmul(weights[a:b, :].T, _double(self.X[a:b, :]) ** 2) for a, b in self.blocks()
        )
        return self._append_sums(slopes, weights)

    def row_squares(self) -> Array:
        if is_numpy_array(self.X):  # without a matrix of the squares
            return np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        xp = array_namespace(self.X)
        return xp.concat([xp.sum(_double(self.X[a:b, :]) ** 2, axis=1) for a, b in self.blocks()])

    def take(self, rows: Array) -> DenseDesign:
        if self._looped and isinstance(rows, np.ndarray) and rows.dtype.kind == "i":
            return self._taken(self._rows_looped(rows))
        if not (is_numpy_array(self.X) and self.X.flags.f_contiguous):
            return self._taken(_double(self._rows(rows)))
        # rows side by side, whatever the order of X: they are about to be read row by row
        taken = np.empty((rows.shape[0], self.n_features))
        for a in range(0, rows.shape[0], self.block_rows):
            taken[a : a + self.block_rows] = self.X[rows[a : a + self.block_rows]]
        return self._taken(taken)

    def _rows_looped(self, rows: Array) -> Array:
        # compile, so only when needed
        from grayzone.numerics.jit_rows import taken
        from grayzone.numerics.team import share

        out = np.empty((rows.size, self.n_features))
        share(taken, (self.X, *unsigned(rows), out), (), self._parts(rows.size))
        return out

    def _rows(self, rows: Array) -> Array:
        # NumPy's take would first make a copy of all of X in C order where it is not so already
        if is_numpy_array(self.X):
            return self.X[rows]
        return array_namespace(self.X).take(self.X, rows, axis=0)

    def inner(self, rows: Array, others: Array) -> Array:
        left, right = _double(self._rows(rows)), _double(self._rows(others))
        return array_namespace(left).matmul(left, right.T)


def unsigned(*indices: Array) -> tuple[Array, ...]:
    """Indices as compiled loops want them: signed ones might count from the end."""
    return tuple(i.view(np.dtype(f"u{i.dtype.itemsize}")) for i in indices)


class SparseDesign(Design):
    """A SciPy CSR or CSC array or matrix; columns are never centred, so zeros stay zeros."""

    def scores(self, coef: Array) -> Array:
        d = self.n_features
        slopes = np.ascontiguousarray(coef[:, :d].T)
        out = np.zeros((self.n_rows, slopes.shape[1]))
        for piece, rows, columns in self._pieces():
            out[rows] += piece @ slopes[columns]
        return out + coef[:, d] if self.fit_intercept else out

    def gradient(self, residual: Array) -> Array:
        return self._append_sums(self._transposed_product(residual), residual)

    def _transposed_product(self, columns_of_n: Array) -> Array:
        out = np.zeros((self.n_features, columns_of_n.shape[1]))
        for piece, rows, columns in self._pieces():
            out[columns] += piece.T @ columns_of_n[rows]
        return out.T

    def _pieces(self) -> Iterator[tuple[Any, slice, slice]]:
        """The matrix in double precision with the rows and columns it covers, whole or in pieces.

        SciPy would convert all of a single-precision matrix for each product with doubles.
        """
        every = slice(None)
        if self.X.dtype == np.float64:
            yield self.X, every, every
            return
        by_rows = self.X.format == "csr"
        length = self.n_rows if by_rows else self.n_features
        step = max(1, length * _BLOCK_SIZE // max(1, self.X.nnz))
        for a in range(0, length, step):
            part = slice(a, a + step)
            piece = self.X[part] if by_rows else self.X[:, part]
            yield piece.astype(np.float64), *((part, every) if by_rows else (every, part))

    def gram(
        self, weights: Array, residual: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        if rows is not None:
            weights, residual = self._scatter(weights, rows), self._scatter(residual, rows)
        d = self.n_features
        G = np.empty((weights.shape[1], self.n_coef, self.n_coef))
        fill = self._gram_by_columns
        if self.X.format == "csr":
            fill = self._gram_by_pairs if self._few_pairs else self._gram_by_rows
        G[:, :d, :d] = fill(weights)
        if self.fit_intercept:
            G[:, d, :d] = G[:, :d, d] = self._transposed_product(weights)
            G[:, d, d] = weights.sum(axis=0)
        return G, self.gradient(residual)

    def _scatter(self, values: Array, rows: Array) -> Array:
        full = np.zeros((self.n_rows, values.shape[1]))
        full[rows] = values
        return full

    @cached_property
    def _compiled(self) -> bool:
        """Whether compiled loops are worth their loading; those of a whole serve its parts, too."""
        return bool(self.X.nnz >= MANY_STORED)

    @cached_property
    def _few_pairs(self) -> bool:
        """Whether rows have so few entries that these are better paired one by one."""
        X = self.X
        if not (self._compiled and X.has_canonical_format):
            return False
        lengths = np.diff(X.indptr).astype(np.float64)
        return _PAIR * float(lengths @ lengths) <= self.n_rows * float(self.n_features) ** 2

    def _gram_by_pairs(self, weights: Array) -> Array:
        # compiles, so only when needed
        from grayzone.numerics.jit import add_pairs
        from grayzone.numerics.team import share

        d, m = self.n_features, weights.shape[1]
        threads = m * self.X.nnz / _READ_BY_A_THREAD
        parts = edges(self.n_rows, threads=threads, kind=LOOPS)
        totals = np.zeros((len(parts) - 1, m, d, d))
        given = *unsigned(self.X.indptr, self.X.indices), self.X.data, weights
        share(add_pairs, given, (totals,), parts)
        total = totals.sum(axis=0)
        return total + np.tril(total, -1).transpose(0, 2, 1)

    def _gram_by_rows(self, weights: Array) -> Array:
        """Through dense blocks of the rows that have a weight."""
        d, m = self.n_features, weights.shape[1]

        def part(start: int, stop: int) -> Array:
            total = np.zeros((d, m * d))
            for a, b in self.blocks(start, stop, copies=m):
                used = a + np.flatnonzero(np.any(weights[a:b] != 0.0, axis=1))
                if used.size:
                    block = self.X[used].toarray().astype(np.float64, copy=False)
                    scaled = (weights[used, :, None] * block[:, None, :]).reshape(-1, m * d)
                    total += block.T @ scaled
            return total

        threads = self.n_rows * d * d * m / _WORTH_A_THREAD
        total = sum(split(self.n_rows, part, threads=threads, kind=PRODUCTS))
        return total.reshape(d, m, d).transpose(1, 0, 2)

    def _gram_by_columns(self, weights: Array) -> Array:
        """Through dense blocks of columns: rows of a CSC matrix cannot be had cheaply."""
        d, m = self.n_features, weights.shape[1]
        width = max(1, 64 * _BLOCK_SIZE // self.n_rows)
        G = np.empty((m, d, d))
        for a in range(0, d, width):
            columns = self.X[:, a : a + width].toarray()
            for i in range(m):
                G[i, :, a : a + width] = self._transposed_product(columns * weights[:, i, None]).T
        return G

    def square_sums(self, weights: Array) -> Array:
        slopes = np.zeros((weights.shape[1], self.n_features))
        for square, a, b in self._squares():
            slopes += (square.T @ weights[a:b]).T
        return self._append_sums(slopes, weights)

    def row_squares(self) -> Array:
        return np.concatenate(
            [square @ np.ones(self.n_features) for square, _, _ in self._squares()]
        )

    def _squares(self) -> Iterator[tuple[Any, int, int]]:
        for a, b in self.blocks(copies=8):
            block = self.X[a:b].astype(np.float64)
            block.data **= 2
            yield block, a, b

    def take(self, rows: Array) -> Design:
        taken = SparseDesign(sp.csr_array(self.X[rows]), self.fit_intercept)
        taken._compiled = self._compiled
        return taken

    def inner(self, rows: Array, others: Array) -> Array:
        left, right = self.X[rows].astype(np.float64), self.X[others].astype(np.float64)
        return (left @ right.T).toarray()


def as_design(X: Array, fit_intercept: bool = True) -> Design:
    """Wrap a validated matrix.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The matrix, of finite numbers.
    fit_intercept : bool
        Whether there is an intercept.

    Returns
    -------
    Design
        The design.

    See Also
    --------
    Design : The contract.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> design = as_design(np.eye(3), fit_intercept=True)
    >>> design.scores(np.array([[1.0, 2.0, 3.0, 10.0]]))[:, 0]
    array([11., 12., 13.])
    """
    return (SparseDesign if sp.issparse(X) else DenseDesign)(X, fit_intercept)
