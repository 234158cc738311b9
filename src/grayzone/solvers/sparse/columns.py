"""Columns that a penalty may select from: features of rows, or their kernel values with others."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = Any

# Numbers whose absolute values are made at a time.
_PIECE = 2**20


class Columns:
    """A matrix of columns in double precision, dense or CSC, by number.

    Parameters
    ----------
    X : array of shape (n, m) or CSC matrix
        The columns.
    numbers : array of shape (m,), optional
        Their numbers among all.
    kernel : bool
        Whether the columns are kernel values, so that row i and column i belong together and the
        metric of the coefficients is X itself.
    """

    def __init__(self, X: Array, numbers: Array | None = None, kernel: bool = False) -> None:
        self.X = X
        self.n_rows, self.n_columns = X.shape
        self.numbers = np.arange(self.n_columns) if numbers is None else numbers
        self.kernel = kernel

    @classmethod
    def of(cls, X: Array, kernel: bool = False) -> Columns:
        """Take a matrix of any precision and order."""
        if sp.issparse(X):
            X = sp.csc_array(X, dtype=np.float64)
            X.sort_indices()
            return cls(X)
        return cls(np.asarray(X, dtype=np.float64), kernel=kernel)

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is sparse."""
        return sp.issparse(self.X)

    def take(self, places: Array) -> Array:
        """Return these columns, side by side."""
        if self.is_sparse:
            return self.X[:, places]
        if places.size == self.n_columns:
            return self.X
        return np.asfortranarray(self.X[:, places])

    def only(self, places: Array) -> Columns:
        """Return these columns with their numbers."""
        return Columns(self.take(places), self.numbers[places], self.kernel)

    def pulled(self, residual: Array) -> Array:
        """Transposed product (Q, m) of residuals (n, Q)."""
        if self.is_sparse:
            return (self.X.T @ residual).T
        return residual.T @ self.X

    def scores(self, slopes: Array) -> Array:
        """Scores (n, Q) of slopes (Q, m)."""
        used = np.flatnonzero(np.any(slopes != 0.0, axis=0))
        return self.take(used) @ slopes[:, used].T

    def metric(self, slopes: Array, values: Array) -> Array:
        """M a, of slopes (Q, m) whose scores without intercept are ``values``."""
        return values[self.numbers].T if self.kernel else slopes

    def square(self, slopes: Array, values: Array) -> float:
        """Squared norm a'Ma."""
        return float(np.sum(slopes * self.metric(slopes, values)))

    def metric_of(self, places: Array) -> Array:
        """M of these columns."""
        if not self.kernel:
            return np.eye(places.size)
        return self.X[np.ix_(self.numbers[places], places)]

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of M."""
        if not self.kernel:
            return np.ones(self.n_columns)
        return self.X[self.numbers, np.arange(self.n_columns)]

    def norms(self, weight: Array) -> Array:
        """Norms of the columns, in weights of rows that stay the same."""
        known = self.__dict__.get("_known_norms")
        if known is None or known[0] is not weight:
            self._known_norms = known = weight, np.sqrt(self._squares(weight))
        return known[1]

    def _squares(self, weight: Array) -> Array:
        if self.is_sparse:
            return self._with(self.X.data**2).T @ weight
        return np.einsum("i,ij,ij->j", weight, self.X, self.X)

    @cached_property
    def largest(self) -> Array:
        """Largest absolute value of each column."""
        if self.is_sparse:
            return abs(self.X).max(axis=0).toarray().ravel()
        high, low = self.X.max(axis=0, initial=0.0), self.X.min(axis=0, initial=0.0)
        return np.maximum(high, -low)

    def absolute_sums(self, weight: Array) -> Array:
        """Weighted sums of the columns' absolute values."""
        if self.is_sparse:
            return self._with(np.abs(self.X.data)).T @ weight
        total = np.zeros(self.n_columns)
        used = np.flatnonzero(weight)
        step = max(1, _PIECE // max(1, self.n_columns))
        for a in range(0, used.size, step):
            some = used[a : a + step]
            total += weight[some] @ np.abs(self.X[some])
        return total

    def _with(self, values: Array) -> Array:
        return sp.csc_array((values, self.X.indices, self.X.indptr), shape=self.X.shape)
