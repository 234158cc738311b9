"""Functions spanned by kernel values: the design whose coefficients are one a training row.

A function of the kernel's space is f = sum_j c_j K(x_j, .), and its coefficients are (Q, p) arrays
like those of a matrix: c for each of Q outputs, the intercept last. Gradients are those of
the function space, whose inner product is c'Kc: the gradient of r'f is r itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from grayzone.numerics.designs import Design
from grayzone.numerics.kernels import Kernel

Array = Any


class KernelDesign(Design):
    """Rows of data seen through a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : {array, sparse matrix} of shape (n_centres, n_features)
        The rows that span the functions; square, with kernel values, for a precomputed kernel.
    fit_intercept : bool
        Whether the last coefficient is an intercept.
    rows : array of int, optional
        The rows of X that are rows of the design, all by default. Functions stay spanned by all.
    budget : float
        Bytes that kernel values may take.
    keep : bool
        Whether to keep all kernel values, where they fit the budget: for many products.
    share : bool
        Whether solvers may keep what they computed, for the next fit on the same design.
    """

    forms_gram = False

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        fit_intercept: bool = True,
        rows: Array | None = None,
        budget: float = 1e9,
        keep: bool = False,
        share: bool = False,
    ) -> None:
        self.kernel = kernel
        self.X = X
        self.fit_intercept = fit_intercept
        self.whole = rows is None  # X as it lies, with no copy of its rows
        self.rows = np.arange(X.shape[0]) if rows is None else rows
        self.budget = budget
        self.keep = keep
        self.memo: dict[Any, Any] | None = {} if share else None
        self.n_rows, self.n_features = self.rows.size, X.shape[0]
        self.n_coef = self.n_features + int(fit_intercept)

    @property
    def precision(self) -> float:
        """Relative precision of the kernel values."""
        given = self.kernel.name == "precomputed"
        return float(np.finfo(self.X.dtype if given else np.float64).eps)

    def data(self, rows: Array | slice = slice(None)) -> Array:
        """Data of these rows of the design, for left factors."""
        return self.X[self.rows[rows]]

    def right(self, rows: Array | slice = slice(None), dtype: Any = np.float64) -> Array:
        """Right factor of these rows of the design."""
        return self._right(self.rows[rows], dtype)

    def _right(self, centres: Array, dtype: Any = np.float64) -> Array:
        return (
            centres
            if self.kernel.name == "precomputed"
            else self.kernel.right(self.X[centres], dtype)
        )

    @cached_property
    def _stored(self) -> Array | None:
        """All kernel values, where they fit the budget."""
        if not self.keep or 8.0 * self.n_rows * self.n_features > self.budget:
            return None
        return self.inner_with(self.data(), np.arange(self.n_features))

    def scores(self, coef: Array) -> Array:
        d = self.n_features
        used = np.flatnonzero(np.any(coef[:, :d] != 0.0, axis=0))
        out = self._spanned(used, coef[:, used].T)
        return out + coef[:, d] if self.fit_intercept else out

    def _spanned(self, centres: Array, coef: Array) -> Array:
        if self._stored is not None:
            whole = centres.size == self.n_features
            return (self._stored if whole else self._stored[:, centres]) @ coef
        return self.added(centres, coef)

    def added(self, centres: Array, coef: Array) -> Array:
        """Values (n, Q) on all rows of coefficients (m, Q) on these centres, tile by tile."""
        if self.whole:
            return self.kernel.product(self.X, self._right(centres), coef)
        return self.kernel.product(self.data(), self._right(centres), coef)

    def gradient(self, residual: Array) -> Array:
        out = np.zeros((residual.shape[1], self.n_coef))
        out[:, self.rows] = residual.T
        if self.fit_intercept:
            out[:, -1] = residual.sum(axis=0)
        return out

    def gram(
        self, weights: Array, residual: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        raise NotImplementedError("a kernel design has no Hessian of a size worth forming")

    def square_sums(self, weights: Array) -> Array:
        # only constants commute with the kernel's inner product
        out = np.zeros((weights.shape[1], self.n_coef))
        if self.fit_intercept:
            out[:, -1] = weights.sum(axis=0)
        return out

    def row_squares(self) -> Array:
        return self.kernel.diagonal(self.X)[self.rows]

    def take(self, rows: Array) -> KernelDesign:
        return KernelDesign(
            self.kernel, self.X, self.fit_intercept, self.rows[rows], self.budget, self.keep
        )

    def keeping(self) -> KernelDesign:
        """Return the same design, which keeps its kernel values where they fit."""
        memo = {} if self.memo is None else self.memo
        if "keeping" not in memo:
            memo["keeping"] = KernelDesign(
                self.kernel,
                self.X,
                self.fit_intercept,
                None if self.whole else self.rows,
                self.budget,
                keep=True,
            )
        return memo["keeping"]

    def inner(self, rows: Array, others: Array) -> Array:
        return self.inner_with(self.data(rows), self.rows[others])

    def inner_with(self, data: Array, centres: Array) -> Array:
        """Kernel values of data with centres."""
        block = self.kernel.between(self.kernel.left(data), self._right(centres))
        return block.astype(np.float64, copy=False)

    def square_at_most(self, coef: Array) -> float:
        # functions of single rows have the rows' norms; no sum is longer than its parts
        norms = np.sqrt(np.maximum(self.row_squares(), 0.0))
        return float(np.sum((np.abs(coef[:, self.rows]) @ norms) ** 2))

    def dot(self, coef: Array, other: Array, scores: Array | None = None) -> float:
        d = self.n_features
        if scores is None:
            scores = self.scores(other)
        values = scores - other[:, d] if self.fit_intercept else scores
        return float(np.sum(coef[:, self.rows].T * values))
