r"""Functions spanned by kernel columns, in coordinates where their norm is the Euclidean one.

With :math:`K_S = RR'`, R lower triangular, the columns :math:`\Phi = K_{:,S} R^{-T}` span the same
functions as those of the chosen points S, and :math:`\|\Phi\beta\|_{\mathcal H} = \|\beta\|`. The
row of a training point l is :math:`\Phi_l = R^{-1}K_{S,l}`, so that a further point needs no
triangular solve: its *residual power* is :math:`r_l = K_{ll} - \|\Phi_l\|^2`, its column
:math:`(k_l - \Phi\Phi_l')/\sqrt{r_l}`, and :math:`(\Phi_l, \sqrt{r_l})` is the next row of R.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

Array = Any

_FIRST_ROOM = 32  # columns that there is room for at first


class NewtonBasis:
    """The columns, as points come and go.

    Parameters
    ----------
    diagonal : array of shape (n,)
        Kernel values of the rows with themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.greedy.basis import NewtonBasis
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> basis = NewtonBasis(np.diag(K))
    >>> for point in (0, 1):
    ...     basis.append(point, K[:, point])
    >>> np.allclose(basis.columns @ basis.columns.T, K)
    True
    """

    def __init__(self, diagonal: Array) -> None:
        self._diagonal = diagonal
        self.power = diagonal.astype(np.float64)  # residual power of every row
        self.points: list[int] = []
        self._columns = np.empty((diagonal.size, _FIRST_ROOM), order="F")
        self._factor = np.zeros((_FIRST_ROOM, _FIRST_ROOM))

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def columns(self) -> Array:
        """Phi, (n, q)."""
        return self._columns[:, : self.size]

    @property
    def factor(self) -> Array:
        """R, (q, q)."""
        return self._factor[: self.size, : self.size]

    def tried(self, point: int, column: Array) -> Array:
        """Phi with the column of one more point, (n, q + 1), which the next call overwrites."""
        q = self.size
        self._make_room(q + 1)
        new = self._columns[:, q]
        np.matmul(self.columns, self.columns[point], out=new)
        np.subtract(column, new, out=new)
        new /= sqrt(self.power[point])
        return self._columns[:, : q + 1]

    def append(self, point: int, column: Array) -> None:
        """Add a point, given its kernel column."""
        q = self.size
        new = self.tried(point, column)[:, q]
        self._factor[q, :q] = self._columns[point, :q]
        self._factor[q, q] = sqrt(self.power[point])
        self.power -= new * new
        self.points.append(int(point))

    def without(self, j: int) -> tuple[Array, Array]:
        """Phi and R with the j-th point left out: a rotation of the columns from there on."""
        rotation, upper = np.linalg.qr(np.delete(self.factor, j, axis=0).T)
        signs = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
        rotation *= signs
        return np.asfortranarray(self.columns @ rotation), (upper * signs[:, None]).T

    def remove(self, j: int, columns: Array, factor: Array) -> None:
        """Leave the j-th point out; the other arguments come from :meth:`without`."""
        del self.points[j]
        q = self.size
        self._columns[:, :q] = columns
        self._factor[:q, :q] = factor
        # afresh: what was subtracted would leave its rounding errors
        self.power = self._diagonal - np.einsum("ij,ij->i", columns, columns)

    def dual_coef(self, coef: Array) -> Array:
        """Coefficients (Q, q) of the kernel columns, from those of the basis: a = R^-T beta."""
        if not self.size:
            return np.zeros_like(coef)
        return solve_triangular(self.factor, coef.T, trans="T", lower=True).T

    def _make_room(self, n_columns: int) -> None:
        n, room = self._columns.shape
        if n_columns <= room:
            return
        columns = np.empty((n, 2 * room), order="F")
        columns[:, :room] = self._columns
        factor = np.zeros((2 * room, 2 * room))
        factor[:room, :room] = self._factor
        self._columns, self._factor = columns, factor
