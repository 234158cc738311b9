r"""Basis functions :math:`\varphi(s)` of a row x around a row v, where s is linear in gamma.

:math:`s = \sum_l \gamma_l D_l(x, v)`, with :math:`D_l = -(x_l - v_l)^2` for Gaussians, eq. (18) of
Strohmann et al. (2004), and :math:`x_l v_l` for the others. Of sparse rows D is never formed:

.. math:: \sum_l \gamma_l D_l = 2\,x'(\gamma \circ v) - (x \circ x)'\gamma - \gamma'(v \circ v).

What cancels there is as large as :math:`\gamma'(v \circ v)`. Gammas are in units of the variances,
and a feature that is 0 in some row varies as much as it is large; one that is nowhere 0 may be far
from 0 and hardly vary, and is measured from its mean, which stores no entry more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace

Array = Any

_BLOCK_SIZE = 2**22  # entries of sparse rows that are dense at a time
_MOST_LOST = 1e6  # what may cancel in an exponent: of which rounding leaves errors of 1e-10


class Terms(Protocol):
    """D of all rows, as a linear map of gammas; these are NumPy's, wherever the rows are."""

    def dot(self, gamma: Array) -> Array:
        """s, (n,)."""

    def back(self, of_rows: Array) -> Array:
        """Sums over the rows of D times something, (d,)."""


@dataclass(frozen=True)
class _DenseTerms:
    D: Array  # (n, d)

    def dot(self, gamma: Array) -> Array:
        return self.D @ moved(gamma, self.D)

    def back(self, of_rows: Array) -> Array:
        return as_numpy(self.D.T @ of_rows)


@dataclass(frozen=True)
class _Products:
    """x_l v_l, of rows of any kind."""

    X: Array
    v: Array

    def dot(self, gamma: Array) -> Array:
        return self.X @ _beside(gamma * self.v, self.X)

    def back(self, of_rows: Array) -> Array:
        return self.v * as_numpy(self.X.T @ of_rows)


@dataclass(frozen=True)
class _SparseSquares:
    """-(x_l - v_l)^2 of sparse rows."""

    X: Array
    squares: Array  # of the entries of X
    v: Array

    def dot(self, gamma: Array) -> Array:
        s = 2.0 * (self.X @ (gamma * self.v)) - self.squares @ gamma - float(gamma @ self.v**2)
        return np.minimum(s, 0.0)

    def back(self, of_rows: Array) -> Array:
        return (
            2.0 * self.v * (self.X.T @ of_rows)
            - self.squares.T @ of_rows
            - self.v**2 * float(np.sum(of_rows))
        )


class Centred:
    """Rows for Gaussians: sparse ones with what is stored everywhere measured from its mean."""

    def __init__(self, X: Array) -> None:
        self.X, self.squares = X, None
        self.shift: Array = np.zeros(X.shape[1])
        if not sp.issparse(X):
            return
        X = X.copy()
        X.sum_duplicates()
        full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
        self.shift = np.where(full, np.asarray(X.mean(axis=0)).ravel(), 0.0)
        X.data -= self.shift[X.indices]
        self.X, self.squares = X, X.multiply(X).tocsr()

    def terms(self, v: Array) -> Terms:
        """D of all rows around one of them."""
        if self.squares is None:
            return _DenseTerms(-((self.X - moved(v, self.X)) ** 2))
        return _SparseSquares(self.X, self.squares, v - self.shift)


def row_of(X: Array, place: int) -> Array:
    """One row (d,), dense and NumPy's."""
    return X[[place]].toarray()[0] if sp.issparse(X) else as_numpy(X[place, :])


def _beside(values: Array, X: Array) -> Array:
    """Return numbers as an array that rows can be multiplied by."""
    return values if sp.issparse(X) else moved(values, X)


@dataclass(frozen=True)
class Family:
    """Basis functions of one kind.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.minimax.basis import Family
    >>> Family("gaussian").matrix(np.array([[0.0], [1.0]]), np.zeros((1, 1)), np.ones((1, 1)))
    array([[1.        ],
           [0.36787944]])
    """

    name: str
    degree: int = 3
    coef0: float = 1.0
    function: Callable[[Array, Array], Array] | None = field(default=None, compare=False)

    def terms(self, X: Array, centred: Centred | None, v: Array) -> Terms:
        """D of all rows; ``centred`` has them for Gaussians."""
        return _Products(X, v) if centred is None else centred.terms(v)

    def value(self, s: Array) -> Array:
        """phi(s)."""
        xp = array_namespace(s)
        if self.name == "gaussian":
            return xp.exp(s)
        return (s + self.coef0) ** self.degree if self.name == "poly" else xp.tanh(s + self.coef0)

    def slope(self, s: Array, value: Array) -> Array:
        """Derivative of phi, given its value."""
        if self.name == "gaussian":
            return value
        if self.name == "poly":
            return self.degree * (s + self.coef0) ** (self.degree - 1)
        return 1.0 - value**2

    def called(self, X: Array, v: Array) -> Array:
        """Values of a function that was given; sparse rows become dense a block at a time."""
        assert self.function is not None
        parts = []
        for block in dense_blocks(X):
            values = np.asarray(self.function(block, v), dtype=np.float64)
            if values.shape != (block.shape[0],) or not np.all(np.isfinite(values)):
                raise ValueError(
                    f"basis must return finite values of shape {(block.shape[0],)} for so many "
                    f"rows; got shape {values.shape}."
                )
            parts.append(values)
        return np.concatenate(parts)

    def matrix(self, X: Array, centres: Array, gammas: Array) -> Array:
        """Values of all bases, (n, k)."""
        if self.name == "callable":
            columns = [self.called(X, v) for v in centres]
            return np.column_stack(columns) if columns else np.empty((X.shape[0], 0))
        centres, gammas = _beside(centres, X), _beside(gammas, X)
        if self.name != "gaussian":
            return self.value(X @ (gammas * centres).T)
        if not sp.issparse(X):
            return self._gaussians(X, centres, gammas)
        if np.max(np.sum(gammas * centres**2, axis=1), initial=0.0) > _MOST_LOST:
            blocks = [self._gaussians(block, centres, gammas) for block in dense_blocks(X)]
            return np.concatenate(blocks)
        s = 2.0 * (X @ (gammas * centres).T) - X.multiply(X).tocsr() @ gammas.T
        return self.value(np.minimum(s - np.sum(gammas * centres**2, axis=1), 0.0))

    def _gaussians(self, X: Array, centres: Array, gammas: Array) -> Array:
        # around the mean of the bases, so that large coordinates do not cancel
        xp = array_namespace(X)
        middle = xp.mean(centres, axis=0) if centres.shape[0] else 0.0
        X, centres = X - middle, centres - middle
        s = 2.0 * X @ (gammas * centres).T - (X * X) @ gammas.T
        return self.value(xp.clip(s - xp.sum(gammas * centres**2, axis=1), max=0.0))


def dense_blocks(X: Array) -> Iterator[Array]:
    """Rows as they are, or sparse ones dense a block at a time."""
    if not sp.issparse(X):
        yield X
        return
    step = max(1, _BLOCK_SIZE // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        yield X[start : start + step].toarray()
