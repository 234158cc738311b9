r"""The Newton basis where rows come in blocks.

Kept are the chosen rows S, their factor R, and the columns of a *pool* of rows in memory, among
which candidates are drawn. Where all rows are in one place, as on a device, they are the pool, and
their columns are known. Otherwise those of a block, :math:`\Phi = K_{:,S} R^{-T}`, are computed
again whenever it is read: nothing of the size of the rows is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array
from scipy.linalg import solve_triangular

from grayzone.numerics.backend import moved
from grayzone.numerics.kernels import Kernel
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks
from grayzone.sources.source import Block, Source, Sums, Task

Array = Any
# A task that is given a block of rows and their columns.
SpannedTask = Callable[[Rows, Array], Sums]

_FIRST_ROOM = 32  # columns that there is room for at first
# Entries of a tile: in memory those that stay in the cache, on a device those of few calls.
_ENTRIES, _DEVICE_ENTRIES = 2**18, 2**27


def tiles(X: Array, width: int) -> Iterator[tuple[int, int, Array]]:
    """Give consecutive rows of X, dense, so many that work of that width on them stays small."""
    here = sp.issparse(X) or is_numpy_array(X)
    step = max(1, (_ENTRIES if here else _DEVICE_ENTRIES) // max(width, 16))
    X = X.tocsr() if sp.issparse(X) else X
    for a in range(0, X.shape[0], step):
        b = min(X.shape[0], a + step)
        yield a, b, X[a:b].toarray() if sp.issparse(X) else X[a:b, :]


def kernel_values(kernel: Kernel, X: Array, right: Array) -> Array:
    """Kernel values (n, m) of the rows of X with m rows of that right factor."""
    parts = [
        kernel.between(kernel.left(tile), right) for _, _, tile in tiles(X, int(right.shape[0]))
    ]
    return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts)


def solve_lower(factor: Array, B: Array, *, transposed: bool = False) -> Array:
    """Solve R X = B, or R'X = B, for a lower triangular R."""
    if is_numpy_array(factor):
        return solve_triangular(factor, B, lower=True, trans="T" if transposed else "N")
    return array_namespace(factor).linalg.solve(factor.T if transposed else factor, B)


# ------------------------------------------------------------------------------------------
# Columns of any rows
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """What gives the columns of any rows: small, for it travels with every task."""

    kernel: Kernel
    right: Array  # right factor of the chosen rows
    factor: Array  # R (q, q)

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.factor.shape[0])

    def columns(self, X: Array) -> Array:
        """Phi (n, q) of rows of X."""
        if not self.size:
            return _no_columns(X.shape[0], self.factor)
        return solve_lower(self.factor, kernel_values(self.kernel, X, self.right).T).T


@dataclass(frozen=True)
class Known:
    """Columns of all rows, which are in one place; these rows are always the same."""

    known: Array

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.known.shape[1])

    def columns(self, X: Array) -> Array:
        """Phi (n, q) of the rows."""
        return self.known


def _no_columns(n: int, like: Array) -> Array:
    xp = array_namespace(like)
    return xp.zeros((n, 0), dtype=xp.float64, device=device(like))


@dataclass(frozen=True)
class Spanned:
    """Blocks of rows with their columns."""

    labelled: LabelledBlocks
    span: Span | Known

    def reduce(self, task: SpannedTask) -> Sums:
        """Sum a task over all blocks."""
        return self.labelled.reduce(_WithColumns(self.span, task))

    def linear(self) -> LabelledBlocks:
        """Give the same blocks with columns in the place of features."""
        source = ChangedSource(self.labelled.source, _InSpan(self.span), self.span.size)
        return replace(self.labelled, source=source)


@dataclass(frozen=True)
class _WithColumns:
    span: Span | Known
    task: SpannedTask

    def __call__(self, rows: Rows) -> Sums:
        return self.task(rows, self.span.columns(rows.X))


@dataclass(frozen=True)
class _InSpan:
    span: Span | Known

    def __call__(self, block: Block) -> Block:
        return block._replace(X=self.span.columns(block.X))


class ChangedSource(Source):
    """Blocks of another source, each of them changed where it is."""

    def __init__(self, base: Source, change: Callable[[Block], Block], n_features: int) -> None:
        self.base, self.change, self.n_features = base, change, n_features
        self.at_a_time = base.at_a_time

    def blocks(self) -> Iterator[Block]:
        """Read the blocks, and change them."""
        return map(self.change, self.base.blocks())

    def like(self) -> Array:
        """Give an array of the kind that sums are to be."""
        return self.base.like()

    def reduce(self, task: Task) -> Sums:
        """Sum a task over all changed blocks, as the other source does."""
        return self.base.reduce(_Changed(self.change, task))


@dataclass(frozen=True)
class _Changed:
    change: Callable[[Block], Block]
    task: Task

    def __call__(self, block: Block) -> Sums:
        return self.task(self.change(block))


