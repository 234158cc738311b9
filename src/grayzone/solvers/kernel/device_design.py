"""Functions spanned by kernel values of rows on a device: the design of such fits."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

from grayzone.numerics.designs import Design
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.kernel.device_matrix import KernelValues

Array = Any


class DeviceKernelDesign(Design):
    """Rows on a device seen through a kernel: functions are spanned by all of them.

    The design of :class:`grayzone.numerics.kernel_design.KernelDesign` for arrays of any library.
    """

    forms_gram = False

    def __init__(self, kernel: Kernel, X: Array, fit_intercept: bool) -> None:
        self.kernel, self.X, self.fit_intercept = kernel, X, fit_intercept
        self.n_rows = self.n_features = int(X.shape[0])
        self.n_coef = self.n_rows + int(fit_intercept)

    @cached_property
    def values(self) -> KernelValues:
        """Kernel values of all pairs of rows."""
        return KernelValues(self.kernel, self.X)

    def function(self, coef: Array) -> Array:
        """Function that coefficients (n,) span, on all rows."""
        return self.values.product(coef[:, None])[:, 0]

    def scores(self, coef: Array) -> Array:
        spanned = self.values.product(coef[:, : self.n_rows].T)
        return spanned + coef[:, self.n_rows] if self.fit_intercept else spanned

    def gradient(self, residual: Array) -> Array:
        return self._append_sums(residual.T, residual)

    def row_squares(self) -> Array:
        return self.kernel.diagonal(self.X)

    def inner(self, rows: Array, others: Array) -> Array:
        return self.values.between(rows, others)

    def dot(self, coef: Array, other: Array, scores: Array | None = None) -> float:
        n = self.n_rows
        scores = self.scores(other) if scores is None else scores
        values = scores - other[:, n] if self.fit_intercept else scores
        return float(array_namespace(coef).sum(coef[:, :n].T * values))

    def gram(self, weights: Array, residual: Array, rows: Array | None = None) -> NoReturn:
        raise NotImplementedError("a kernel design has no Hessian of a size worth forming")

    def square_sums(self, weights: Array) -> NoReturn:
        raise NotImplementedError("kernels on a device are factorised, not preconditioned")

    def take(self, rows: Array) -> NoReturn:
        raise NotImplementedError("rows that take no part in a fit on a device weigh nothing")
