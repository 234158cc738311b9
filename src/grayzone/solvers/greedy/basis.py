r"""Functions spanned by kernel columns, in coordinates where their norm is the Euclidean one.

With :math:`K_S = RR'`, R lower triangular, the columns :math:`\Phi = K_{:,S} R^{-T}` span the same
functions as those of the chosen points S, and :math:`\|\Phi\beta\|_{\mathcal H} = \|\beta\|`. The
row of a row l is :math:`\Phi_l = R^{-1}K_{S,l}`, so that a further point needs no
triangular solve: its *residual power* is :math:`r_l = K_{ll} - \|\Phi_l\|^2`, its column
:math:`(k_l - \Phi\Phi_l')/\sqrt{r_l}`, and :math:`(\Phi_l, \sqrt{r_l})` is the next row of R.

Columns are kept of a *pool* of rows in memory, among which points are chosen: of all rows where
these are held, else of some that were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import LOOPS, ONE_PRODUCT, edges, split
from grayzone.solvers.greedy.columns import KernelColumns, KnownColumns, kept_left
from grayzone.solvers.greedy.span import Known, Span, Spanned, solve_lower
from grayzone.sources.gather import draw_sample
from grayzone.sources.labelled import Labelled, Rows

Array = Any

_FIRST_ROOM = 32  # columns that there is room for at first
# Rows of streams that points are chosen from, at least, where they do not take too much memory:
# 32 MB of double precision.
POOL, _MOST_ENTRIES = 4096, 2**22
# Kernel values that are kept, because they are few: rows are candidates again and again. 16 MB at
# most, whatever n is.
_KEPT = 2**21
# Entries of the columns for which the hand-over to a thread pays.
_READ_BY_A_THREAD = 250_000
# Points whose distances from all rows are had sooner one by one than by a factor of the rows.
_FEW_POINTS = 4
# Residual power, relative to K_ll, below which a point adds nothing that its column can show: what
# is left of sums over many rows in single precision has two digits by then.
_LEAST_POWERS = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-2}


@dataclass(frozen=True)
class Pool:
    """Rows in memory that points are chosen from."""

    rows: Rows
    diagonal: Array  # (n,) kernel values of the rows with themselves
    complete: bool  # whether they are all rows there are


def pool_of(labelled: Labelled, kernel: Kernel, n_candidates: int | None) -> Pool:
    """Return all rows where they are held, else some that are drawn, stratified."""
    rows = labelled.held
    if rows is None:
        d, n = max(1, labelled.n_features), labelled.n_rows
        most = max(n_candidates or 0, min(POOL, _MOST_ENTRIES // d), len(labelled.classes))
        # all of them where they are few
        drawn = draw_sample(labelled, most if n > most else n * len(labelled.classes))
        rows = Rows(drawn.rows.X, drawn.rows.codes, drawn.rows.weight, 0, drawn.numbers, {})
        return Pool(rows, kernel.diagonal(rows.X), complete=False)
    if kernel.name != "precomputed":
        return Pool(rows, kernel.diagonal(rows.X), complete=True)
    diagonal = kernel.diagonal(labelled.source.like())
    return Pool(rows, array_namespace(diagonal).take(diagonal, rows.places()), complete=True)


class NewtonBasis:
    """The columns, as points come and go.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    pool : Pool
        Rows that points are chosen from; ``points`` are places among them.
    dtype : dtype
        Precision of the kernel values of candidates; columns are in double precision.
    many : bool
        Whether there will be so many kernel values that compiled loops are worth their loading.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.kernels import Kernel
    >>> from grayzone.solvers.greedy.basis import NewtonBasis, Pool
    >>> from grayzone.sources.labelled import Rows
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> rows = Rows(K, np.array([0, 1]), np.ones(2))
    >>> basis = NewtonBasis(Kernel("precomputed"), Pool(rows, np.diag(K), complete=True))
    >>> for point in (0, 1):
    ...     basis.append(point)
    >>> np.allclose(basis.columns @ basis.columns.T, K)
    True
    """

    def __init__(
        self, kernel: Kernel, pool: Pool, dtype: Any = np.float64, many: bool = False
    ) -> None:
        self.kernel, self.pool, self.dtype, self.many = kernel, pool, np.dtype(dtype), many
        xp = array_namespace(pool.diagonal)
        self.power = xp.astype(pool.diagonal, xp.float64)  # residual power of every row
        self.points: list[int] = []
        self._kind = {"dtype": xp.float64, "device": device(pool.diagonal)}
        # transposed: a column is a contiguous row of it
        self._rows = xp.empty((_FIRST_ROOM, pool.rows.n_rows), **self._kind)
        self._factor = xp.zeros((_FIRST_ROOM, _FIRST_ROOM), **self._kind)
        self.everyone = xp.arange(pool.rows.n_rows, dtype=xp.int64, device=device(pool.diagonal))

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def columns(self) -> Array:
        """Phi of the pool, (n, q)."""
        return self._rows[: self.size, :].T

    def columns_at(self, places: Array) -> Array:
        """Phi (m, q) of these rows of the pool."""
        # of the columns' transpose: of themselves, NumPy would copy all rows first
        return array_namespace(self._rows).take(self._rows[: self.size, :], places, axis=1).T

    @property
    def factor(self) -> Array:
        """R, (q, q)."""
        return self._factor[: self.size, : self.size]

    def enough_power(self) -> Array:
        """Whether rows have enough residual power to add something."""
        return self.power > _LEAST_POWERS[self.dtype] * self.pool.diagonal

    # ------------------------------------------------------------------------------------------
    # Kernel values
    # ------------------------------------------------------------------------------------------

    def candidates(self, places: Array) -> KernelColumns:
        """Kernel columns of these rows of the pool, in the precision of candidates."""
        rows, every = self.pool.rows, places is self.everyone
        if self._keeps():
            known = rows.state("kernel values", self.kernel, self._all_values)
            return KnownColumns(self.kernel, None, known=known, places=None if every else places)
        if every:
            name = f"right factor in {self.dtype}"
            right = rows.state(name, self.kernel, lambda: self.right(places, self.dtype))
        elif self.many and self.kernel.is_symmetric and is_numpy_array(rows.X):
            right = self.kernel.flipped(kept_left(rows, self.kernel, self.dtype)[places])
        else:
            right = self.right(places, self.dtype)
        return KernelColumns(self.kernel, right, self.dtype, True, self.many)

    def _keeps(self) -> bool:
        """Whether all kernel values are kept."""
        rows = self.pool.rows
        few = self.pool.complete and is_numpy_array(rows.weight) and rows.n_rows**2 <= _KEPT
        return few and self.dtype == np.float64 and self.kernel.name != "precomputed"

    def _all_values(self) -> Array:
        right = self.right(self.everyone)
        return KernelColumns(self.kernel, right).values(self.pool.rows).T

    def right(self, places: Array, dtype: Any = np.float64) -> Array:
        """Right factor of these rows of the pool; of a precomputed kernel, their numbers."""
        rows = self.pool.rows
        xp = array_namespace(rows.weight)
        if self.kernel.name == "precomputed":
            return xp.take(rows.places(), places)
        return self.kernel.right(self.rows_at(places), dtype)

    def rows_at(self, places: Array) -> Array:
        """These rows of the pool."""
        X = self.pool.rows.X
        if places is self.everyone:
            return X
        if sp.issparse(X) or is_numpy_array(X):
            return X[places]
        return array_namespace(X).take(X, places, axis=0)

    def kernel_values(self, places: Array) -> Array:
        """Kernel values (n, m) of the pool with these rows of it, in double precision."""
        if self._keeps():
            return self.candidates(places).values(self.pool.rows)
        keeps, rows = self.dtype == np.float64, self.pool.rows
        if not keeps and is_numpy_array(rows.X) and places.shape[0] <= _FEW_POINTS:
            kernel = self.kernel.by_differences()
            if kernel.is_far:
                right = kernel.right(self.rows_at(places))
                return KernelColumns(kernel, right, many=self.many).values(rows)
        return KernelColumns(self.kernel, self.right(places), keeps=keeps).values(rows)

    def places(self, points: list[int]) -> Array:
        """Places in the pool, as an array of its kind."""
        return moved(np.array(points, dtype=np.int64), self.everyone)

    # ------------------------------------------------------------------------------------------
    # Points
    # ------------------------------------------------------------------------------------------

    def _put(self, place: int, column: Array | None) -> None:
        """Make the next row of R and the next column those of this row of the pool."""
        q = self.size
        self._make_room(q + 1)
        own, root = self._rows[:q, place], sqrt(float(self.power[place]))
        if column is None:
            column = self.kernel_values(self.places([place]))[:, 0]
        self._factor[q, :q] = own
        self._factor[q, q] = root
        self._rows[q, :] = (column - self._product(own)) / root

    def _product(self, coef: Array) -> Array:
        """Phi times coefficients (q,), on all threads of this process where that pays."""
        columns = self.columns
        if not is_numpy_array(columns):
            return array_namespace(columns).matmul(columns, coef)
        (n, q), out = columns.shape, np.zeros(columns.shape[0])
        threads = columns.size / _READ_BY_A_THREAD
        if not self.many:
            # one product a thread, which leaves the interpreter alone
            work = partial(_put_product, columns, coef, out)
            split(n, work, threads=threads, kind=ONE_PRODUCT)
            return out
        from grayzone.numerics.jit import add_rows  # compiles, so only when needed

        parts = edges(n, threads=threads, kind=LOOPS)
        add_rows(out, self._rows, np.arange(q), np.ascontiguousarray(coef), parts)
        return out

    def append(self, place: int, column: Array | None = None) -> None:
        """Add a row of the pool; its kernel column there, where it is known."""
        self._put(place, column)
        new = self._rows[self.size, :]
        self.power = self.power - new * new
        self.points.append(place)

    def without(self, j: int) -> tuple[Array, Array]:
        """Phi and R with the j-th point left out: a rotation of the columns from there on."""
        xp = array_namespace(self._factor)
        rotation, upper = xp.linalg.qr(left_out(self.factor, j).T)
        signs = xp.where(xp.linalg.diagonal(upper) < 0, -1.0, xp.ones_like(upper[:, 0]))
        columns = xp.matmul((rotation * signs).T, self._rows[: self.size, :]).T
        return columns, (upper * signs[:, None]).T

    def remove(self, j: int, columns: Array, factor: Array) -> None:
        """Leave the j-th point out; the other arguments come from :meth:`without`."""
        del self.points[j]
        q = self.size
        self._rows[:q, :] = columns.T
        self._factor[:q, :q] = factor
        # afresh: what was subtracted would leave its rounding errors
        xp = array_namespace(columns)
        self.power = self.pool.diagonal - xp.sum(columns * columns, axis=1)

    def dual_coef(self, coef: Array) -> Array:
        """Coefficients (Q, q) of the kernel columns, from those of the basis: a = R^-T beta."""
        return solve_lower(self.factor, coef.T, transposed=True).T if self.size else coef

    def _make_room(self, n_columns: int) -> None:
        room, n = self._rows.shape
        if n_columns <= room:
            return
        xp = array_namespace(self._rows)
        rows = xp.empty((2 * room, n), **self._kind)
        rows[:room, :] = self._rows
        factor = xp.zeros((2 * room, 2 * room), **self._kind)
        factor[:room, :room] = self._factor
        self._rows, self._factor = rows, factor

    # ------------------------------------------------------------------------------------------
    # Columns of all rows
    # ------------------------------------------------------------------------------------------

    def span(self, points: list[int] | None = None, factor: Array | None = None) -> Span:
        """What gives the columns of any rows: of all points, or of these and their factor."""
        right = self.right(self.places(self.points if points is None else points))
        return Span(KernelColumns(self.kernel, right), self.factor if factor is None else factor)

    def _known(self, columns: Array) -> Known:
        return Known(columns, self.many)

    def spanned(self, labelled: Labelled) -> Spanned:
        """All rows with the columns of all points."""
        return Spanned(labelled, self._known(self.columns) if self.pool.complete else self.span())

    def spanned_with(self, labelled: Labelled, place: int, column: Array) -> Spanned:
        """All rows with one more column; the next one replaces it."""
        self._put(place, column)
        q = self.size + 1
        if self.pool.complete:
            return Spanned(labelled, self._known(self._rows[:q, :].T))
        return Spanned(labelled, self.span([*self.points, place], self._factor[:q, :q]))

    def spanned_without(self, labelled: Labelled, j: int, columns: Array, factor: Array) -> Spanned:
        """All rows without the j-th point; the last arguments come from :meth:`without`."""
        if self.pool.complete:
            return Spanned(labelled, self._known(columns))
        return Spanned(labelled, self.span(self.points[:j] + self.points[j + 1 :], factor))


def _put_product(columns: Array, coef: Array, out: Array, start: int, stop: int) -> None:
    np.matmul(columns[start:stop], coef, out=out[start:stop])


def left_out(rows: Array, j: int, axis: int = 0) -> Array:
    """Rows, or columns, without the j-th."""
    xp = array_namespace(rows)
    parts = (rows[:j, :], rows[j + 1 :, :]) if axis == 0 else (rows[:, :j], rows[:, j + 1 :])
    return xp.concat(parts, axis=axis)