# ------------------------------------------------------------------------------------------
# The basis itself
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Rows in memory that points are chosen from."""

    X: Array  # (m, d); all kernel values, for a precomputed kernel
    numbers: Array  # (m,) their numbers among all rows
    eligible: Array  # (m,) whether they may be chosen
    complete: bool  # whether they are all rows there are


class BlockBasis:
    """The chosen points as they come and go, and the columns of the pool.

    As :class:`grayzone.solvers.greedy.basis.NewtonBasis`, in any array library. ``points`` are
    places in the pool.
    """

    def __init__(self, kernel: Kernel, pool: Pool) -> None:
        self.kernel, self.pool = kernel, pool
        self.diagonal = kernel.diagonal(pool.X)
        self.power = self.diagonal
        self.points: list[int] = []
        xp = array_namespace(self.diagonal)
        self._zeros = {"dtype": xp.float64, "device": device(self.diagonal)}
        # transposed: a column is a contiguous row of it
        self._rows = xp.zeros((_FIRST_ROOM, int(pool.numbers.shape[0])), **self._zeros)
        self.factor = xp.zeros((0, 0), **self._zeros)

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def columns(self) -> Array:
        """Phi of the pool, (m, q)."""
        return self._rows[: self.size, :].T

    @property
    def numbers(self) -> Array:
        """Numbers of the points among all rows."""
        return array_namespace(self.pool.numbers).take(self.pool.numbers, self._places(self.points))

    def _places(self, points: list[int]) -> Array:
        return moved(np.array(points, dtype=np.int64), self.pool.numbers)

    def right(self, places: Array) -> Array:
        """Right factor of these rows of the pool."""
        xp = array_namespace(self.pool.numbers)
        if self.kernel.name == "precomputed":
            return xp.take(self.pool.numbers, places)
        return self.kernel.right(xp.take(self.pool.X, places, axis=0))

    def column(self, place: int) -> Array:
        """Kernel values of the pool with one of its rows."""
        right = self.right(self._places([place]))
        return kernel_values(self.kernel, self.pool.X, right)[:, 0]

    def _new_column(self, place: int, column: Array) -> Array:
        xp = array_namespace(column)
        spanned = xp.matmul(self.columns, self._rows[: self.size, place])
        return (column - spanned) / xp.sqrt(self.power[place])

    def _extended_factor(self, place: int) -> Array:
        xp, q = array_namespace(self.factor), self.size
        own = xp.concat([self._rows[:q, place], xp.sqrt(self.power[place : place + 1])])
        old = xp.concat([self.factor, xp.zeros((q, 1), **self._zeros)], axis=1)
        return xp.concat([old, own[None, :]])

    def append(self, place: int, column: Array) -> None:
        """Add a row of the pool, given its kernel column there."""
        new, q = self._new_column(place, column), self.size
        self.factor = self._extended_factor(place)
        self._put(q, new)
        self.power = self.power - new * new
        self.points.append(place)

    def _put(self, q: int, column: Array) -> None:
        if q == self._rows.shape[0]:
            xp = array_namespace(self._rows)
            self._rows = xp.concat([self._rows, xp.zeros(self._rows.shape, **self._zeros)])
        self._rows[q, :] = column

    def without(self, j: int) -> tuple[Array, Array]:
        """Phi and R with the j-th point left out: a rotation of the columns."""
        xp = array_namespace(self.factor)
        rotation, upper = xp.linalg.qr(left_out(self.factor, j).T)
        signs = xp.where(xp.linalg.diagonal(upper) < 0, -1.0, xp.ones_like(upper[:, 0]))
        return xp.matmul(self.columns, rotation * signs), (upper * signs[:, None]).T

    def remove(self, j: int, columns: Array, factor: Array) -> None:
        """Leave the j-th point out; the other arguments come from :meth:`without`."""
        xp = array_namespace(columns)
        del self.points[j]
        self._rows[: self.size, :] = columns.T
        self.factor = factor
        # afresh: what was subtracted would leave its rounding errors
        self.power = self.diagonal - xp.sum(columns * columns, axis=1)

    def dual_coef(self, coef: Array) -> Array:
        """Coefficients (Q, q) of the kernel columns, from those of the basis: a = R^-T beta."""
        return solve_lower(self.factor, coef.T, transposed=True).T if self.size else coef

    # ------------------------------------------------------------------------------------------
    # Columns of all rows
    # ------------------------------------------------------------------------------------------

    def spanned(self, labelled: LabelledBlocks) -> Spanned:
        """Give blocks of rows with the columns of all points."""
        return self._spanned(labelled, self.points, self.columns, self.factor)

    def spanned_with(self, labelled: LabelledBlocks, place: int) -> Spanned:
        """Give them with one more row of the pool; the next one replaces its column."""
        if not self.pool.complete:
            points = [*self.points, place]
            return self._spanned(labelled, points, None, self._extended_factor(place))
        self._put(self.size, self._new_column(place, self.column(place)))
        return Spanned(labelled, Known(self._rows[: self.size + 1, :].T))

    def spanned_without(
        self, labelled: LabelledBlocks, j: int, columns: Array, factor: Array
    ) -> Spanned:
        """Give them without the j-th point; the last arguments come from :meth:`without`."""
        return self._spanned(labelled, self.points[:j] + self.points[j + 1 :], columns, factor)

    def _spanned(
        self, labelled: LabelledBlocks, points: list[int], columns: Array | None, factor: Array
    ) -> Spanned:
        if columns is not None and self.pool.complete:
            return Spanned(labelled, Known(columns))
        return Spanned(labelled, Span(self.kernel, self.right(self._places(points)), factor))


def left_out(rows: Array, j: int, axis: int = 0) -> Array:
    """Rows, or columns, without the j-th."""
    xp = array_namespace(rows)
    parts = (rows[:j, :], rows[j + 1 :, :]) if axis == 0 else (rows[:, :j], rows[:, j + 1 :])
    return xp.concat(parts, axis=axis)
